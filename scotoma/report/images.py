"""Images inside the page: as data URIs, never from elsewhere, within a budget."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Album", "Picture"]

BUDGET = 2_500_000  # characters of all images together: half of what the whole page may weigh
SMALL = 128  # pixels a side: below it pixels are shown as squares, not blurred

# An image says what it is by its first bytes. SVG is not among them: it can hold scripts.
SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


@dataclass(frozen=True)
class Picture:
    """An image of the gallery.

    Attributes:
        uri: Its data URI; empty where it is not shown.
        reason: Why it is not shown; empty otherwise.
        small: Its pixels are to be seen as squares.
    """

    uri: str = ""
    reason: str = ""
    small: bool = False


class Album:
    r"""Hands out images until the budget is spent; who asks first is served first.

    >>> album = Album({"a": b"\xff\xd8\xff"})
    >>> album.take("a").uri, album.take("b").reason
    ('data:image/jpeg;base64,/9j/', 'no image')
    """

    def __init__(self, images: Mapping[str, bytes], budget: int = BUDGET) -> None:
        self._images = images
        self._left = budget  # characters

    def take(self, example_id: str) -> Picture:
        """The image of one example, paid for each time it is taken.

        >>> Album({"a": b"GIF8"}, budget=5).take("a").reason
        'image left out to keep this page small'
        """
        data = self._images.get(example_id)
        if not data:
            return Picture(reason="no image")
        kind = next((kind for kind, start in SIGNATURES.items() if data.startswith(start)), None)
        if kind is None:
            return Picture(reason="no image (of its kind: PNG, JPEG, GIF and WebP are shown)")
        uri = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
        if len(uri) > self._left:
            return Picture(reason="image left out to keep this page small")
        self._left -= len(uri)
        # A PNG states its width and height, four bytes each, behind its signature and IHDR.
        sides = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        return Picture(uri, small=kind == "image/png" and max(sides) < SMALL)
