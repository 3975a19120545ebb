"""How are pictures read from files, photographs of frost cut, and results drawn side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image, ImageDraw, ImageFont

from scotoma import storage
from scotoma.config.limits import LIMITS
from scotoma.corruptions.resampling import Images
from scotoma.datasets.image_decoding import decode_rows
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import ConfigError
from scotoma.printable import printable
from scotoma.run.mirror import folder_here
from scotoma.storage.files import open_regular


def read_image(path: Path, size: ImageSize | None = None) -> Images:
    """Read an image.

    Args:
        path: A file that `scotoma.datasets` can decode.
        size: See `Examples.size`; None leaves the image as it is.

    Returns:
        RGB, uint8, shape (h, w, 3); grey images are made RGB and transparency is dropped.

    Raises:
        DataError: It cannot be decoded, has more pixels than the limits allow, or more than 8 bits
            a channel.
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        encoded = file.read()
    image = {"bytes": encoded, "path": str(path)}
    table = pl.DataFrame({"example_id": [path.name], "image": [image]})
    return np.ascontiguousarray(decode_rows(table, size, limits=LIMITS)[0].transpose(1, 2, 0))


def has_transparency(path: Path) -> bool:
    """Whether the file of an image that can be decoded has an alpha channel or a clear colour."""
    from PIL import Image

    with open_regular(path) as file, Image.open(file) as image:
        return bool(image.has_transparency_data)


SMALLEST = 96  # pixels that an image is enlarged to, by a whole factor
GAP, CAPTION = 6, 20  # pixels
LONG = 8  # rows from which two blocks stand side by side
PAPER, INK = "white", "#222222"


def draw_strip(rows: Mapping[str, Sequence[Images]]) -> Image.Image:
    """Draw rows of images, each below its caption; many rows in two blocks side by side.

    Args:
        rows: Caption, and images of shape (h, w, 3), all of one size.

    >>> grey = np.full((32, 32, 3), 128, np.uint8)
    >>> draw_strip({"fog: 1, 3, 5": [grey] * 3}).size
    (312, 128)
    """
    height, width = next(iter(rows.values()))[0].shape[:2]
    factor = -(-SMALLEST // min(height, width))
    height, width = height * factor, width * factor
    across = max(len(images) for images in rows.values()) * (width + GAP) + GAP
    down = CAPTION + height + GAP
    blocks = 2 if len(rows) >= LONG else 1
    in_block = -(-len(rows) // blocks)
    sheet = Image.new("RGB", (blocks * across, in_block * down + GAP), PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for number, (caption, images) in enumerate(rows.items()):
        block, row = divmod(number, in_block)
        left, top = block * across + GAP, row * down + GAP // 2
        pen.text((left, top), caption, fill=INK, font=font)
        for place, image in enumerate(images):
            enlarged = Image.fromarray(np.repeat(np.repeat(image, factor, 0), factor, 1))
            sheet.paste(enlarged, (left + place * (width + GAP), top + CAPTION))
    return sheet


ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".webp")


def read_pictures(folder: str | Path, *, scale: float, size: int) -> tuple[Images, ...]:
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
    generator: np.random.Generator, pictures: Sequence[Images], height: int, width: int
) -> Images:
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


def _scaled(picture: Images, scale: float) -> Images:
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
    rounded: Images = np.floor(result + 0.5).astype(np.uint8)
    return rounded
