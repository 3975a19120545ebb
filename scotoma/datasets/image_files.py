"""Which rows have their image, and how are images that are files of their own read?"""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scotoma import storage
from scotoma.answers.note import AdmissionNote, reading_note
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
    remote, parts = storage.is_remote(folder), [pl.Series("image", [], dtype=IMAGE)]

    def read(name: str) -> dict[str, bytes | str]:
        place = storage.join(folder, posixpath.normpath(name) if remote else name)
        return {"bytes": storage.read_bytes(place, listed=True), "path": name}

    with ThreadPoolExecutor(READERS if remote else 1) as pool:
        for start in range(0, len(names), CHUNK):
            part = list(pool.map(read, names[start : start + CHUNK]))
            parts.append(pl.Series("image", part, dtype=IMAGE))
    return pl.concat(parts)


SHOWN = 3  # names that are kept of each kind


@dataclass(frozen=True)
class Join:
    """A table of attributes and a folder of images, matched by name.

    Attributes:
        rows: Rows of the audited splits.
        images: Image files in the folder.
        matched: Rows that have their image.
        rows_without_image: Rows that have none.
        images_without_row: Images that no row of any split names.
        first_rows: The first names of rows without image, in the order of the table.
        first_images: The first images without row, in the order of names.
        meant: The image that the first row without image seems to mean; empty where none does.
        respelled: Rows that spell accents otherwise than their file does.
    """

    rows: int
    images: int
    matched: int
    rows_without_image: int
    images_without_row: int
    first_rows: tuple[str, ...]
    first_images: tuple[str, ...]
    meant: str = ""
    respelled: int = 0

    def complaint(self, table: str, folder: str) -> str:
        """Write the sentence on rows without image; empty where every row has its own.

        Args:
            table: What the table is called.
            folder: What the folder is called.

        >>> join_images(["a", "b"], ["a.png", "b.png"]).complaint("t.csv", "img")
        "none of the 2 rows of t.csv names an image in img: the first row says 'a' and the first \
image is 'a.png'; write names as in the folder"
        """
        if not self.rows_without_image:
            return ""
        name = repr(printable(self.first_rows[0]))
        meant = f"; did you mean {printable(self.meant)!r}?" if self.meant else ""
        if not self.images:
            return (
                f"there is no image in {folder}; add the images that {table} names, such as {name}"
            )
        if not self.matched and self.images_without_row:
            return (
                f"none of the {self.rows:,} rows of {table} names an image in {folder}: the first "
                f"row says {name} and the first image is {printable(self.first_images[0])!r}; "
                "write names as in the folder"
            )
        if self.rows_without_image == 1:
            return (
                f"1 of {self.rows:,} rows of {table} has no image in {folder}: {name}; add it or "
                f"remove its row{meant}"
            )
        return (
            f"{self.rows_without_image:,} of {self.rows:,} rows of {table} have no image in "
            f"{folder}, the first is {name}; add them or remove their rows{meant}"
        )

    def note(self) -> str:
        """Write the sentence on images without row; empty where every image has one.

        >>> join_images(["a.png"], ["a.png", "c.png", "b.png"]).note()
        "2 of 3 images of the folder have no row in the table (the first is 'b.png'); they are not \
audited"
        """
        if not self.images_without_row:
            return ""
        one = self.images_without_row == 1
        return (
            f"{self.images_without_row:,} of {self.images:,} images of the folder "
            f"{'has' if one else 'have'} no row in the table (the first is "
            f"{printable(self.first_images[0])!r}); {'it is' if one else 'they are'} not audited"
        )

    def admission(self) -> Iterator[AdmissionNote]:
        """A note on names that were paired though they are spelled otherwise."""
        if self.respelled:
            sentence = (
                f"{self.respelled:,} of {self.rows:,} names in the table spell accents otherwise "
                "than the files do (Unicode NFC, NFD); they are paired all the same"
            )
            yield reading_note("source.images", sentence)


def join_images(
    rows: Sequence[str],
    images: Collection[str],
    *,
    elsewhere: Collection[str] = (),
    respelled: int = 0,
) -> Join:
    """Match names in a table with names of image files.

    Args:
        rows: Names in the rows of the audited splits, relative to the folder; `sub/../a.png` is
            `a.png`.
        images: Names of the files, relative to the folder, parts joined by `/`.
        elsewhere: Names in rows of neither split: their images are not without row.
        respelled: See `Join`.

    Returns:
        Counts and the first names.

    >>> join_images(["a.png", "x.png"], ["a.png", "b.png"]).first_rows
    ('x.png',)
    """
    held = set(images)
    missing = [name for name in rows if posixpath.normpath(name) not in held]
    named = set(map(posixpath.normpath, (*rows, *elsewhere)))
    lone = sorted(held - named)
    return Join(
        rows=len(rows),
        images=len(held),
        matched=len(rows) - len(missing),
        rows_without_image=len(missing),
        images_without_row=len(lone),
        first_rows=tuple(missing[:SHOWN]),
        first_images=tuple(lone[:SHOWN]),
        meant=_meant(missing[0], lone) if missing else "",
        respelled=respelled,
    )


def spelled_as_files(
    table: pl.DataFrame, column: str, files: Collection[str]
) -> tuple[pl.DataFrame, int]:
    """Spell names of images as their files do, which may write accents in another form of Unicode.

    Args:
        table: Names of images, and whatever else.
        column: That of the names.
        files: Names of the files.

    Returns:
        The table, and how many rows were spelled otherwise; names without a file stay.
    """
    by_form = {unicodedata.normalize("NFC", file): file for file in files if not file.isascii()}
    names = table[column].to_list()
    renamed = {
        name: file
        for name in {*names} - {*files}
        if name is not None and (file := by_form.get(unicodedata.normalize("NFC", name)))
    }
    if not renamed:
        return table, 0
    spelled = pl.Series(column, [renamed.get(name, name) for name in names], dtype=pl.String)
    return table.with_columns(spelled), sum(name in renamed for name in names)


def _meant(name: str, images: list[str]) -> str:
    """Find an image of that name but for upper case or a suffix."""
    wanted = name.lower()
    return next((i for i in images if wanted in (i.lower(), posixpath.splitext(i.lower())[0])), "")
