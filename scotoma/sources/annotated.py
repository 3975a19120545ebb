"""Images that are published with annotations: one table of both splits, joined with files."""

from __future__ import annotations

import posixpath
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.recipe import Recipe
from scotoma.config.sheet import Says
from scotoma.datasets.coco_labels import GENDER
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.sources.contract import (
    FolderPlace,
    ImageFiles,
    NetworkName,
    SourceTable,
    Square,
)

if TYPE_CHECKING:
    from scotoma.config.limits import ReaderLimits
    from scotoma.config.model import Config


SplitName = Annotated[
    str, Field(min_length=1, pattern=r"^[^/\\\x00]+$"), Says("be the name of a file")
]
ONE_GENDER = (
    "Leave out images whose {} name no gender, or women and men, as the fixed-seed study does."
)


class AnnotatedSource(ImageFiles):
    """A folder of images, and JSON that says of each split what they show."""

    data: FolderPlace
    model: NetworkName = "resnet18"
    train: SplitName
    test: SplitName
    one_gender: bool = False
    size: Square = 128
    recipe: Recipe = Recipe()

    def annotations(self) -> str:
        """What messages call the annotations."""
        return self.data

    @abstractmethod
    def annotation_files(self) -> list[str]:
        """The annotations that are read, relative to `data`."""

    def folders_of_images(self) -> tuple[str, ...]:
        """Folders below `image_folder` whose images are to have rows."""
        return ("",)

    @abstractmethod
    def read_split(self, name: str, limits: ReaderLimits) -> pl.DataFrame:
        """Read a split: one row an image, `example_id` its path below `image_folder`."""

    def joined(self, table: pl.DataFrame, limits: ReaderLimits) -> pl.DataFrame:
        """The table with columns that the user adds."""
        return table

    def table(self, config: Config, *, images: bool) -> SourceTable:
        """Read annotations of both splits, and match them with the image files that they name.

        Raises:
            DataError: A file cannot be read or does not hold what it should, the splits have
                different categories, or no image names one gender where that is asked for.
        """
        parts = [
            self.read_split(name, config.limits).with_columns(pl.lit(split).alias("split"))
            for split, name in (("train", self.train), ("test", self.test))
        ]
        self._refuse_other_columns(*map(set, (part.columns for part in parts)))
        table = self.joined(pl.concat(parts, how="vertical_relaxed"), config.limits)
        audited, notes = self._of_one_gender(table)
        return self.with_files(
            table, self.annotations(), audited, below=self.folders_of_images(),
            notes=notes,
        )  # fmt: skip

    def named_files(self, names: list[str]) -> dict[str, storage.StampedFiles]:
        below = posixpath.relpath(self.image_folder(), self.data)
        pictures = [posixpath.normpath(posixpath.join(below, name)) for name in names]
        own = (*self.annotation_files(), *dict.fromkeys(pictures))
        return {"data": storage.StampedFiles(self.data, own)}

    def _refuse_other_columns(self, train: set[str], test: set[str]) -> None:
        """Refuse a category that only one of the splits knows."""
        if lone := sorted(train ^ test):
            here, there = (self.train, self.test) if lone[0] in train else (self.test, self.train)
            what = "captions" if lone[0] == GENDER else f"a category {printable(lone[0])!r}"
            raise DataError(
                f"both splits of {printable(self.annotations())} must have the same categories "
                f"and captions, got {what} in {printable(here)} and none in {printable(there)}; "
                "export both alike"
            )

    def _of_one_gender(self, table: pl.DataFrame) -> tuple[pl.Expr | bool, tuple[str, ...]]:
        """Which images name one gender, and how many do not; all, where that is not asked."""
        if not self.one_gender:
            return True, ()
        if GENDER not in table.columns:
            raise DataError(
                "source.one_gender reads captions, and there is no "
                f"annotations/captions_{printable(self.train)}.json in {printable(self.data)}; "
                "add the captions, or leave one_gender out"
            )
        lost = table[GENDER].null_count()
        note = (
            f"{lost:,} of {table.height:,} images name no gender, or women and men, and are left "
            "out"
        )
        return pl.col(GENDER).is_not_null(), (note,) * bool(lost)


def refuse_absent_annotations(place: str, rule: str) -> None:
    """Refuse annotations that are not there."""
    if not storage.exists(place):
        raise DataError(
            f"source.data {printable(rule)}, and does not; put the annotations there, or name "
            "other splits in source.train and source.test"
        )
