"""Read CIFAR-10, in Parquet or the authors' binary version, and turn it into CIFAR-10S.

CIFAR-10S is that of Wang et al. 2020 ("Towards Fairness in Visual Recognition"), section 3: in
training, five classes are 95% colour and 5% grey, five the other way round, so that colour is a
cue for the class, and a false one for the few. The test set holds every image in both styles. The
five classes are those of the authors' published code.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from scotoma import storage
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.config.recipe import Recipe
from scotoma.datasets.cifar_binary import (
    SIDE,
    binary_files,
    grey_of,
    grey_pngs,
    load_binary,
    read_files,
)
from scotoma.datasets.image_decoding import decode_rows
from scotoma.datasets.text_columns import absent_column, refuse_empty_labels
from scotoma.errors import DataError
from scotoma.sources.contract import (
    FolderPlace,
    LookedAt,
    NetworkName,
    Source,
    SourceFiles,
    SourceTable,
    needed_columns,
    stored_sizes,
)
from scotoma.sources.parquet import named_classes, read_shards, split_files

if TYPE_CHECKING:
    from scotoma.config.model import Config


CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
COLOURED = ("automobile", "cat", "dog", "horse", "truck")  # the others are mostly grey
STYLES = ("colour", "grey")
OF_IMAGES = r"(train|test|data_batch).*\.(parquet|bin)"
MADE = ("style", "exposure", "source_id")
CHUNK = 4096  # images made grey at a time
MADE_WITH_SEED = b"CIFAR-10S 20"  # of who is rare: the data are the same for every audit


class Cifar10Source(Source):
    """CIFAR-10 in Parquet, as it is, or made into CIFAR-10S: colour and grey, each class skewed.

    In the layout of the hub, or the authors' binary version; the Python version is refused, since
    unpickling runs code. CIFAR-10S (Wang et al. 2020) trains automobile, cat, dog, horse and truck
    on 95% colour and 5% grey, the others on the reverse, and tests every image in both styles, as
    one cluster. It adds the columns `style`, `exposure` and `source_id`.
    """

    kind: Literal["cifar10", "cifar10s"]
    model: NetworkName = "resnet8"
    data: FolderPlace = Field(
        description="Folder or s3:// prefix of train*.parquet and test*.parquet."
    )
    skew: float = Field(
        0.95, gt=0.5, lt=1, description="cifar10s: share of a class's majority style in training."
    )
    recipe: Recipe = Recipe()

    def table(self, config: Config, *, images: bool) -> SourceTable:
        label, _ = needed_columns(config)
        table = load_cifar10(self, label, images=images, limits=config.limits)
        return SourceTable(table, self.data)

    def files_read(self, config: Config) -> SourceFiles:
        binary = read_files(self.data, storage.list_files(self.data))
        own = split_files(self.data).values() if not binary else [binary]
        names = tuple(name for names in own for name in names)
        return SourceFiles({"data": storage.StampedFiles(self.data, names)})

    def stored_images(self, config: Config) -> LookedAt:
        return LookedAt((SIDE, SIDE), sum(stored_sizes(self.data, OF_IMAGES).values()))


def load_cifar10(
    source: Cifar10Source, label: str, *, images: bool = True, limits: ReaderLimits = LIMITS
) -> pl.DataFrame:
    """Read CIFAR-10, and turn it into CIFAR-10S if the source is of that kind.

    Args:
        source: Folder or `s3://` prefix of the files, kind and skew.
        label: Column of the class ids, `label` of binary files; they are shown by the names of
            their classes.
        images: Whether the table is to hold the images.
        limits: Memory and time for reading each Parquet file.

    Returns:
        One row an image; see `load_parquet`. CIFAR-10S adds `style` (colour or grey), `exposure`
        (majority or minority: how often training shows this class in this style) and `source_id`,
        which both styles of one test image share. Who is rare depends on the images and a
        constant, not on the order of rows.

    Raises:
        DataError: See `read_shards` and `load_binary`; a label is none of the ten classes; the
            files have a column of the names that CIFAR-10S adds.
    """
    skewed = source.kind == "cifar10s"
    read = images or skewed
    if files := binary_files(source.data, storage.list_files(source.data)):
        table = load_binary(source.data, files, CLASSES, images=read)
    else:
        table = read_shards(source.data, [label], images=read, limits=limits).table
    if label not in table.columns:
        raise absent_column(label, "label", table.columns, source.data)
    table = table.with_columns(
        named_classes(table[label], table["example_id"], CLASSES, source.data)
    )
    if not skewed:
        return table
    refuse_empty_labels(table[label], table["example_id"], source.data)
    if clashes := [name for name in MADE if name in table.columns]:
        raise DataError(
            f"column {clashes[0]!r} of {source.data} has a name that cifar10s reserves; rename "
            "it, or use kind parquet"
        )
    table = _in_two_styles(table, label, source.skew)
    return _greyed(table, limits) if images else table.drop("image")


def _in_two_styles(table: pl.DataFrame, label: str, skew: float) -> pl.DataFrame:
    """Give training rows one style each and test rows both; their images stay as they are."""
    train = table.filter(pl.col("split") == "train")
    test = table.filter(pl.col("split") == "test")
    order = np.argsort(_lots(train["image"].struct.field("bytes")), kind="stable")
    rare = rare_rows(train[label].to_numpy(), order, skew)
    both = test[np.repeat(np.arange(test.height), 2)]
    every = pl.concat([train, both])
    mostly_grey = ~every[label].is_in(COLOURED).to_numpy()
    grey = np.concatenate([mostly_grey[: train.height] ^ rare, np.arange(both.height) % 2 == 1])
    return every.with_columns(
        pl.col("example_id").alias("source_id"),
        pl.Series("style", np.array(STYLES)[grey.astype(int)]),
        pl.Series("exposure", np.where(grey == mostly_grey, "majority", "minority")),
    ).with_columns(pl.concat_str("source_id", "style", separator="-").alias("example_id"))


def rare_rows(classes: NDArray[Any], order: NDArray[np.intp], skew: float) -> NDArray[np.bool_]:
    """Whether a row is of the rarer style of its class: the first ones in an order are."""
    rare = np.zeros(len(classes), dtype=bool)
    for name in set(classes[order].tolist()):
        members = order[classes[order] == name]
        rare[members[: round((1 - skew) * len(members))]] = True
    return rare


def _lots(encoded: pl.Series) -> NDArray[np.uint64]:
    """Draw a number for each image, as good as random, that depends on nothing but its bytes."""
    digests = [hashlib.blake2b(b, digest_size=8, key=MADE_WITH_SEED).digest() for b in encoded]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def _greyed(table: pl.DataFrame, limits: ReaderLimits) -> pl.DataFrame:
    """Turn the pixels of grey rows grey.

    They become PNG files: exact, unlike a second JPEG, about as large as the first, and images
    like all others to whoever reads them, unlike a style that every reader would have to apply.
    """
    grey = np.flatnonzero((table["style"] == "grey").to_numpy())
    named = table.select(pl.col("source_id").alias("example_id"), "image")
    encoded = table["image"].struct.field("bytes").to_list()
    for start in range(0, len(grey), CHUNK):
        rows = grey[start : start + CHUNK]
        pixels = decode_rows(named[rows], limits=limits)
        for row, png in zip(rows.tolist(), grey_pngs(grey_of(pixels)), strict=True):
            encoded[row] = png
    return table.with_columns(
        pl.struct(
            pl.Series("bytes", encoded, dtype=pl.Binary),
            pl.col("image").struct.field("path"),
        ).alias("image")
    )
