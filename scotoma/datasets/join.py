"""Which rows of a table have their image, and which images have a row?"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.printable import printable

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
