"""CelebA as its authors publish it (Liu et al. 2015): aligned faces and lists beside them.

Each list may be a text file of the authors (`list_attr_celeba.txt`) or a table of the mirrors
(`list_attr_celeba.csv`); it may lie beside the images, or in the authors' `Anno` and `Eval`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.recipe import Recipe
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.sources.contract import (
    FolderPlace,
    ImageFiles,
    NetworkName,
    SourceTable,
    Square,
    needed_columns,
)

if TYPE_CHECKING:
    from scotoma.config.model import Config


ATTRIBUTES, PARTITION, IDENTITY = "list_attr_celeba", "list_eval_partition", "identity_CelebA"
PLACES = ("", "Anno/", "Eval/")
# Mirrors have the folder twice.
IMAGES = ("img_align_celeba/img_align_celeba", "img_align_celeba", "Img/img_align_celeba")
SUFFIXES = (".txt", ".csv")
SPLITS = {"0": "train", "1": "validation", "2": "test"}


class CelebaSource(ImageFiles):
    """CelebA as its authors publish it: aligned faces, 40 attributes, their partition.

    `img_align_celeba/`, `list_attr_celeba.txt` or `.csv`, `list_eval_partition.txt` or `.csv`, and
    `identity_CelebA.txt` where `identity` is the cluster. Attributes are -1 or 1. Partition 0 is
    trained on, partition 2 is audited.
    """

    kind: Literal["celeba"]
    shows_faces: ClassVar[bool] = True
    model: NetworkName = "resnet18"
    data: FolderPlace = Field(
        description="Folder or s3:// prefix of img_align_celeba and the lists."
    )
    size: Square = 128
    recipe: Recipe = Recipe()

    def image_folder(self) -> str:
        return storage.join(self.data, self._images())

    def _images(self) -> str:
        """The folder of the images, relative to `data`."""
        for folder in IMAGES:
            if storage.holds_files(storage.join(self.data, folder)):
                return folder
        packed = any(name.endswith("img_align_celeba.zip") for name in _listed(self.data))
        raise DataError(
            f"source.data {self.data} must hold img_align_celeba with the images; "
            f"{'unpack img_align_celeba.zip' if packed else 'put the folder'} there"
        )

    def table(self, config: Config, *, images: bool) -> SourceTable:
        return self.read(needed_columns(config)[1])

    def read(self, wanted: Sequence[str] = ()) -> SourceTable:
        """Read the attributes, the partition and the faces of its training and test images.

        Args:
            wanted: Columns that the audit needs; `identity` is read only if it is among them.

        Returns:
            One row an image of the training or test partition, in the order of the attributes'
            list: `example_id` (name of the file), `split`, the attributes as -1 or 1, and
            `identity` if it is wanted. Beside it how list and folder match.

        Raises:
            DataError: A list or an image is absent, a list does not fit, or lists differ.
        """
        place = self.data
        files = _listed(place)
        table = _attributes(place, _find(files, place, ATTRIBUTES))
        pairs = {"split": PARTITION} | ({"identity": IDENTITY} if "identity" in wanted else {})
        for column, stem in pairs.items():
            values = _pairs(place, _find(files, place, stem), column)
            table = _joined(table, values, storage.join(place, stem))
        unknown = ~table["split"].is_in(list(SPLITS))
        if unknown.any():
            row = unknown.arg_max() or 0
            raise DataError(
                f"{storage.join(place, PARTITION)} must give each image 0 (training), 1 "
                f"(validation) or 2 (test), got {printable(table['split'][row])!r} for "
                f"{printable(table['image'][row])!r}; download it again"
            )
        table = table.with_columns(pl.col("split").replace(SPLITS)).rename({"image": "example_id"})
        called, audited = storage.join(place, ATTRIBUTES), pl.col("split") != "validation"
        return self.with_files(table, called, audited)

    def named_files(self, names: list[str]) -> dict[str, storage.StampedFiles]:
        files = _listed(self.data)
        lists = [
            f"{folder}{stem}{suffix}"
            for folder in PLACES
            for stem in (ATTRIBUTES, PARTITION, IDENTITY)
            for suffix in SUFFIXES
        ]
        folder = self._images()
        own = [name for name in (*lists, *(f"{folder}/{name}" for name in names)) if name in files]
        return {"data": storage.StampedFiles(self.data, tuple(own))}


def _listed(place: str) -> dict[str, int]:
    files = storage.list_files(place)
    if not files:
        raise DataError(
            f"source.data {place} holds nothing; name the folder with img_align_celeba and "
            f"{ATTRIBUTES}.txt"
        )
    return files


def _find(files: dict[str, int], place: str, stem: str) -> str:
    """Find the name of a list, as text or as CSV."""
    for suffix in SUFFIXES:
        for folder in PLACES:
            if f"{folder}{stem}{suffix}" in files:
                return f"{folder}{stem}{suffix}"
    if stem == IDENTITY:
        raise DataError(
            f"column 'identity' needs {stem}.txt in {place}, which CelebA's authors send on "
            "request; put it there, or leave out the cluster"
        )
    raise DataError(f"source.data {place} must hold {stem}.txt or {stem}.csv; put it there")


def _lines(place: str, name: str) -> tuple[str, list[str]]:
    """Read a list: its name in messages, and its lines that are not empty, split by one blank."""
    called = storage.join(place, name)
    try:
        text = storage.read_bytes(called).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{called} must be UTF-8 text; download it again") from error
    if name.endswith(".csv"):
        text = text.replace(",", " ")
    return called, [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _attributes(place: str, name: str) -> pl.DataFrame:
    """Read `image`, and a column for each attribute with the values -1 and 1."""
    called, lines = _lines(place, name)
    announced = lines.pop(0) if name.endswith(".txt") and lines else ""
    if not lines:
        raise DataError(f"{called} holds no attributes; download it again")
    attributes = lines.pop(0).split()
    if name.endswith(".csv"):
        attributes = attributes[1:]  # the first names the images
    if announced and announced != str(len(lines)):
        raise DataError(
            f"{called} says {printable(announced)[:40]!r} images in its first line and holds "
            f"{len(lines):,}; download it again"
        )
    first = 1 + (len(announced) > 0) + 1  # line of the first image, counted from 1
    table = _fields(lines, ["image", *attributes], called, first, f"{len(attributes)} values")
    values = table.select(pl.exclude("image"))
    wrong = ~values.select(pl.all_horizontal(pl.all().is_in(["-1", "1"]))).to_series()
    if wrong.any():
        row = wrong.arg_max() or 0
        column, value = next(
            (c, v) for c, v in values.row(row, named=True).items() if v not in ("-1", "1")
        )
        raise DataError(
            f"{called}:{row + first} attribute {printable(column)!r} must be -1 or 1, got "
            f"{printable(value)!r}; download it again"
        )
    return table.with_columns(pl.exclude("image").cast(pl.Int8))


def _pairs(place: str, name: str, column: str) -> pl.DataFrame:
    """Read `image` and its one value in a list."""
    called, lines = _lines(place, name)
    head = name.endswith(".csv")
    return _fields(lines[head:], ["image", column], called, 1 + head, "one value")


def _fields(
    lines: list[str], columns: list[str], called: str, first: int, rule: str
) -> pl.DataFrame:
    """Put lines into a table of text; one with other fields than the columns is refused."""
    text = pl.Series(lines, dtype=pl.String)
    wrong = text.str.count_matches(" ") != len(columns) - 1
    if wrong.any():
        row = wrong.arg_max() or 0
        raise DataError(
            f"{called}:{row + first} must hold the name of an image and {rule}, got "
            f"{len(lines[row].split()) - 1}; download it again"
        )
    parts = text.str.split_exact(" ", len(columns) - 1)
    table = (
        pl.DataFrame({"fields": parts})
        .unnest("fields")
        .rename({f"field_{index}": column for index, column in enumerate(columns)})
    )
    if table["image"].n_unique() < table.height:
        twice = table.filter(pl.col("image").is_duplicated())["image"][0]
        raise DataError(f"{called} names {printable(twice)!r} twice; download it again")
    return table


def _joined(table: pl.DataFrame, values: pl.DataFrame, called: str) -> pl.DataFrame:
    """Join the values that another list has for the same images."""
    joined = table.join(values, on="image", how="left", maintain_order="left")
    missing = joined[values.columns[1]].is_null()
    if missing.any():
        raise DataError(
            f"{called} lacks {int(missing.sum()):,} of {table.height:,} images, the first is "
            f"{printable(table['image'][missing.arg_max() or 0])!r}; download it again"
        )
    return joined
