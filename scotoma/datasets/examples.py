"""Which examples are audited, and which stand for all? One table, read by every step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from scotoma.answers.group_keys import group_key
from scotoma.answers.groups import Groups
from scotoma.answers.note import AdmissionNote, notes_metadata, read_notes
from scotoma.datasets.image_size import ImageSize
from scotoma.datasets.label_pairs import example_of_pair
from scotoma.errors import DataError
from scotoma.numbers.inputs import Flags, Ints
from scotoma.processes.unreadable import UNREADABLE, readable, reason

if TYPE_CHECKING:
    from numpy.typing import NDArray


FEATURES = "features"
KEPT = ("classes", "attributes", "intersections", "notes", "size", "over_indexed")
ROW_GROUP = 256  # rows with images, which are read back some at a time
AGAIN = "repeat the audit to make it again"


@dataclass(frozen=True)
class AuditedExamples:
    """The examples of an audit.

    Attributes:
        table: Columns `example_id`, `split` (train or test), `label` unless the examples have none,
            one column an attribute, `cluster` where the configuration names one, `features` where
            it names columns that are no attributes (a field each, float64 or text), and `image`
            (`bytes`, and as `path` where they came from) unless it was left out.
        classes: Label values in the order of their class ids.
        attributes: Names of the attribute columns.
        intersections: Sets of attributes whose combinations are groups too.
        notes: Sentences about the data that a reader of the results should know.
        admission: What was folded, dropped, guessed or not read.
        size: To which size decoded images are brought; None keeps theirs, which is the same.
        over_indexed: Columns that are no groups and whose share among the CIEs is measured too,
            each with the value that counts.
        several: The labels, where an image has several: a row is then one of them in one image, the
            rows of an image stand together in this order, and the first of them brings `image`.
    """

    table: pl.DataFrame
    classes: tuple[str, ...]
    attributes: tuple[str, ...]
    intersections: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    size: ImageSize | None = None
    over_indexed: tuple[tuple[str, str], ...] = ()
    several: tuple[str, ...] = ()
    admission: tuple[AdmissionNote, ...] = ()

    def split(self, name: str) -> AuditedExamples:
        """Select the examples of one split, in their order."""
        return self.keep(self.table["split"] == name)

    def keep(self, rows: pl.Series | Flags) -> AuditedExamples:
        """Select some of the examples, in their order; `rows` says of each whether it stays."""
        return replace(self, table=self.table.filter(rows))

    @property
    def ids(self) -> list[str]:
        """The example ids, in order."""
        return self.table["example_id"].to_list()

    @property
    def rows_an_image(self) -> int:
        """How many rows stand for one image: 1, or one a label where an image has several."""
        return len(self.several) or 1

    @property
    def pictured(self) -> AuditedExamples:
        """The rows that bring the images: each, or the first of each image."""
        if not self.several:
            return self
        return replace(self, table=self.table.gather_every(self.rows_an_image))

    @property
    def image_ids(self) -> list[str]:
        """Names of the images in order, one of each."""
        ids = self.pictured.ids
        return [example_of_pair(own, self.several[0]) for own in ids] if self.several else ids

    @property
    def shown_labels(self) -> Ints:
        """Class ids of each image, shape (N,); of several labels 0 and 1, shape (N, L)."""
        return self.labels.reshape(-1, self.rows_an_image) if self.several else self.labels

    @property
    def of_label(self) -> Ints | None:
        """Which of several labels each row is about, shape (N,); None of one label."""
        each = len(self.several)
        return np.tile(np.arange(each), self.table.height // each) if each else None

    @property
    def labels(self) -> Ints:
        """Class ids, shape (N,)."""
        codes = self.table["label"].cast(pl.Enum(self.classes)).to_physical()
        return codes.to_numpy().astype(np.int64)

    @property
    def known_labels(self) -> Ints | None:
        """Class ids, shape (N,); None where the examples have no labels."""
        return self.labels if self.labelled else None

    @property
    def labelled(self) -> bool:
        """Whether the examples have labels."""
        return "label" in self.table.columns

    @property
    def clusters(self) -> Ints | None:
        """Cluster ids, shape (N,); None where every row is its own."""
        if "cluster" not in self.table.columns:
            return None
        return self.table["cluster"].rank("dense").to_numpy().astype(np.int64) - 1

    @property
    def features(self) -> pl.DataFrame:
        """The columns that are features beside the attributes: float64 or text, one row each."""
        if FEATURES not in self.table.columns:
            return pl.DataFrame()
        return self.table[FEATURES].struct.unnest()

    def partition(self) -> Groups:
        """Build the groups: all examples, every value of each attribute, then intersections."""
        values = {name: self.table[name] for name in self.attributes}
        return Groups(values, self.table.height, self.intersections)

    def over_index_masks(self) -> dict[str, Flags]:
        """Membership in every group but `all`, and in `over_indexed`, shape (N,), by key."""
        masks = {key: mask for key, mask in self.partition().by_key.items() if key != "all"}
        for column, value in self.over_indexed:
            masks[group_key([(column, value)])] = (self.table[column] == value).to_numpy()
        return masks

    def write(self, path: Path) -> None:
        """Write the table as Parquet, with everything else in its metadata."""
        self.write_parts(path, [self.table])

    def write_parts(
        self,
        path: Path,
        parts: Iterable[pl.DataFrame],
        more_admission: Callable[[], Iterable[AdmissionNote]] = tuple,
    ) -> None:
        """Write a table that comes part by part, with or without images.

        Args:
            path: The file.
            parts: Tables of the same columns, at least one; what they raise is raised.
            more_admission: Gives notes that are known once all parts have come.
        """
        coming = iter(parts)
        first = next(coming)
        tables = register_io_source(lambda *_: chain([first], coming), schema=first.schema)
        tables.sink_parquet(
            path,
            row_group_size=ROW_GROUP * self.rows_an_image if "image" in first.columns else None,
            metadata=lambda _: {
                **{f"scotoma.{key}": json.dumps(getattr(self, key)) for key in KEPT},
                **notes_metadata((*self.admission, *more_admission())),
                **({"scotoma.several": json.dumps(self.several)} if self.several else {}),
            },
        )

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        images: bool = True,
        split: str | None = None,
        only: Sequence[str] | None = None,
    ) -> AuditedExamples:
        """Read the file of `write`.

        Args:
            path: The file.
            images: Whether to read the column of images.
            split: The only split to read; None for all.
            only: Ids of the examples to read, in the order wanted, each with its image; the images
                of others are not brought into memory. None for all.

        Raises:
            DataError: It is no such file.
        """
        with readable(path, AGAIN):
            metadata = pl.read_parquet_metadata(path)
            scan = pl.scan_parquet(path, glob=False)
            scan = scan if split is None else scan.filter(pl.col("split") == split)
            scan = scan if only is None else scan.filter(pl.col("example_id").is_in(list(only)))
            table = (scan if images else scan.drop("image", strict=False)).collect()
        try:
            several = tuple(map(str, json.loads(metadata.get("scotoma.several", "[]"))))
            admission = read_notes(metadata)
            classes, attributes, intersections, notes, size = (
                json.loads(metadata[f"scotoma.{key}"]) for key in KEPT[:-1]
            )
            crossed = tuple(map(tuple, intersections))
            resized = None if size is None else ImageSize(*size)
            more = json.loads(metadata.get("scotoma.over_indexed", "[]"))
            over_indexed = tuple((str(column), str(value)) for column, value in more)
            own = [] if "label" not in table.columns else ["label"]
            named = (*own, *attributes, *(column for column, _ in over_indexed))
            _check(table.select("example_id", "split", *named), classes)
        except (ValueError, LookupError, TypeError, RecursionError, *UNREADABLE) as error:
            raise DataError(
                f"{path} must hold examples as an audit leaves them ({reason(error)}); {AGAIN}"
            ) from error
        if only is not None:
            wanted = pl.DataFrame({"example_id": list(only)}, schema={"example_id": pl.String})
            table = wanted.join(table, on="example_id", maintain_order="left").select(table.columns)
            if several and "image" in table.columns:
                shown = _images_of_pairs(path, table["example_id"], len(several))
                table = table.with_columns(shown)
        return cls(
            table, tuple(classes), tuple(attributes), crossed, tuple(notes), resized, over_indexed,
            several, admission,
        )  # fmt: skip


def _images_of_pairs(path: Path, ids: pl.Series, rows_an_image: int) -> pl.Series:
    """Read the image of each of some rows of a file: the first row of an image brings it."""
    rows = pl.scan_parquet(path, glob=False).with_row_index("row")
    first = (pl.col("row") // rows_an_image * rows_an_image).alias("row")
    asked = rows.select("example_id", first).filter(pl.col("example_id").is_in(ids.implode()))
    firsts = asked.collect()
    held = rows.filter(pl.col("row").is_in(firsts["row"].implode())).select("row", "image")
    images = firsts.join(held.collect(), on="row", how="left")
    return ids.to_frame().join(images, on="example_id", how="left", maintain_order="left")["image"]


def _check(table: pl.DataFrame, classes: Sequence[str]) -> None:
    """Refuse tables that no audit writes: columns without text or with gaps, unknown labels."""
    for column in table:
        if column.dtype != pl.String or column.null_count():
            raise ValueError(f"column {column.name} of type {column.dtype} with gaps or no text")
    if "label" in table.columns:
        table["label"].cast(pl.Enum(list(classes)))


def stratified(examples: AuditedExamples, number: int, seed: int) -> NDArray[np.intp]:
    """Choose examples so that each combination of attributes and class keeps its share.

    Args:
        examples: From which to choose; images are not read. Of several labels whole examples are
            chosen, so that each combination of attributes keeps its share.
        number: How many; all where there are no more.
        seed: Decides which, together with their ids; the order of the rows does not.

    Returns:
        Their rows, ascending.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import load_examples
    >>> test = load_examples(default_config()).split("test")
    >>> len(stratified(test, 300, seed=0)), len(stratified(test, 9_999, seed=0))
    (300, 1798)
    """
    ids, each = examples.image_ids, examples.rows_an_image
    if number >= len(ids):
        return np.arange(len(ids) * each)
    lots = np.array([hashlib.sha256(f"{seed}/{one}".encode()).hexdigest() for one in ids])
    kept = [*examples.attributes] if examples.several else ["label", *examples.attributes]
    strata = examples.pictured.table.select(kept).rows()
    places: dict[tuple[object, ...], list[int]] = {}
    for row in np.argsort(lots):
        places.setdefault(strata[row], []).append(int(row))
    shares = {stratum: number * len(rows) / len(ids) for stratum, rows in places.items()}
    counts = {stratum: int(share) for stratum, share in shares.items()}
    # The largest remainders get what rounding down has left; of equal ones that of the first lot.
    most = sorted(
        shares, key=lambda stratum: (counts[stratum] - shares[stratum], lots[places[stratum][0]])
    )
    for stratum in most[: number - sum(counts.values())]:
        counts[stratum] += 1
    chosen = np.sort([row for stratum, rows in places.items() for row in rows[: counts[stratum]]])
    return (chosen[:, None] * each + np.arange(each)).ravel()
