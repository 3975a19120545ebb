"""Images as small as a page needs them, and blurred beyond recognition where that is asked.

Only pixels that were decoded leave an audit: no bytes of a file, and none of its metadata.
"""

from __future__ import annotations

import io
from typing import Any

from scotoma.config.limits import LIMITS
from scotoma.datasets.image_decoding import image_opener, most_pixels
from scotoma.datasets.image_size import turn_upright

__all__ = ["BLURRED", "blurred", "shrunk"]

SIDE = 128  # pixels of the longer side, at most
SQUARES = 8  # along the longer side of a blurred image
BLURRED = f"Each image is reduced to {SQUARES} squares along its longer side."
QUALITY = 80  # of JPEG
LOSSLESS = ("PNG", "GIF")
SHOWN = (*LOSSLESS, "JPEG", "MPO", "WEBP")


def shrunk(data: bytes) -> bytes:
    """An image encoded anew, no longer than 128 pixels a side.

    Args:
        data: PNG, JPEG, GIF or WebP.

    Returns:
        A PNG of what was small and lossless, else a JPEG; nothing where the image cannot be read.

    >>> shrunk(b"no image")
    b''
    """
    image = _opened(data)
    if image is None:
        return b""
    lossless = image.format in LOSSLESS and max(image.size) <= SIDE
    image.thumbnail((SIDE, SIDE))
    pixels = image.convert("RGB")
    return _encoded(pixels, "PNG") if lossless else _encoded(pixels, "JPEG", quality=QUALITY)


def blurred(data: bytes) -> bytes:
    """An encoded image as few large squares, each the mean of what it covers.

    What is left out is not in the page, so that nothing there can bring it back.

    Returns:
        A PNG; nothing where the image cannot be read.

    >>> blurred(b"no image")
    b''
    """
    from PIL import Image

    image = _opened(data)
    if image is None:
        return b""
    scale = SQUARES / max(image.size)
    size = tuple(max(1, round(side * scale)) for side in image.size)
    squares = image.convert("RGB").resize(size, Image.Resampling.BOX)
    return _encoded(squares, "PNG")


def _opened(data: bytes) -> Any:
    """The image, read whole; None where Pillow cannot."""
    try:
        image = image_opener()(data)
        if image.format not in SHOWN or image.width * image.height > most_pixels(LIMITS):
            return None
        image.load()
        kind, image = image.format, turn_upright(image)
        image.format = kind
    except Exception:  # what a broken file may raise has no common base
        return None
    return image


def _encoded(image: Any, kind: str, **options: int) -> bytes:
    content = io.BytesIO()
    image.info.clear()  # a comment, a colour profile: Pillow would write them too
    image.save(content, kind, **options)
    return content.getvalue()
