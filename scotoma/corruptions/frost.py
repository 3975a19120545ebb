"""Where do photographs of frost come from, and which part of which does an example get?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotoma import storage
from scotoma.corruptions.images import read_image
from scotoma.errors import ConfigError
from scotoma.printable import printable
from scotoma.run.copies import folder_here

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
Image = NDArray[np.uint8]


def read_pictures(folder: str | Path, *, scale: float, size: int) -> tuple[Image, ...]:
    """Read the photographs of a folder, in the order of their names, and scale them.

    Args:
        folder: Folder or `s3://` prefix of images; other files are passed over.
        scale: Times their sides; each pixel is read bilinearly, without smoothing, as the
            published sets read theirs.
        size: Shorter side of the images that they are laid over.

    Returns:
        RGB, uint8, shape (h, w, 3) each; one pixel larger than `size` at least.

    Raises:
        ConfigError: No folder, no image in it, or one that is too small.
        DataError: An image cannot be decoded.
    """
    names = storage.list_names(str(folder), folders=False)
    shown = tuple(sorted(name for name in names if name.lower().endswith(ENDINGS)))
    if not shown:
        raise ConfigError(
            f"frost must be a folder of images ({', '.join(ENDINGS)}), found none in "
            f"{printable(str(folder))}; name another folder, or leave frost out"
        )
    pictures, here = [], folder_here(storage.StampedFiles(str(folder), shown))
    for name in shown:
        picture = _scaled(read_image(here / name), scale)
        if min(picture.shape[:2]) <= size:
            raise ConfigError(
                f"frost picture {printable(name)} must be larger than {size} pixels, got "
                f"{picture.shape[1]}x{picture.shape[0]} at this profile's scale; use a larger one"
            )
        pictures.append(picture)
    return tuple(pictures)


def crop(
    generator: np.random.Generator, pictures: Sequence[Image], height: int, width: int
) -> Image:
    """Cut a part of one of the pictures, both at random.

    Raises:
        ConfigError: A picture is not larger than the longer side of the image.
    """
    picture = pictures[int(generator.integers(len(pictures)))]
    if picture.shape[0] <= height or picture.shape[1] <= width:
        raise ConfigError(
            f"frost pictures must be larger than images of {width}x{height} pixels, got "
            f"{picture.shape[1]}x{picture.shape[0]} at this profile's scale; use larger ones"
        )
    row = generator.integers(picture.shape[0] - height)
    column = generator.integers(picture.shape[1] - width)
    return picture[row : row + height, column : column + width]


def _scaled(picture: Image, scale: float) -> Image:
    if scale == 1:
        return picture
    result = picture.astype(np.float32)
    for axis in (0, 1):
        size = picture.shape[axis]
        place = np.clip((np.arange(round(size * scale)) + 0.5) / scale - 0.5, 0, size - 1)
        before = np.minimum(place.astype(int), max(size - 2, 0))
        share = np.expand_dims(
            (place - before).astype(np.float32), [a for a in range(3) if a != axis]
        )
        after = np.minimum(before + 1, size - 1)
        result = result.take(before, axis) * (1 - share) + result.take(after, axis) * share
    rounded: Image = np.floor(result + 0.5).astype(np.uint8)
    return rounded
