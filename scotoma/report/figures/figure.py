"""What a figure is: a drawing, the sentence that says what it shows, and the same as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scotoma.document.cells import Shown

__all__ = ["Figure", "FigureTable", "cell_text", "isolated"]


@dataclass(frozen=True)
class FigureTable:
    """The numbers of a figure as text.

    Attributes:
        caption: What the table holds.
        columns: Heads of the columns.
        rows: Cells as they are shown, one for each column.
        labels: How many columns from the left name the row; the others hold numbers.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.caption!r}: a row needs {len(self.columns)} cells")


@dataclass(frozen=True)
class Figure:
    """One plot of the page.

    Attributes:
        slug: Its place on the page and in links: `figure-<slug>`.
        title: What it is about, a few words.
        summary: What a reader who cannot see it should know, one or two sentences.
        spec: A Vega-Lite specification. Its fields are called c0, c1, ..., for names from the
            data are values in it and never fields, which have a syntax of their own.
        table: The numbers that it draws.
    """

    slug: str
    title: str
    summary: str
    spec: dict[str, Any]
    table: FigureTable


def cell_text(shown: Shown) -> str:
    """A number with its interval in one cell, or the reason why there is none.

    >>> cell_text(Shown("+4.1%", "+2.0", "+6.3", "", ("few events",)))
    '+4.1% [+2.0, +6.3] (few events)'
    >>> cell_text(Shown("", "", "", "no negatives", ()))
    'no negatives'
    """
    if not shown.value:
        return shown.reason
    interval = f" [{shown.low}, {shown.high}]" if shown.low else ""
    asides = [text for text in (shown.reason, *shown.notes) if text]
    return f"{shown.value}{interval}" + (f" ({'; '.join(asides)})" if asides else "")


def isolated(name: str) -> str:
    """A name from the data inside a sentence: no writing direction in it turns its neighbours.

    >>> len(isolated("male")) - len("male")
    2
    """
    return f"\N{FIRST STRONG ISOLATE}{name}\N{POP DIRECTIONAL ISOLATE}"
