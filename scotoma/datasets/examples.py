"""Which examples are audited: one table, checked against the configuration, read by every step."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.config import Config
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.printable import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Examples", "Partition", "decode_images", "examples_from_source"]

RESERVED = ("example_id", "split", "label", "cluster", "image")
MISSING = "(missing)"


@dataclass(frozen=True)
class Partition:
    """The groups of a set of examples, decided once and used by every estimate and plot.

    Attributes:
        keys: One a group: `all`, `sex.male`, `sex.male & age.old`.
        names: The same for people: `all`, `male`, `male & old`.
        attributes: The attributes each group is made of; none for `all`.
        masks: Membership, bool, shape (G, N).
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    attributes: tuple[tuple[str, ...], ...]
    masks: NDArray[np.bool_]

    def mask(self, key: str) -> NDArray[np.bool_]:
        """Membership in one group, shape (N,)."""
        return np.asarray(self.masks[self.keys.index(key)])


@dataclass(frozen=True)
class Examples:
    """The examples of an audit.

    Attributes:
        table: Columns `example_id`, `split` (train or test), `label`, one column an attribute,
            `cluster` where the configuration names one, and `image` (`bytes`, `path`).
        classes: Label values in the order of their class ids.
        attributes: Names of the attribute columns.
        intersections: Sets of attributes that are also looked at together.
    """

    table: pl.DataFrame
    classes: tuple[str, ...]
    attributes: tuple[str, ...]
    intersections: tuple[tuple[str, ...], ...]

    def split(self, name: str) -> Examples:
        """The examples of one split, in their order."""
        table = self.table.filter(pl.col("split") == name)
        return Examples(table, self.classes, self.attributes, self.intersections)

    @property
    def ids(self) -> list[str]:
        """The example ids, in order."""
        return self.table["example_id"].to_list()

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class ids, shape (N,)."""
        code = {name: index for index, name in enumerate(self.classes)}
        return np.array([code[name] for name in self.table["label"]], dtype=np.int64)

    @property
    def clusters(self) -> NDArray[np.int64] | None:
        """Codes of the sources that rows share, shape (N,); None where every row is its own."""
        if "cluster" not in self.table.columns:
            return None
        return np.unique(self.table["cluster"].to_numpy(), return_inverse=True)[1].astype(np.int64)

    def partition(self) -> Partition:
        """All examples, every value of every attribute, then the intersections."""
        values = {a: sorted(self.table[a].unique().to_list()) for a in self.attributes}
        flat = [value for found in values.values() for value in found]
        unique = len({"all", *flat}) == 1 + len(flat)
        cells = {
            attribute: [
                (f"{attribute}.{value}", value if unique else f"{attribute} {value}")
                for value in found
            ]
            for attribute, found in values.items()
        }
        masks = {
            key: (self.table[attribute] == value).to_numpy()
            for attribute, found in values.items()
            for value, (key, _) in zip(found, cells[attribute], strict=True)
        }
        keys, names = ["all"], ["all"]
        made_of: list[tuple[str, ...]] = [()]
        rows = [np.ones(self.table.height, dtype=bool)]
        for attributes in [(a,) for a in self.attributes] + list(self.intersections):
            crossed: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ())]
            for attribute in attributes:
                crossed = [
                    ((*k, key), (*n, name)) for k, n in crossed for key, name in cells[attribute]
                ]
            for group_keys, group_names in crossed:
                keys.append(" & ".join(group_keys))
                names.append(" & ".join(group_names))
                made_of.append(tuple(attributes))
                rows.append(np.logical_and.reduce([masks[key] for key in group_keys]))
        return Partition(tuple(keys), tuple(names), tuple(made_of), np.stack(rows))

    def write(self, path: Path) -> None:
        """Write the table as Parquet; classes and attributes travel in its metadata."""
        self.table.write_parquet(
            path,
            metadata={
                "scotoma.classes": json.dumps(self.classes),
                "scotoma.attributes": json.dumps(self.attributes),
                "scotoma.intersections": json.dumps(self.intersections),
            },
        )

    @classmethod
    def read(cls, path: Path) -> Examples:
        """Read what `write` wrote."""
        metadata = pl.read_parquet_metadata(path)
        classes, attributes, intersections = (
            json.loads(metadata[f"scotoma.{key}"])
            for key in ("classes", "attributes", "intersections")
        )
        crossed = tuple(map(tuple, intersections))
        return cls(pl.read_parquet(path, glob=False), tuple(classes), tuple(attributes), crossed)


def examples_from_source(source: pl.DataFrame, config: Config, origin: str) -> Examples:
    """Pick label, attributes and cluster out of a source's table, and refuse what cannot work.

    Args:
        source: `example_id`, `split`, `image` and the source's own columns.
        config: What the columns are called.
        origin: What messages call the table.

    Returns:
        The examples of the audit.

    Raises:
        DataError: A column is absent, an id stands twice, a split is empty, a label has one value
            or is not met in training, or an attribute has one value among the test examples.
    """

    def column(name: str, role: str) -> pl.Expr:
        if name not in source.columns:
            known = [c for c in source.columns if c not in ("example_id", "split", "image")]
            raise DataError(
                f"{role} column {name!r} is not in {origin}; it has {', '.join(sorted(known))}"
                f"{nearest(name, known)}"
            )
        return pl.col(name).cast(pl.String)

    attributes = config.groups.attributes
    if clash := sorted(set(attributes) & set(RESERVED)):
        raise DataError(f"groups.{clash[0]} has a reserved name; call the attribute otherwise")
    chosen = [pl.col("example_id"), pl.col("split")]
    chosen.append(column(config.label.column, "label").alias("label"))
    for name, group in attributes.items():
        names = group.names or {}
        value = column(group.column, f"groups.{name}").replace(names).fill_null(MISSING)
        chosen.append(value.alias(name))
    if config.cluster is not None:
        alone = pl.concat_str(pl.lit("row "), pl.col("example_id"))  # no source named: its own
        cluster = column(config.cluster.column, "cluster").fill_null(alone)
        chosen.append(cluster.alias("cluster"))
    table = source.select(*chosen, pl.col("image"))

    if table["example_id"].n_unique() < table.height:
        twice = table.filter(pl.col("example_id").is_duplicated())["example_id"][0]
        raise DataError(f"example id {twice!r} stands in {origin} twice; ids must be unique")
    if empty := table["label"].null_count():
        raise DataError(
            f"label column {config.label.column!r} is empty in {empty:,} of {table.height:,} rows "
            f"of {origin}; fill or remove them"
        )
    train, test = (table.filter(pl.col("split") == split) for split in ("train", "test"))
    for split, part in (("train", train), ("test", test)):
        if not part.height:
            raise DataError(f"the {split} split of {origin} holds no row; check source.split")
    classes = sorted(train["label"].unique().to_list(), key=_natural)
    if len(classes) < 2:
        raise DataError(
            f"label column {config.label.column!r} has one value, {classes[0]!r}, in the train "
            f"split of {origin}; a classifier needs two"
        )
    if unseen := sorted(set(test["label"].unique().to_list()) - set(classes)):
        raise DataError(
            f"label {unseen[0]!r} is in the test split of {origin} but never in training; "
            "move or remove its rows"
        )
    positive = config.label.positive
    if positive is not None and str(positive) not in classes:
        raise DataError(
            f"label.positive is {positive!r}, but column {config.label.column!r} holds "
            f"{', '.join(classes[:10])}"
        )
    for name in attributes:
        values = test[name].unique().to_list()
        if len(values) < 2:
            raise DataError(
                f"attribute {name!r} has one value, {values[0]!r}, in the test split of {origin}; "
                "a comparison of groups needs two, so remove it or choose another column"
            )
    intersections = tuple(tuple(names) for names in config.groups.intersections)
    return Examples(table, tuple(classes), tuple(attributes), intersections)


def _natural(value: str) -> tuple[int, float, str]:
    """Numbers in the order of their size, before words in the order of the alphabet."""
    try:
        return (0, float(value), value)
    except ValueError:
        return (1, 0.0, value)


def decode_images(examples: Examples) -> NDArray[np.uint8]:
    """Decode every image.

    Args:
        examples: Images as encoded bytes, all of one size.

    Returns:
        RGB pixels, uint8, shape (N, 3, H, W).

    Raises:
        DataError: An image cannot be decoded, or differs in size from the first; its id is named.
    """
    image_module = needs("PIL.Image", "train", "decoding images")
    decoded: list[NDArray[np.uint8]] = []
    for example_id, image in zip(examples.ids, examples.table["image"], strict=True):
        try:
            with image_module.open(io.BytesIO(image["bytes"])) as opened:
                pixels = np.asarray(opened.convert("RGB"))
        except image_module.DecompressionBombError as error:
            raise DataError(
                f"image of example {example_id!r} cannot be decoded (more pixels than memory "
                "is risked for); make it smaller"
            ) from error
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(
                f"image of example {example_id!r} cannot be decoded ({len(image['bytes']):,} bytes "
                "that are no whole image); replace its file or remove its row"
            ) from error
        if decoded and pixels.shape != decoded[0].shape:
            (h, w, _), (h0, w0, _) = pixels.shape, decoded[0].shape
            raise DataError(
                f"image of example {example_id!r} is {w}x{h} pixels where the first is {w0}x{h0}; "
                "bring all images to one size"
            )
        decoded.append(pixels)
    return np.ascontiguousarray(np.stack(decoded).transpose(0, 3, 1, 2))
