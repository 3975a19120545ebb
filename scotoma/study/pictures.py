"""How does every image look alike but for what it shows? One size, one format, one length."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.config.limits import LIMITS
from scotoma.datasets.image_decoding import image_opener, most_pixels
from scotoma.datasets.image_size import turn_upright
from scotoma.errors import DataError
from scotoma.printable import printable

SIDE = 256  # pixels of the square that every image is brought into
PRINT = 16  # pixels a side of the grey copy that tells near duplicates
NEAR = 4.0  # mean difference of grey levels, of 255, below which two images are near duplicates


def displayed(data: bytes, example_id: str) -> bytes:
    """Encode an image anew as a PNG of 256 by 256 pixels, without any metadata.

    Smaller images grow by whole factors, so that their pixels stay squares; transparency lies on
    white; what the square leaves over is grey.

    Args:
        data: The encoded image.
        example_id: Whose it is, for errors.

    Raises:
        DataError: It cannot be decoded.
    """
    from PIL import Image

    try:
        image = image_opener()(data)
        if image.width * image.height > most_pixels(LIMITS):
            raise ValueError(f"{image.width:,} by {image.height:,} pixels are too many")
        image.load()
        pixels = _eight_bits(turn_upright(image))
    except Exception as error:  # what a broken file may raise has no common base
        raise DataError(
            f"image of example {printable(example_id)!r} cannot be decoded; replace it, or leave "
            "the example out of the audit"
        ) from error
    longest = max(pixels.size)
    if longest <= SIDE // 2:
        factor = SIDE // longest
        pixels = pixels.resize(
            (pixels.width * factor, pixels.height * factor), Image.Resampling.NEAREST
        )
    elif longest != SIDE:
        size = tuple(max(1, round(side * SIDE / longest)) for side in pixels.size)
        pixels = pixels.resize(size, Image.Resampling.LANCZOS)
    square = Image.new("RGB", (SIDE, SIDE), (128, 128, 128))
    square.paste(pixels, ((SIDE - pixels.width) // 2, (SIDE - pixels.height) // 2))
    content = io.BytesIO()
    square.save(content, "PNG", compress_level=6)
    return content.getvalue()


def _eight_bits(image: Any) -> Any:
    """The image as RGB: 16 bits scaled, transparency on white."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        levels = np.asarray(image, float)
        low, high = float(levels.min()), float(levels.max())
        most = 65535 if high > 255 and low >= 0 else max(255.0, high)
        return Image.fromarray(np.clip(levels * (255 / most), 0, 255).astype(np.uint8)).convert(
            "RGB"
        )
    if "A" in image.getbands() or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def padded(images: Sequence[bytes]) -> list[bytes]:
    """Bring PNGs to one length, so that their size tells nothing.

    The rest is a chunk before the last one, which decoders pass over.

    >>> [len(one) for one in padded([b"short" + bytes(12), b"a longer one" + bytes(12)])]
    [36, 36]
    """
    most = max(map(len, images)) + 12  # of an empty chunk
    filled = []
    for image in images:
        body = bytes(most - len(image) - 12)
        chunk = b"npAd" + body  # ancillary, private, safe to copy
        framed = len(body).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        filled.append(image[:-12] + framed + image[-12:])
    return filled


def encoding_of(png: bytes) -> tuple[int, int, int, int, int]:
    """What the head of a PNG tells beside its pixels: width, height, bits, colours, interlacing.

    >>> head = bytes(16) + bytes([0, 0, 1, 0, 0, 0, 0, 32, 8, 2, 0, 0, 0])
    >>> encoding_of(head)
    (256, 32, 8, 2, 0)
    """
    width, height, bits, colours, interlaced = struct.unpack(">IIBBxxB", png[16:29])
    return width, height, bits, colours, interlaced


def print_of(png: bytes) -> npt.NDArray[np.float32]:
    """A small grey copy of an image: near duplicates have nearly the same, shape (256,)."""
    from PIL import Image

    grey = Image.open(io.BytesIO(png), formats=("PNG",)).convert("L")
    small = grey.resize((PRINT, PRINT), Image.Resampling.BOX)
    return np.asarray(small, np.float32).ravel()


def duplicates(prints: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which images are the same as, or nearly the same as, one before them, shape (N,).

    Args:
        prints: From `print_of`, shape (N, 256).

    >>> duplicates(np.array([[0.0] * 4, [90] * 4, [1] * 4], np.float32)).tolist()
    [False, False, True]
    """
    again = np.zeros(len(prints), bool)
    for row in range(1, len(prints)):
        distance = np.abs(prints[:row][~again[:row]] - prints[row]).mean(axis=1)
        again[row] = bool((distance < NEAR).any())
    return again
