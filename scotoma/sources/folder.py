"""The user's own images: a folder and a table of attributes, joined by file name."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, ClassVar, Literal

import polars as pl
from pydantic import Field

from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.config.recipe import Recipe
from scotoma.config.shared import Frozen
from scotoma.datasets.image_files import attributes_table
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.tables import refuse_doubled
from scotoma.sources.contract import (
    FilePlace,
    FolderPlace,
    ImageFiles,
    NetworkName,
    Orientation,
    Size,
    SourceTable,
)
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from scotoma.config.model import Config


class Split(Frozen):
    """Which column says where a row belongs, and by which values."""

    column: str = Field(description="Column of `attributes`.")
    train: str | int = Field(description="Its value for training.")
    test: str | int = Field(description="Its value for testing.")
    calibrate: str | int | None = Field(
        None, description="Rows that int8-static is calibrated on; else rows of `train`."
    )


class TabledImages(ImageFiles):
    """A folder of images and a CSV of attributes, which it names `images` and `attributes`."""

    may_have_several_labels: ClassVar[bool] = True
    needs_full_folders: ClassVar[bool] = True

    images: FolderPlace = Field(description="Folder or s3:// prefix of image files.")
    attributes: FilePlace = Field(description="CSV with one row per image.")
    key: str = Field(
        "image", min_length=1, description="Column of `attributes` with the name of the image."
    )
    split: Split | None = Field(None, description="Without it every row is a test example.")

    @property
    def split_column(self) -> str | None:
        return None if self.split is None else self.split.column

    def image_folder(self) -> str:
        return self.images

    def table(self, config: Config, *, images: bool) -> SourceTable:
        return self.read(config.limits)

    def read(self, limits: ReaderLimits = LIMITS) -> SourceTable:
        """Read the attributes, and match them with the image files they name.

        Args:
            limits: Memory and time for reading the CSV.

        Returns:
            One row an image of the train or test split: `example_id` (the value of the key column
            as a plain path), `split`, and every other column of the CSV as text. Beside it how
            table and folder match.

        Raises:
            DataError: The CSV or the folder cannot be read, the key or split column is absent, a
                folder in the folder is empty, or a path leads out of it.
        """
        table = attributes_table(self.attributes, limits)
        own = self.split_column
        for column, role in ((self.key, "key"), (own, "split")):
            if column is None:
                continue
            if column not in table.columns:
                raise DataError(
                    f"{role} column {column!r} is not in {self.attributes}; it has "
                    f"{', '.join(map(printable, table.columns))}"
                )
            refuse_doubled(column, table.columns, self.attributes)
        for ours in ({"example_id", "split"} & set(table.columns)) - {own, self.key}:
            raise DataError(f"column {ours!r} in {self.attributes} has a reserved name; rename it")
        # One image has one name, or it would be two examples: ./40.png is 40.png.
        names = [name and posixpath.normpath(name) for name in table[self.key].fill_null("")]
        table = table.with_columns(
            pl.Series("example_id", names, dtype=pl.String), _split(self.split).alias("split")
        ).drop({self.key, "image"} - {"example_id"}, strict=False)
        return self.with_files(table, self.attributes, pl.col("split").is_not_null())

    def named_files(self, names: list[str]) -> dict[str, StampedFiles]:
        images = StampedFiles(self.images, tuple(dict.fromkeys(names)))
        return {"attributes": StampedFiles.one(self.attributes), "images": images}


class FolderSource(TabledImages):
    """The user's own images: a folder and a table of attributes, joined by file name.

    Every audited row needs its image; images without a row are left out and counted.
    """

    kind: Literal["image_folder", "train"]
    model: NetworkName = "tiny-convnet"
    split: Split
    size: Size = None
    orientation: Orientation = "exif"
    recipe: Recipe = Recipe()


def _split(asked: Split | None) -> pl.Expr:
    """Say to which split a row belongs; null to none."""
    if asked is None:
        return pl.lit("test")
    value = pl.col(asked.column)
    split = (
        pl.when(value == str(asked.train))
        .then(pl.lit("train"))
        .when(value == str(asked.test))
        .then(pl.lit("test"))
    )
    if asked.calibrate is None:
        return split
    return split.when(value == str(asked.calibrate)).then(pl.lit("calibrate"))
