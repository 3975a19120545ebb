"""Encode pixels as PNG files, many at a time."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scotoma.datasets.image_decoding import Pixels


SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR = 0, 2  # kinds of PNG
SUB = 1  # filter: each pixel as its difference from the one to its left


def grey_of(rgb: Pixels) -> Pixels:
    """Compute the brightness of RGB pixels, ITU-R 601-2, rounded as in Pillow's mode `L`.

    Args:
        rgb: Shape (N, 3, H, W).

    Returns:
        Shape (N, H, W).

    >>> grey_of(np.array([255, 128, 0], np.uint8).reshape(1, 3, 1, 1)).item()
    151
    """
    red, green, blue = (rgb[:, channel].astype(np.uint32) for channel in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint8)


def grey_pngs(grey: Pixels) -> list[bytes]:
    """Encode grey images, losslessly and without compression.

    Small images hardly compress, and deflating each by itself takes ten times as long as all the
    rest. They are filtered, so that the Parquet file they go into compresses many at once.

    Args:
        grey: Brightness, shape (N, H, W), H and W at least 1.

    Returns:
        N PNG files of 8 bits, one channel.

    >>> len(grey_pngs(np.zeros((2, 32, 32), np.uint8))[0])
    1124
    """
    return _pngs(grey[..., None], GREY)


def colour_pngs(rgb: Pixels) -> list[bytes]:
    """Encode RGB images as `grey_pngs` encodes grey ones.

    Args:
        rgb: Shape (N, 3, H, W), H and W at least 1.

    Returns:
        N PNG files of 8 bits, three channels.

    >>> len(colour_pngs(np.zeros((2, 3, 32, 32), np.uint8))[0])
    3172
    """
    return _pngs(rgb.transpose(0, 2, 3, 1), COLOUR)


def _pngs(pixels: Pixels, kind: int) -> list[bytes]:
    """Encode pixels of shape (N, H, W, C), every file by itself."""
    n, height, width, channels = pixels.shape
    filtered = pixels.copy()
    np.subtract(pixels[:, :, 1:], pixels[:, :, :-1], out=filtered[:, :, 1:])
    rows = np.empty((n, height, 1 + width * channels), dtype=np.uint8)
    rows[:, :, 0] = SUB
    rows[:, :, 1:] = filtered.reshape(n, height, -1)
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    tail = _chunk(b"IEND", b"")
    return [
        b"".join((SIGNATURE, head, _chunk(b"IDAT", zlib.compress(image.tobytes(), level=0)), tail))
        for image in rows.reshape(n, -1)
    ]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
