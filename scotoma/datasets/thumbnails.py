"""Images as small as a page needs them, and blurred beyond recognition where that is asked.

Only pixels that were decoded leave an audit: no bytes of a file, and none of its metadata.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scotoma import storage
from scotoma.config.limits import LIMITS
from scotoma.datasets.image_decoding import image_opener, most_pixels
from scotoma.datasets.image_size import turn_upright

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


PICTURE_BYTES = 4_000_000  # of an image of the gallery; a larger one is left out


def named_images(folder: str, names: Mapping[str, str | None]) -> dict[str, bytes]:
    """Images that the table of examples names, from the folder that it lies in.

    Args:
        folder: Where the table is.
        names: Example id to the name of its image, relative to the table's folder.

    Returns:
        Content by example id; without those that are absent, too large for a page, or named by a
        path that leads out of the folder.
    """
    files = picture_files(folder, names.values())
    plain = {example_id: posixpath.normpath(name or "..") for example_id, name in names.items()}
    kept = {name for name in files.names if storage.exists(files.place(name))}
    return {
        example_id: storage.read_bytes(files.place(name))
        for example_id, name in plain.items()
        if name in kept
    }


def picture_files(folder: str, names: Iterable[str | None]) -> storage.StampedFiles:
    """List the images of these names that a page may show; see `named_images`."""
    shown: dict[str, None] = {}
    for name in names:
        plain = posixpath.normpath(name or "..")
        if plain.startswith(("..", "/")) or "\0" in plain:
            continue
        place = storage.join(folder, plain)
        if not storage.is_remote(place):
            path = Path(place).resolve()
            inside = path.is_relative_to(Path(folder).resolve()) and path.is_file()
            if not inside or path.stat().st_size > PICTURE_BYTES:
                continue
        shown[plain] = None
    return storage.StampedFiles(folder, tuple(shown))
