"""Images of a source: how they are turned and cut, and those that are files of their own."""

from __future__ import annotations

import posixpath
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from scotoma.sources.contract import Source, SourceFiles
from scotoma.storage import StampedFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scotoma.config.model import Config
    from scotoma.datasets.image_size import ImageSize

__all__ = ["ImageFiles", "Orientation", "Size", "Square", "image_size"]

Size = Annotated[
    int | None,
    Field(
        ge=8,
        le=1024,
        description="Pixels per side: images are cropped to their central square and resized; "
        "empty: images keep their size, which must be the same.",
    ),
]
Square = Annotated[
    int,
    Field(ge=8, le=1024, description="Pixels per side, of the square in the middle."),
]
Orientation = Annotated[
    Literal["exif", "stored"],
    Field(
        description="Turn pictures upright as their EXIF orientation says, as browsers show them; "
        "or take pixels as they are stored, as torchvision and timm do."
    ),
]


def image_size(
    sides: int | Sequence[int] | None,
    *,
    upright: bool = False,
    crop: float = 1.0,
    fit: str = "cut",
    resample: str = "bilinear",
) -> ImageSize | None:
    """What is made of every image; None where they stay as they are."""
    from scotoma.datasets.image_size import ImageSize

    if sides is None:
        return ImageSize(upright=True) if upright else None
    height, width = (sides, sides) if isinstance(sides, int) else sides
    return ImageSize(height, width, crop, fit, resample, upright)


class ImageFiles(Source):
    """A source whose images are files of their own, which a table names."""

    @abstractmethod
    def image_folder(self) -> str:
        """Folder, or `s3://` prefix, that names of images are relative to."""

    def files_read(self, config: Config) -> SourceFiles:
        """List the table and the images that it names, and tell which images have no row."""
        read = self.table(config, images=False)
        names = [posixpath.normpath(name) for name in read.table["example_id"].to_list()]
        remark = "" if read.join is None else f"{read.join.note()}{read.join.rows_without_image}"
        return SourceFiles(*self.named_files(names, remark))

    @abstractmethod
    def named_files(
        self, names: list[str], remark: str
    ) -> tuple[dict[str, StampedFiles], dict[str, str]]:
        """The files that are read where the table names these images."""
