"""How do commands print a table: plain text, in 80 columns where its numbers fit."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scotoma.printable import printable

__all__ = ["WIDTH", "crop", "rendered_lines", "table_lines", "wrapped"]

WIDTH = 80
WIDE = 100  # of a table whose numbers need more than 80
INDENT = 4  # of a note that needs a line of its own
READABLE, LEAST = 16, 6  # cells of a name in a table of 80, and in any table


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int, gap: int = 2
) -> list[str]:
    """Align cells in columns; a note that does not fit beside its row goes below it.

    Args:
        header: Title of each column but the last, which holds notes.
        rows: Cells and, at the end, a note or an empty text.
        right: Place of the first column of numbers, which align right and are never cropped; names
            before it are cropped where they do not fit.
        gap: Spaces between two columns.

    Returns:
        Printable lines of at most 80 cells; 100, or as many as the numbers need, where they do not
        fit into 80.

    >>> table_lines(["group", "n"], [["a", "10", "few events"], ["bb", "9", ""]], right=1)
    ['group   n', 'a      10  few events', 'bb      9']
    """
    cells = [list(header), *(row[:-1] for row in rows)]
    columns = zip(*cells, strict=True)
    widths = [max(cell_len(printable(cell)) for cell in column) for column in columns]
    numbers = sum(widths[right:]) + gap * (len(widths) - 1)
    table = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for place in range(len(header)):
        table.add_column(justify="left" if place < right else "right", no_wrap=place >= right)
    for row in cells:
        table.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    fits = numbers + sum(min(width, READABLE) for width in widths[:right]) <= WIDTH
    room = WIDTH if fits else max(WIDE, numbers + LEAST * right)
    head, *body = rendered_lines(table, room)
    lines = [head.rstrip()]
    for line, row in zip(body, rows, strict=True):
        note = printable(row[-1])
        if cell_len(line) + gap + cell_len(note) <= room:
            lines.append(f"{line}{' ' * gap}{note}".rstrip())
            continue
        parts = Text(note).wrap(_console(room), room - INDENT) if note else ()
        lines += [line.rstrip(), *(" " * INDENT + part.plain.rstrip() for part in parts)]
    return lines


def crop(text: str, width: int = WIDE) -> str:
    """Make text printable and at most `width` cells wide.

    >>> crop("abcdef", 4)
    'abc…'
    """
    line = printable(text)
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def wrapped(text: str, *, first: str = "", later: str = "") -> list[str]:
    """Make text printable and wrap it to lines of at most 80 cells.

    Args:
        text: A sentence or more.
        first: Indent of the first line.
        later: Indent of the other lines, at least as long.

    >>> wrapped("a " * 50, later="  ")[1].startswith("  a")
    True
    """
    lines = Text(printable(text)).wrap(_console(WIDTH), WIDTH - len(later))
    return [(later if n else first) + line.plain.rstrip() for n, line in enumerate(lines)]


def rendered_lines(table: Table, width: int) -> list[str]:
    """Render a table as lines of plain text, with the spaces that fill its columns."""
    console = _console(width)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def _console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
