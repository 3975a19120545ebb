"""Images in Parquet files, as the Hugging Face hub lays them out."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.config.recipe import Recipe
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.unreadable import readable
from scotoma.processes.untrusted import read_apart, table_apart
from scotoma.sources.contract import (
    FolderPlace,
    LookedAt,
    NetworkName,
    Orientation,
    Size,
    Source,
    SourceFiles,
    SourceTable,
    needed_columns,
    stored_sizes,
)
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from scotoma.config.model import Config


PLACES = ("", "data/", "plain_text/")  # where the hub keeps the files of a data set
SPLITS = ("train", "test")
IMAGES = ("image", "img")
OF_IMAGES = r"(train|test).*\.parquet"
OURS = ("split", "image")  # what the audit calls its own columns, beside example_id
READERS = 8  # objects downloaded at a time


class ParquetSource(Source):
    """Images and attributes in Parquet files, as the Hugging Face hub lays them out.

    `train*.parquet` and `test*.parquet`, in the folder or in `data/` or `plain_text/` below it. A
    column `image` or `img` has the fields `bytes` and `path`; other columns are labels and
    attributes. The id of a row is its `example_id`, or its split and number: `test-00042`.
    """

    kind: Literal["parquet"]
    model: NetworkName = "resnet8"
    data: FolderPlace = Field(
        description="Folder or s3:// prefix of train*.parquet and test*.parquet."
    )
    size: Size = None
    orientation: Orientation = "exif"
    recipe: Recipe = Recipe()

    def table(self, config: Config, *, images: bool) -> SourceTable:
        label, wanted = needed_columns(config)
        table = load_parquet(self.data, label, wanted, images=images, limits=config.limits)
        return SourceTable(table, self.data)

    def files_read(self, config: Config) -> SourceFiles:
        names = [name for own in split_files(self.data).values() for name in own]
        return SourceFiles({"data": StampedFiles(self.data, tuple(names))})

    def stored_images(self, config: Config) -> LookedAt:
        sizes = stored_sizes(self.data, OF_IMAGES)
        smallest = min(sizes, key=sizes.__getitem__)
        with storage.at_hand(storage.join(self.data, smallest)) as path:
            table = table_apart(
                _first, path, self.data, path=path, called=self.data, limits=config.limits
            )
        images = table["image"].struct.field("bytes")
        return LookedAt(images[0] if len(images) else None, sum(sizes.values()))


@dataclass(frozen=True)
class Shards:
    """The rows of all files of a data set.

    Attributes:
        table: One row an image: `example_id`, `split`, `image` (unless left out), own columns.
        class_names: Of the columns that the hub declares as classes: the name of each class id.
    """

    table: pl.DataFrame
    class_names: dict[str, tuple[str, ...]]


def load_parquet(
    uri: str,
    label: str,
    wanted: Collection[str] = (),
    *,
    images: bool = True,
    limits: ReaderLimits = LIMITS,
) -> pl.DataFrame:
    """Read a data set and check its labels.

    Args:
        uri: Folder or `s3://` prefix with `train*.parquet` and `test*.parquet`, or with a folder
            `data` or `plain_text` that holds them; several files a split are its shards.
        label: Column of the label. Where the hub declares it as classes, their names are shown.
        wanted: The other columns that must be there.
        images: Whether to read the images.
        limits: Memory and time for reading each file.

    Returns:
        One row an image: `example_id` (the column of that name, else split and row: `test-00042`),
        `split`, every column of plain values, and `image` if `images` is set: `bytes`, and
        as `path` the file and the row it came from.

    Raises:
        DataError: No such files, a shard missing, a file that is no Parquet or no table of images,
            an image without bytes, columns that differ between files, or a label that is no class.
    """
    shards = read_shards(uri, [label, *wanted], images=images, limits=limits)
    table = shards.table
    if label not in table.columns:
        return table  # refused with all other absent columns
    values = table[label]
    if names := shards.class_names.get(label):
        return table.with_columns(named_classes(values, table["example_id"], names, uri))
    if values.dtype.is_signed_integer() and not set(values.unique()) <= {-1, 1}:
        _refuse(
            values < 0,
            table,
            f"label column {label!r} of {uri} must not be negative (the hub marks unlabelled rows "
            "by -1)",
        )
    return table


def named_classes(
    values: pl.Series, ids: pl.Series, names: Sequence[str], origin: str
) -> pl.Series:
    """Turn class ids into the names of their classes; null stays null.

    Args:
        values: Class ids, or names that are names of classes already.
        ids: What the rows are called.
        names: Name of class 0, of class 1 and so on.
        origin: What messages call the table.

    Raises:
        DataError: An id or a name is none of them; the first such row is named.

    >>> named_classes(pl.Series("y", [1, 0]), pl.Series(["a", "b"]), ["cat", "dog"], "t").to_list()
    ['dog', 'cat']
    """
    table = pl.DataFrame({"example_id": ids, values.name: values})
    if values.dtype.is_integer():
        known = values.is_between(0, len(names) - 1)
        rule = f"must be class ids 0 to {len(names) - 1}"
        text = pl.Series(values.name, names, dtype=pl.String).gather(
            values.set(~known.fill_null(False), None)
        )
    else:
        text = values.cast(pl.String)
        known, rule = text.is_in(list(names)), f"must be one of {', '.join(names)}"
    _refuse(~known, table, f"label column {values.name!r} of {origin} {rule}")
    return text.alias(values.name)


def _refuse(wrong: pl.Series, table: pl.DataFrame, rule: str) -> None:
    """Refuse a table in which some values break a rule; nulls break none."""
    if count := int(wrong.sum()):
        row = wrong.arg_max() or 0
        example_id, value = table["example_id"][row], table[wrong.name][row]
        raise DataError(
            printable(
                f"{rule}, got {value!r} in {count:,} row{'s' if count > 1 else ''}, the first is "
                f"{example_id!r}; correct or remove {'them' if count > 1 else 'it'}"
            )
        )


def read_shards(
    uri: str,
    wanted: Collection[str] = (),
    *,
    images: bool = True,
    limits: ReaderLimits = LIMITS,
) -> Shards:
    """Read the files of both splits, shard after shard in the order of their names.

    Args:
        uri: See `load_parquet`.
        wanted: Columns that are needed; of the others those with plain values are read too.
        images: See `load_parquet`.
        limits: See `load_parquet`.

    Raises:
        DataError: See `load_parquet`; labels are not checked.
    """
    if clashes := sorted(set(OURS) & set(wanted)):
        raise DataError(f"column {clashes[0]!r} of {uri} has a reserved name; rename it")
    files = split_files(uri)
    parts: list[pl.DataFrame] = []
    class_names: dict[str, tuple[str, ...]] = {}
    with _local(uri, [name for names in files.values() for name in names]) as paths:
        for split, names in files.items():
            for name in names:
                called = storage.join(uri, name)
                part = table_apart(
                    *(_read, paths[name], called, wanted, images),
                    path=paths[name], called=called, limits=limits,
                )  # fmt: skip
                path = pl.concat_str(pl.lit(f"{name} row "), pl.int_range(pl.len()))
                if images:
                    _refuse_absent_bytes(part["image"], called)
                    bytes_ = pl.col("image").struct.field("bytes")
                    part = part.with_columns(pl.struct(bytes_, path.alias("path")).alias("image"))
                parts.append(part.with_columns(pl.lit(split).alias("split")))
                declared = read_apart(
                    _class_names, paths[name], path=paths[name], called=called, limits=limits
                )
                _declare(class_names, {c: tuple(names) for c, names in declared.items()}, called)
    names = [name for one in files.values() for name in one]
    return Shards(_identified(_stacked(parts, names, uri, wanted), uri), class_names)


def split_files(uri: str) -> dict[str, list[str]]:
    """List the files of each split, in order.

    Raises:
        DataError: There are none, or a shard is missing.
    """
    if not storage.is_remote(uri) and not os.path.isdir(uri):
        raise DataError(
            f"source.data {uri} is not a folder; name the folder with train*.parquet and "
            "test*.parquet"
        )
    listed = storage.list_files(uri)
    for place in PLACES:
        parts = {
            split: [name for name in listed if re.fullmatch(rf"{place}{split}[^/]*\.parquet", name)]
            for split in SPLITS
        }
        if any(parts.values()):
            break
    for split, names in parts.items():
        if not names:
            there = ", ".join(list(listed)[:3]) or "nothing"
            raise DataError(
                f"source.data {uri} must hold {split}*.parquet, in itself or in data/ or "
                f"plain_text/, and holds {printable(there)}{', ...' if len(listed) > 3 else ''}; "
                "put the files there"
            )
        numbered = [m for name in names if (m := re.search(r"-(\d+)-of-(\d+)\.parquet$", name))]
        for total in {int(match[2]) for match in numbered}:
            there_are = {int(match[1]) for match in numbered if int(match[2]) == total}
            if len(there_are) < total:
                lost = next(number for number in range(total) if number not in there_are)
                raise DataError(
                    f"source.data {uri} lacks shard {lost:05d} of {total} of the {split} split; "
                    "add it, or rename the others to leave it out"
                )
    return parts


@contextmanager
def _local(uri: str, names: list[str]) -> Iterator[dict[str, Path]]:
    """Bring files here: those of object storage are downloaded side by side, and removed after."""
    if not storage.is_remote(uri):
        yield {name: Path(uri) / name for name in names}
        return
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        paths = {name: Path(folder) / f"{number}.parquet" for number, name in enumerate(names)}

        def download(name: str) -> None:
            storage.download(storage.join(uri, name), paths[name], listed=True)

        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(download, names))
        yield paths


def _read(path: Path, called: str, wanted: Collection[str], images: bool) -> pl.LazyFrame:
    """Scan one file: `image`, `example_id` if it has one, wanted and plain columns."""
    with readable(called, "replace the file"):
        scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = scan.collect_schema()
    column = next((name for name in IMAGES if _holds_images(schema.get(name))), None)
    if column is None:
        has = printable(", ".join(f"{name} ({kind})" for name, kind in schema.items()))[:300]
        raise DataError(
            f"{called} is no table of images: it must have a column image or img with the fields "
            f"bytes and path, and it has {has or 'no column'}; name the folder of such files"
        )
    plain = [
        name
        for name, kind in schema.items()
        if name != column
        and name not in OURS
        and (name in wanted or not (kind.is_nested() or kind in (pl.Binary, pl.Null)))
    ]
    texts = [pl.col(n).cast(pl.String) for n in plain if schema[n] in (pl.Categorical, pl.Enum)]
    scan = scan.select([*plain, *([column] if images else [])]).with_columns(texts)
    if not images:
        return scan
    encoded = pl.col(column)
    encoded = encoded.struct.field("bytes") if schema[column].is_nested() else encoded
    return scan.select(*plain, pl.struct(encoded.alias("bytes")).alias("image"))


def _refuse_absent_bytes(images: pl.Series, called: str) -> None:
    encoded = images.struct.field("bytes")
    if absent := encoded.null_count():
        raise DataError(
            f"{called} has {absent:,} image{'s' if absent > 1 else ''} without bytes, the first "
            f"in row {encoded.is_null().arg_max()}, counted from 0; store the image files, not "
            "only their paths"
        )


def _holds_images(kind: pl.DataType | None) -> bool:
    if isinstance(kind, pl.Struct):
        return any(field.name == "bytes" and field.dtype == pl.Binary for field in kind.fields)
    return kind == pl.Binary


def _first(path: Path, called: str) -> pl.LazyFrame:
    """Scan the first image of a file."""
    return _read(path, called, (), True).select("image").head(1)


def _class_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the columns that the hub declares as classes, and the names of these."""
    try:
        declared = json.loads(pl.read_parquet_metadata(path).get("huggingface", "{}"))
        features = declared["info"]["features"]
        return {
            str(column): tuple(feature["names"])
            for column, feature in features.items()
            if feature.get("_type") == "ClassLabel"
            and all(isinstance(name, str) for name in feature["names"])
            and len(set(feature["names"])) == len(feature["names"])
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _declare(
    known: dict[str, tuple[str, ...]], declared: dict[str, tuple[str, ...]], called: str
) -> None:
    """Add what a file declares; files that give one id two names are refused."""
    for column, names in declared.items():
        if known.setdefault(column, names) != names:
            raise DataError(
                f"{called} names the classes of column {printable(column)!r} differently from the "
                "files before it; write all files with the same names"
            )


def _stacked(
    parts: list[pl.DataFrame], names: list[str], uri: str, wanted: Collection[str]
) -> pl.DataFrame:
    """Stack the parts, with the columns that all have."""
    shared = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
    for column in ("example_id", *wanted):
        having = [column in part.columns for part in parts]
        if any(having) and not all(having):
            raise DataError(
                f"column {printable(column)!r} of {uri} is in {names[having.index(True)]} and not "
                f"in {names[having.index(False)]}; write all files with the same columns"
            )
    for column in list(shared):
        kinds = dict.fromkeys(_kind(part.schema[column]) for part in parts)
        if len(kinds) > 1 and column in wanted:
            raise DataError(
                f"column {printable(column)!r} of {uri} must hold one kind of values in all "
                f"files, got {' and '.join(kinds)}; write one kind"
            )
        if len(kinds) > 1:
            shared.remove(column)
    return pl.concat([part.select(shared) for part in parts], how="vertical_relaxed")


def _kind(kind: pl.DataType) -> str:
    """Tell the kind of a column, as far as it matters for stacking."""
    if kind.is_numeric():
        return "numbers"
    return "text" if kind in (pl.String, pl.Categorical, pl.Enum) else str(kind)


def _identified(table: pl.DataFrame, uri: str) -> pl.DataFrame:
    """Add `example_id` as text: its own, or split and row."""
    if "example_id" not in table.columns:
        row = pl.int_range(pl.len()).over("split").cast(pl.String).str.zfill(5)
        return table.with_columns(
            pl.concat_str(pl.col("split"), pl.lit("-"), row).alias("example_id")
        )
    if empty := table["example_id"].null_count():
        raise DataError(
            f"column 'example_id' of {uri} is empty in {empty:,} of {table.height:,} rows; fill it "
            "or leave the column out"
        )
    return table.with_columns(pl.col("example_id").cast(pl.String))
