"""Read images that are files of their own, and tables beside them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.config.limits import ReaderLimits
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.untrusted import table_apart
from scotoma.readers.tables import scan_table

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".avif")
READERS = 16  # objects read at a time: what a request waits for is the network
CHUNK = 1024  # images a part of the column
IMAGE = pl.Struct({"bytes": pl.Binary, "path": pl.String})


def attributes_table(uri: str, limits: ReaderLimits) -> pl.DataFrame:
    """Read a CSV of `source.attributes`, every column as text.

    Raises:
        DataError: It is no file, or no CSV.
    """
    if not storage.is_remote(uri) and not os.path.isfile(uri):
        raise DataError(
            f"source.attributes {uri} is not a file; name a CSV with a row for each image"
        )
    with storage.at_hand(uri) as path:
        return table_apart(scan_table, path, uri, path=path, called=uri, limits=limits)


def image_files(folder: str, names: list[str], table: str) -> tuple[set[str], str]:
    """List the files of a folder.

    Args:
        folder: The folder, or an `s3://` prefix.
        names: Files that a table names.
        table: What messages call the table.

    Returns:
        Names of all files below the folder, and the first folder in it that is empty, if one is.

    Raises:
        DataError: It is no folder, or a name leads out of it.
    """
    if storage.is_remote(folder):
        return set(storage.list_files(folder)), ""  # object storage has no empty folders
    root = Path(folder)
    if not os.path.isdir(root):
        raise DataError(f"source.images {root} is not a folder; name the folder of the images")
    present: set[str] = set()
    bare: list[str] = []
    for inner, below, files in os.walk(root):
        here = Path(inner).relative_to(root).as_posix()
        present |= {posixpath.normpath(f"{here}/{name}") for name in files}
        if not below and not files and not any(part[0] == "." for part in here.split("/")):
            bare.append(here)
    resolved = root.resolve()
    for name in names:
        plain = posixpath.normpath(name)
        if plain not in present or (root / plain).is_symlink():
            if _inside(root, resolved, name, table):
                present.add(plain)
            else:
                present.discard(plain)
    return present, min(bare, default="")


def _inside(root: Path, resolved: Path, name: str, table: str) -> bool:
    """Tell whether a name leads to a file; one outside the folder is refused."""
    try:
        path = (root / name).resolve()
        inside, is_file = path.is_relative_to(resolved), path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, too long, or a ring
        raise DataError(
            f"image {printable(name)[:60]!r} in {table} cannot be the name of a file; "
            "correct its row"
        ) from error
    if not inside:
        raise DataError(
            f"image {printable(name)!r} in {table} leads out of {root}; name files inside it"
        )
    return is_file


def read_images(folder: str, names: list[str]) -> pl.Series:
    """Read the column `image`: encoded bytes, and the name as `path`; the files are there."""
    parts = list(_read(folder, names))
    return pl.concat(parts) if parts else pl.Series("image", [], dtype=IMAGE)


def _read(folder: str, names: list[str]) -> Iterator[pl.Series]:
    """Read part by part, the files of a part side by side."""
    remote = storage.is_remote(folder)

    def read(name: str) -> dict[str, bytes | str]:
        place = storage.join(folder, posixpath.normpath(name) if remote else name)
        return {"bytes": storage.read_bytes(place, listed=True), "path": name}

    with ThreadPoolExecutor(READERS if remote else 1) as pool:
        for start in range(0, len(names), CHUNK):
            part = list(pool.map(read, names[start : start + CHUNK]))
            yield pl.Series("image", part, dtype=IMAGE)
