"""Read CIFAR-10 in its authors' binary version: files of a label and 3,072 bytes an image.

Their Python version, which torchvision downloads too, is pickled: reading it would run what is in
it, so it is refused.
"""

from __future__ import annotations

import posixpath
import re
import struct
import zlib
from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma import storage
from scotoma.errors import DataError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.datasets.image_decoding import Pixels


FOLDERS = ("", "cifar-10-batches-bin/")  # as the authors' archive is unpacked
FILES = {
    "train": [f"data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["test_batch.bin"],
}
NAMES = "batches.meta.txt"  # what the classes are called
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # bytes: a label, then all red, all green and all blue
CHUNK = 4096  # images encoded at a time
PICKLED = re.compile(r"(data_batch_[1-5]|test_batch|batches\.meta)")


def binary_files(uri: str, listed: Collection[str]) -> dict[str, list[str]]:
    """List the binary files of each split; none where the place holds none of them.

    Args:
        uri: Folder or `s3://` prefix.
        listed: Names of the files below it.

    Raises:
        DataError: Some of the files are absent, or there are only pickled ones.

    >>> binary_files("here", ["train.parquet"])
    {}
    """
    for folder in FOLDERS:
        wanted = {split: [f"{folder}{name}" for name in names] for split, names in FILES.items()}
        every = [name for names in wanted.values() for name in names]
        if any(name in listed for name in every):
            for name in every:
                if name not in listed:
                    raise DataError(
                        f"source.data {uri} lacks {name} of CIFAR-10's binary version; unpack "
                        "cifar-10-binary.tar.gz again"
                    )
            return wanted
    pickled = [name for name in listed if PICKLED.fullmatch(posixpath.basename(name))]
    if pickled and not any(name.endswith(".parquet") for name in listed):
        raise DataError(
            f"{printable(storage.join(uri, min(pickled)))} is a pickle, which can run any code, "
            "so Scotoma does not load it; use the binary version (cifar-10-binary.tar.gz) or "
            "Parquet files"
        )
    return {}


def read_files(uri: str, listed: Collection[str]) -> list[str]:
    """List the files that `load_binary` reads; none where the place holds none of them.

    Args:
        uri: See `binary_files`.
        listed: See `binary_files`.

    Raises:
        DataError: See `binary_files`.

    >>> read_files("here", ["train.parquet"])
    []
    """
    files = [name for names in binary_files(uri, listed).values() for name in names]
    names = {posixpath.join(posixpath.dirname(name), NAMES) for name in files}
    return [*files, *sorted(names & set(listed))]


def load_binary(
    uri: str, files: dict[str, list[str]], classes: Collection[str], *, images: bool = True
) -> pl.DataFrame:
    """Read both splits.

    Args:
        uri: Folder or `s3://` prefix.
        files: See `binary_files`.
        classes: What the classes are called, if the file of their names is there.
        images: Whether the table is to hold the images.

    Returns:
        One row an image: `example_id` (`test-00042`), `split`, `label` (class ids), and `image`
        (PNG, and as `path` file and row) if `images` is set.

    Raises:
        DataError: A file is not whole records, a label is no class, or classes are called
            otherwise.
    """
    _check_names(uri, posixpath.dirname(files["test"][0]), classes)
    parts = []
    for split, names in files.items():
        for name in names:
            records = _records(storage.join(uri, name))
            columns = {"label": records[:, 0].astype(np.int64), "split": [split] * len(records)}
            part = pl.DataFrame(columns)
            if images:
                pixels = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
                starts = range(0, len(pixels), CHUNK)
                encoded = chain.from_iterable(colour_pngs(pixels[at : at + CHUNK]) for at in starts)
                paths = [f"{name} row {row}" for row in range(len(pixels))]
                pictures = pl.DataFrame({"bytes": list(encoded), "path": paths})
                part = part.with_columns(pictures.to_struct("image"))
            parts.append(part)
    table = pl.concat(parts)
    row = pl.int_range(pl.len()).over("split").cast(pl.String).str.zfill(5)
    return table.with_columns(pl.concat_str("split", pl.lit("-"), row).alias("example_id"))


def _records(place: str) -> NDArray[np.uint8]:
    content = storage.read_bytes(place)
    if not content or len(content) % RECORD:
        raise DataError(
            f"{place} must hold whole records of {RECORD:,} bytes, got {len(content):,} bytes; "
            "unpack cifar-10-binary.tar.gz again"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
    if (wrong := records[:, 0] > 9).any():
        row = int(wrong.argmax())
        raise DataError(
            f"{place} must hold labels 0 to 9, got {records[row, 0]} in record {row}, counted from "
            "0; unpack cifar-10-binary.tar.gz again"
        )
    return records


def _check_names(uri: str, folder: str, classes: Collection[str]) -> None:
    """Refuse files of another data set, if the file of names says so."""
    place = storage.join(uri, posixpath.join(folder, NAMES))
    if not storage.exists(place):
        return
    names = storage.read_bytes(place).decode("utf-8", "replace").split()
    if names != list(classes):
        raise DataError(
            f"{place} must name the classes {', '.join(classes)}, got "
            f"{printable(', '.join(names))[:200]}; use kind parquet for other data"
        )


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
