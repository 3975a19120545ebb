"""Decode images to pixels: in parallel, into one array, within a stated budget of memory."""

from __future__ import annotations

import io
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.datasets.image_size import SIDEWAYS, ImageSize, exif_orientation
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.machine import cores
from scotoma.storage.files import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.datasets.examples import AuditedExamples


Pixels: TypeAlias = "NDArray[np.uint8]"
BYTES_A_PIXEL = 16  # that decoding, converting and cropping take at most
CHUNK = 32  # images of a task: what a thread holds beside the array

# Pixels from which threads are used. Pillow reads a header in Python, one thread at a time, and
# releases the lock for the pixels only: at 32x32 two threads take longer than one, at 224x224 about
# half of the time is spent outside the lock.
THREADS_PAY = 96 * 96

# Formats that may be opened. Pillow knows more: EPS would start a PostScript interpreter.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO", "JPEG2000", "AVIF")
DEEP = ("I", "F")  # first letters of the modes with more than 8 bits a channel


def decode_images(examples: AuditedExamples, *, threads: int | None = None) -> Pixels:
    """Decode every image into memory.

    Args:
        examples: Images as encoded bytes, all of one size unless `examples.size` brings them to
            one.
        threads: How many to use; the pixels do not depend on it. None for one with small images,
            and one a core with larger ones.

    Returns:
        RGB pixels, uint8, shape (N, 3, H, W). Beside it no more than `CHUNK` images a thread are
        in memory at a time.

    Raises:
        DataError: The array does not fit the memory that is free; an image cannot be decoded, or
            differs in size from the first: the first such in the order of rows is named.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import load_examples
    >>> decode_images(load_examples(default_config()).split("test")).shape
    (1798, 3, 8, 8)
    """
    return decode_rows(examples.table, examples.size, threads=threads)


def decode_rows(
    table: pl.DataFrame,
    size: ImageSize | None = None,
    *,
    threads: int | None = None,
    limits: ReaderLimits | None = None,
) -> Pixels:
    """Decode a table as `decode_images` does: `example_id`, and `image` of `bytes` and `path`.

    Images of more pixels than `limits` allow are refused before they are decoded.
    """
    shape = image_shape(table, size)
    needed, free = int(np.prod(shape)), available_memory()
    if free is not None and needed > free:
        raise DataError(_too_large(shape, needed, f"{free:,} bytes of memory are free"))
    try:
        pixels = np.empty(shape, dtype=np.uint8)
    except MemoryError as error:
        raise DataError(_too_large(shape, needed, "the system refuses them")) from error
    _decode(table, shape, size, threads, pixels, limits)
    return pixels


def checked_parts(
    parts: Iterable[pl.DataFrame],
    size: ImageSize | None,
    *,
    limits: ReaderLimits = LIMITS,
    rows_an_image: int = 1,
    oriented: list[str] | None = None,
) -> Iterator[pl.DataFrame]:
    """Pass on tables with `example_id` and `image`, each once its images have been decoded.

    Args:
        parts: The tables; their images have one size all together.
        size: See `AuditedExamples`.
        limits: Memory for decoding one image.
        rows_an_image: How many rows stand for one image, the first of which brings it.
        oriented: The ids of images with an EXIF orientation are added to it.

    Raises:
        DataError: See `decode_images`; an image has more pixels than `limits` allow.
    """
    shape: tuple[int, ...] = ()
    for part in parts:
        pictured = part.gather_every(rows_an_image)
        shape = shape or image_shape(pictured, size)[1:]
        _decode(pictured, (pictured.height, *shape), size, None, None, limits, oriented)
        yield part


def decode_images_to(path: Path, examples: AuditedExamples) -> None:
    """Decode every image straight into a .npy file, which many processes map as one copy.

    Args:
        path: The file, replaced if it is there; whole or not there at all. The kernel may drop what
            is mapped of it, and read it again, where it has no memory for it.
        examples: See `decode_images`.

    Raises:
        DataError: See `decode_images`, with room on the disk in place of memory.
    """
    shape = image_shape(examples.table, examples.size)
    decode_parts_to(path, [examples.table], shape, examples.size)


def decode_parts_to(
    path: Path, parts: Iterable[pl.DataFrame], shape: tuple[int, ...], size: ImageSize | None
) -> None:
    """Decode rows that come some at a time, as `decode_images_to` does.

    Args:
        path: See `decode_images_to`.
        parts: Tables with `example_id` and `image`.
        shape: (N, 3, H, W), of all of them.
        size: See `AuditedExamples`.

    Raises:
        DataError: See `decode_images_to`.
    """
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
        done = 0
        for part in parts:
            place = pixels[done : done + part.height]
            _decode(part, place.shape, size, None, place)
            done += part.height
        pixels.flush()


def _too_large(shape: tuple[int, ...], needed: int, free: str) -> str:
    n, _, height, width = shape
    return (
        f"{n:,} images of {width}x{height} pixels need {needed:,} bytes and {free}; use smaller "
        "or fewer images, or free more"
    )


def image_shape(table: pl.DataFrame, size: ImageSize | None) -> tuple[int, int, int, int]:
    """Read (N, 3, H, W) from the header of the first image, or from the size of all."""
    if not table.height:
        return 0, 3, 0, 0
    if size is not None and size.height:
        return table.height, 3, size.height, size.width
    try:
        with image_opener()(table["image"][0]["bytes"]) as opened:
            width, height = _shown_sides(opened, size)
    except Exception as error:
        raise DataError(_undecodable(table, 0, error)) from error
    return table.height, 3, height, width


def _shown_sides(opened: Any, size: ImageSize | None) -> tuple[int, int]:
    """Width and height of an image, once it is upright if it is to be."""
    width, height = opened.size
    turned = size is not None and size.upright and exif_orientation(opened) in SIDEWAYS
    return (height, width) if turned else (width, height)


def image_opener() -> Callable[[bytes | None], Any]:
    """Build the function that opens an image of an allowed format."""
    from PIL import Image

    # Sizes are checked here, before pixels are decoded.
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    warnings.filterwarnings("ignore", message="Corrupt EXIF data")  # it turns nothing
    Image.init()
    formats = tuple(name for name in FORMATS if name in Image.OPEN)
    return lambda encoded: Image.open(io.BytesIO(encoded or b""), formats=formats)


def _decode(
    table: pl.DataFrame,
    shape: tuple[int, ...],
    resized: ImageSize | None,
    threads: int | None,
    pixels: Pixels | None,
    limits: ReaderLimits | None = None,
    oriented: list[str] | None = None,
) -> None:
    """Decode every row into its place, or into none."""
    n, _, height, width = shape
    fits = resized is not None and resized.height > 0
    most = most_pixels(limits) if limits else None
    one_large = threading.Lock()
    opening, encoded = image_opener(), table["image"].struct.field("bytes")

    def decode(start: int) -> None:
        for row, data in enumerate(encoded.slice(start, CHUNK).to_list(), start):
            try:
                with opening(data) as opened:
                    size, mode = opened.size, opened.mode
                    if most is not None and size[0] * size[1] > most:
                        raise DataError(
                            f"{_called(table, row)} must have at most {most:,} pixels, got "
                            f"{size[0]:,}x{size[1]:,}; make it smaller, or raise "
                            "limits.reader_memory_gib"
                        )
                    large = most is not None and size[0] * size[1] > most // 4
                    if oriented is not None and exif_orientation(opened) > 1:
                        oriented.append(table["example_id"][row])
                    size = _shown_sides(opened, resized)
                    if (fits or size == (width, height)) and mode[0] not in DEEP:
                        with one_large if large else nullcontext():
                            shown = opened if resized is None else resized.turned(opened)
                            rgb = shown if shown.mode == "RGB" else shown.convert("RGB")
                            rgb.load()
                            rgb = rgb if resized is None else resized.applied(rgb)
                            if pixels is not None:
                                pixels[row] = np.asarray(rgb).transpose(2, 0, 1)
                        continue
            except DataError:
                raise
            except Exception as error:  # what a broken file may raise has no common base
                raise DataError(_undecodable(table, row, error)) from error
            called = _called(table, row)
            if not fits and size != (width, height):
                raise DataError(
                    f"{called} is {size[0]}x{size[1]} pixels, but the first image is "
                    f"{width}x{height}; resize all images, or set source.size"
                )
            raise DataError(
                f"{called} must have 8 bits per channel, got mode {mode}; convert it to RGB"
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


def most_pixels(limits: ReaderLimits) -> int:
    """Compute how many pixels an image may have to be decoded within the memory of a reader.

    >>> most_pixels(LIMITS)
    67108864
    """
    return limits.memory_bytes(0) // BYTES_A_PIXEL


def _called(table: pl.DataFrame, row: int) -> str:
    """Name an image in a sentence: its example, and its file if the id does not say it."""
    example_id, place = table["example_id"][row], table["image"][row]["path"] or ""
    shown = f" ({printable(place)})" if place not in ("", example_id) else ""
    return f"image of example {printable(example_id)!r}{shown}"


def _undecodable(table: pl.DataFrame, row: int, error: Exception) -> str:
    from PIL import Image

    if isinstance(error, Image.DecompressionBombError):
        reason, way_out = "too many pixels", "make it smaller"
    else:
        size = len(table["image"][row]["bytes"] or b"")
        reason = f"{size:,} bytes that are no whole image"
        way_out = "replace its file or remove its row"
    return f"{_called(table, row)} cannot be decoded ({reason}); {way_out}"


# Of each version of cgroups: the limit, what is used of it, and which line of memory.stat counts
# file pages that the kernel gives up before it refuses memory.
FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available_memory(root: Path = Path("/")) -> int | None:
    """Compute the memory that can still be taken without swapping or being killed for it.

    Args:
        root: Where `proc` and `sys` are mounted.

    Returns:
        Bytes, at least 0: the least of what the machine has and of what each control group above
        this process leaves. None where the system tells neither, as outside Linux.

    >>> free = available_memory()
    >>> free is None or free > 0
    True
    """
    free = [rest for group in _groups(root) if (rest := _rest(*group)) is not None]
    free += [
        int(line.split()[1]) * 1024
        for line in _lines(root / "proc/meminfo")
        if line.startswith("MemAvailable:")
    ]
    return max(0, min(free)) if free else None


def _groups(root: Path) -> list[tuple[Path, int]]:
    """List folder and version of every control group of this process, and of those above."""
    groups = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version = 1 if controllers else 2
        mounted = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        # Inside a container the name may be the host's, of which only the end is mounted: groups
        # that are not there are passed over, and the mount itself always counts.
        path = PurePosixPath("/", name)
        groups += [(mounted / p.relative_to("/"), version) for p in (path, *path.parents)]
    return groups


def _rest(folder: Path, version: int) -> int | None:
    """Compute the memory that one control group leaves; None if it is absent or has no limit."""
    limit, used, reclaimable = FILES[version]
    allowed, held = _lines(folder / limit), _lines(folder / used)
    if not allowed or not held or not allowed[0].isdigit():  # version 2 says "max" for no limit
        return None
    stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    return int(allowed[0]) - int(held[0]) + int(stat.get(reclaimable, 0))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
