"""Store training images that need not fit memory: decoded once if the disk has room, or each time.

Either way a trainer indexes rows, `images[rows]`, as in an array of shape (N, 3, H, W). Every
process maps the files on the disk; the kernel keeps them in memory as far as it can spare some.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_decoding import Pixels, decode_parts_to, decode_rows, image_shape
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.numbers.inputs import Ints
from scotoma.storage.files import written

PART = 256  # rows read from the examples at a time
AHEAD = 4  # batches that are decoded in advance
SPARE = 0.9  # share of the free disk that images may take
Rows = Ints


class IndexedImages(Protocol):
    """Images that a trainer indexes by rows; an array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, 3, H, W)."""

    def __len__(self) -> int:
        """N."""

    def __getitem__(self, rows: Any) -> Pixels:
        """Pixels of the rows of these numbers, uint8, shape (B, 3, H, W)."""


class Ahead:
    """Images whose next batches are decoded by a thread in advance.

    >>> array = np.arange(24, dtype=np.uint8).reshape(8, 3, 1, 1)
    >>> with Ahead(array, iter([np.array([1, 2]), np.array([5, 0])])) as images:
    ...     images[np.array([1, 2])].ravel().tolist()
    [3, 4, 5, 6, 7, 8]
    """

    def __init__(self, images: IndexedImages, upcoming: Iterator[Rows]) -> None:
        """Take images; nothing is decoded before the block is entered.

        Args:
            images: Images to decode.
            upcoming: Rows of each batch, in the order in which they will be read. Others may be
                read in between; they are decoded then.
        """
        self._images, self._upcoming = images, upcoming
        self._waiting: deque[tuple[Rows, Future[Pixels]]] = deque()
        self._thread = ThreadPoolExecutor(1)
        self.shape = images.shape

    def __enter__(self) -> Ahead:
        self._refill()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, rows: Any) -> Pixels:
        """Pixels of rows, decoded in advance where they are the next batch."""
        if not (self._waiting and np.array_equal(self._waiting[0][0], rows)):
            return self._images[rows]
        _, pixels = self._waiting.popleft()
        self._refill()
        return pixels.result()

    def _refill(self) -> None:
        for rows in islice(self._upcoming, AHEAD - len(self._waiting)):
            self._waiting.append((rows, self._thread.submit(self._images.__getitem__, rows)))


def looking_ahead(
    images: IndexedImages, upcoming: Iterator[Rows]
) -> contextlib.AbstractContextManager[IndexedImages]:
    """Open images for a block, decoded in advance where they must be decoded at all.

    Args:
        images: Pixels, or images that are decoded.
        upcoming: See `Ahead`.
    """
    if isinstance(images, StoredImages):
        return Ahead(images, upcoming)
    return contextlib.nullcontext(images)


@dataclass(frozen=True)
class StoredImages:
    """Files with the images of a split, for any process to open.

    Attributes:
        path: A .npy file of pixels, or encoded images one behind the other.
        shape: (N, 3, H, W), decoded.
        ends: Where each encoded image ends, bytes, shape (N,); None for pixels.
        size: See `AuditedExamples`.
    """

    path: Path
    shape: tuple[int, ...]
    ends: Rows | None = None
    size: ImageSize | None = None

    def open(self) -> IndexedImages:
        """Map the images: pixels, or these, which are decoded each time they are read."""
        if self.ends is not None:
            return self
        mapped: Pixels = np.load(self.path, mmap_mode="c", allow_pickle=False)
        return mapped

    @cached_property
    def _encoded(self) -> Pixels:
        return np.memmap(self.path, dtype=np.uint8, mode="r")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Pixels:
        """Pixels, uint8, shape (B, 3, H, W), of rows that are numbers or a slice."""
        assert self.ends is not None
        numbers, ends, held = np.arange(len(self))[rows], self.ends, self._encoded
        encoded = [
            {"bytes": held[ends[row - 1] if row else 0 : ends[row]].tobytes(), "path": None}
            for row in numbers
        ]
        ids = pl.Series("example_id", [f"row {row}" for row in numbers], pl.String)
        table = pl.DataFrame([ids, pl.Series("image", encoded)])
        return decode_rows(table, self.size, threads=1)


def store_images(
    parquet: Path, split: str, folder: Path, *, room: float | None = None
) -> StoredImages:
    """Put the images of a split where many processes can share them.

    Args:
        parquet: Examples, as `Examples.write` wrote them; read part by part.
        split: Name of the split.
        folder: Where to put them.
        room: Bytes that they may take; None for nine tenths of the free disk.

    Returns:
        Pixels, if there is room for them; else the encoded images.

    Raises:
        DataError: There is room for neither, or `decode_images` refuses an image.
    """
    examples = AuditedExamples.read(parquet, images=False)
    n, each = len(examples.split(split).pictured.ids), examples.rows_an_image
    first = next(_parts(parquet, split, each), None)
    if first is None:
        shape: tuple[int, ...] = (0, 3, 0, 0)
    else:
        shape = (n, *image_shape(first, examples.size)[1:])
    free = SPARE * shutil.disk_usage(folder).free if room is None else room
    if np.prod(shape) <= free:
        path = folder / "images.npy"
        decode_parts_to(path, _parts(parquet, split, each), shape, examples.size)
        return StoredImages(path, shape)
    path = folder / "images.encoded"
    ends = _write_encoded(path, _parts(parquet, split, each), free)
    return StoredImages(path, shape, ends, examples.size)


def _write_encoded(path: Path, parts: Iterable[pl.DataFrame], free: float) -> Rows:
    """Write encoded images one behind the other; return where each ends."""
    ends: list[Ints] = []
    total = 0
    with written(path) as temporary, temporary.open("wb") as file:
        for part in parts:
            encoded = part["image"].struct.field("bytes")
            ends.append(total + encoded.bin.size().to_numpy().astype(np.int64).cumsum())
            total = int(ends[-1][-1])
            if total > free:
                raise DataError(
                    f"encoded images need more than the {free:,.0f} bytes that are free at "
                    f"{path.parent}; set TMPDIR to a folder with more room"
                )
            file.writelines(encoded)
    return np.concatenate(ends)


def _parts(parquet: Path, split: str, each: int) -> Iterator[pl.DataFrame]:
    """`example_id` and `image` of every so manieth row of a split, some at a time."""
    scan = pl.scan_parquet(parquet, glob=False).select("example_id", "split", "image")
    rows = scan.select(pl.len()).collect().item()
    for start in range(0, rows, PART * each):
        part = scan.slice(start, PART * each).collect().gather_every(each)
        part = part.filter(pl.col("split") == split)
        if part.height:
            yield part
