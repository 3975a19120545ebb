"""From encoded images to pixels: in parallel, into one array, within a stated budget of memory."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.datasets.memory import available_memory
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.files import written
from scotoma.machine import cores
from scotoma.printable import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.datasets.examples import Examples

__all__ = ["check_images", "decode_images", "decode_images_to", "decode_rows"]

CHUNK = 32  # images of a task: what a thread holds beside the array

# Pixels from which threads are used. Pillow reads a header in Python, one thread at a time, and
# releases the lock for the pixels only: at 32x32 two threads take longer than one, at 224x224 about
# half of the time is spent outside the lock.
THREADS_PAY = 96 * 96

# What may be opened. Not all that Pillow can: EPS, for one, would start a PostScript interpreter.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO", "JPEG2000", "AVIF")
DEEP = ("I", "F")  # first letters of the modes with more than 8 bits a channel


def decode_images(examples: Examples, *, threads: int | None = None) -> NDArray[np.uint8]:
    """Decode every image into memory.

    Args:
        examples: Images as encoded bytes, all of one size.
        threads: How many to use; the pixels do not depend on it. None for one with small images,
            and one a core with larger ones.

    Returns:
        RGB pixels, uint8, shape (N, 3, H, W). Beside it no more than `CHUNK` images a thread are
        in memory at a time.

    Raises:
        DataError: The array does not fit the memory that is free; an image cannot be decoded, or
            differs in size from the first: the first such in the order of rows is named.

    >>> from scotoma.config import default_config
    >>> from scotoma.datasets import load_examples
    >>> decode_images(load_examples(default_config()).split("test")).shape
    (1798, 3, 8, 8)
    """
    return decode_rows(examples.table["example_id"], examples.table["image"], threads=threads)


def decode_rows(
    ids: pl.Series, images: pl.Series, *, threads: int | None = None
) -> NDArray[np.uint8]:
    """`decode_images` of some rows: their ids, and structs of `bytes` and `path`."""
    shape = _shape(ids, images)
    needed, free = int(np.prod(shape)), available_memory()
    if free is not None and needed > free:
        raise DataError(_too_large(shape, needed, f"{free:,} bytes of memory are free"))
    try:
        pixels = np.empty(shape, dtype=np.uint8)
    except MemoryError as error:
        raise DataError(_too_large(shape, needed, "the system refuses them")) from error
    _decode(ids, images, shape, threads, pixels)
    return pixels


def check_images(examples: Examples, *, threads: int | None = None) -> None:
    """Decode every image and keep none: no more than `CHUNK` a thread are in memory.

    Args:
        examples: As of `decode_images`.
        threads: As of `decode_images`.

    Raises:
        DataError: As of `decode_images`, but for memory.

    >>> from scotoma.config import default_config
    >>> from scotoma.datasets import load_examples
    >>> check_images(load_examples(default_config()).split("test"))
    """
    ids, images = examples.table["example_id"], examples.table["image"]
    _decode(ids, images, _shape(ids, images), threads, None)


def decode_images_to(
    path: Path, examples: Examples, *, threads: int | None = None
) -> NDArray[np.uint8]:
    """Decode every image straight into a .npy file, of which many processes map one copy.

    Args:
        path: The file, replaced if it is there; whole or not there at all.
        examples: As of `decode_images`.
        threads: As of `decode_images`.

    Returns:
        The pixels of `decode_images`, mapped read-only, as `np.load(path, mmap_mode="r")` maps
        them elsewhere. The kernel may drop and read again what it has no memory for.

    Raises:
        DataError: As of `decode_images`, with the room on the disk in place of memory.
    """
    ids, images = examples.table["example_id"], examples.table["image"]
    shape = _shape(ids, images)
    needed = int(np.prod(shape))
    with written(path) as temporary:
        free = shutil.disk_usage(path.parent).free
        refusal = _too_large(shape, needed, f"{free:,} bytes of disk are free at {path.parent}")
        if needed > free:
            raise DataError(refusal)
        pixels = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        if hasattr(os, "posix_fallocate"):  # else a full disk ends the process, in the middle
            with temporary.open("rb+") as file:
                try:
                    os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
                except OSError as error:
                    raise DataError(refusal) from error
        _decode(ids, images, shape, threads, pixels)
        pixels.flush()
    mapped: NDArray[np.uint8] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def _too_large(shape: tuple[int, ...], needed: int, found: str) -> str:
    n, _, height, width = shape
    return (
        f"{n:,} images of {width}x{height} pixels need {needed:,} bytes and {found}; make the "
        "images smaller, take fewer, or give the audit more room"
    )


def _shape(ids: pl.Series, images: pl.Series) -> tuple[int, int, int, int]:
    """(N, 3, H, W) by the header of the first image."""
    if not len(images):
        return 0, 3, 0, 0
    opening = _opener()
    try:
        with opening(images[0]["bytes"]) as opened:
            width, height = opened.size
    except Exception as error:
        raise DataError(_undecodable(ids[0], images[0], error)) from error
    return len(images), 3, height, width


def _opener() -> Callable[[bytes | None], Any]:
    """What opens an image of the formats that are let in."""
    pillow = needs("PIL.Image", "train", "decoding images")
    pillow.init()
    formats = tuple(name for name in FORMATS if name in pillow.OPEN)
    return lambda encoded: pillow.open(io.BytesIO(encoded or b""), formats=formats)


def _decode(
    ids: pl.Series,
    images: pl.Series,
    shape: tuple[int, int, int, int],
    threads: int | None,
    pixels: NDArray[np.uint8] | None,
) -> None:
    """Decode every row into its place, or into none."""
    n, _, height, width = shape
    opening, encoded = _opener(), images.struct.field("bytes")

    def decode(start: int) -> None:
        for row, data in enumerate(encoded.slice(start, CHUNK).to_list(), start):
            try:
                with opening(data) as opened:
                    size, mode = opened.size, opened.mode
                    if size == (width, height) and mode[0] not in DEEP:
                        rgb = opened if mode == "RGB" else opened.convert("RGB")
                        rgb.load()
                        if pixels is not None:
                            pixels[row] = np.asarray(rgb).transpose(2, 0, 1)
                        continue
            except Exception as error:  # what a broken file may raise has no common base
                raise DataError(_undecodable(ids[row], images[row], error)) from error
            called = _called(ids[row], images[row])
            if size != (width, height):
                raise DataError(
                    f"{called} is {size[0]}x{size[1]} pixels where the first is {width}x{height}; "
                    "bring all images to one size"
                )
            raise DataError(
                f"{called} must have 8 bits a channel, got mode {mode}; convert it to RGB"
            )

    starts = range(0, n, CHUNK)
    workers = threads or (cores() if height * width >= THREADS_PAY else 1)
    if min(workers, len(starts)) <= 1:
        for start in starts:
            decode(start)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(decode, starts):  # in order, so that the first fault of all is raised
            pass


def _called(example_id: str, image: dict[str, Any]) -> str:
    """An image in a sentence: its example, and where it came from if the id does not say it."""
    place = image["path"] or ""
    shown = f" ({printable(place)})" if place not in ("", example_id) else ""
    return f"image of example {printable(example_id)!r}{shown}"


def _undecodable(example_id: str, image: dict[str, Any], error: Exception) -> str:
    pillow = needs("PIL.Image", "train", "decoding images")
    if isinstance(error, pillow.DecompressionBombError):
        reason, way_out = "more pixels than memory is risked for", "make it smaller"
    else:
        reason = f"{len(image['bytes'] or b''):,} bytes that are no whole image"
        way_out = "replace its file or remove its row"
    return f"{_called(example_id, image)} cannot be decoded ({reason}); {way_out}"
