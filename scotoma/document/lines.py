"""How do lines of plain text look? Aligned columns, wrapped sentences, 80 cells a line."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import chain

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scotoma.printable import printable

WIDTH = 80
INDENT = 4  # of a note that needs a line of its own
READABLE, LEAST = 16, 6  # cells of a name where all fits, and where one number needs the line


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
        Printable lines of at most 80 cells; of a row that needs more, the last numbers stand below
        it with their titles.

    >>> table_lines(["group", "n"], [["a", "10", "few events"], ["bb", "9", ""]], right=1)
    ['group   n', 'a      10  few events', 'bb      9']
    """
    return list(chain.from_iterable(table_rows(header, rows, right=right, gap=gap)))


def table_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: int,
    gap: int = 2,
    indent: int = 0,
) -> list[list[str]]:
    """Align cells as `table_lines` does, and list the lines of the header, then of each row.

    Args:
        header: As for `table_lines`.
        rows: As for `table_lines`.
        right: As for `table_lines`.
        gap: As for `table_lines`.
        indent: Spaces before every line, within the 80 cells.

    >>> table_rows(["n"], [["10", ""], ["9", ""]], right=0)
    [[' n'], ['10'], [' 9']]
    """
    cells = [list(header), *(row[:-1] for row in rows)]
    columns = zip(*cells, strict=True)
    widths = [max(cell_len(printable(cell)) for cell in column) for column in columns]
    numbers = sum(widths[right:]) + gap * (len(widths) - 1)
    room = WIDTH - indent
    if numbers + sum(min(width, READABLE) for width in widths[:right]) > room:
        split = _columns_that_fit(widths, right, gap, room)
        if split < len(header):
            return _in_two_lines(header, rows, split, right=right, gap=gap, indent=indent)
    table = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for place in range(len(header)):
        table.add_column(justify="left" if place < right else "right", no_wrap=place >= right)
    for row in cells:
        table.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    before = " " * indent
    head, *body = rendered_lines(table, max(room, numbers + LEAST * right))
    aligned = [[before + head.rstrip()]]
    for line, row in zip(body, rows, strict=True):
        note = printable(row[-1])
        if cell_len(line) + gap + cell_len(note) <= room:
            aligned.append([f"{before}{line}{' ' * gap}{note}".rstrip()])
            continue
        inset = " " * (indent + INDENT)
        aligned.append([f"{before}{line}".rstrip(), *_below(note, inset)])
    return aligned


def _columns_that_fit(widths: Sequence[int], right: int, gap: int, room: int) -> int:
    """How many columns a first line holds, at least one number beside the names."""
    used = sum(min(width, READABLE) + gap for width in widths[:right])
    for place in range(right, len(widths)):
        used += widths[place] + gap
        if used - gap > room and place > right:
            return place
    return len(widths)


def _in_two_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    split: int,
    *,
    right: int,
    gap: int,
    indent: int,
) -> list[list[str]]:
    """Put what does not fit into a line below it, with its column's title."""
    head, *first = table_rows(
        header[:split],
        [[*row[:split], ""] for row in rows],
        right=right,
        gap=gap,
        indent=indent,
    )
    aligned = [head]
    for lines, row in zip(first, rows, strict=True):
        below = [
            f"{title} {cell}"
            for title, cell in zip(header[split:], row[split:-1], strict=True)
            if cell
        ]
        note = "; ".join(filter(None, [*below, row[-1]]))
        aligned.append([*lines, *_below(note, " " * (indent + INDENT))])
    return aligned


def _below(note: str, inset: str) -> list[str]:
    return wrapped(note, first=inset, later=inset) if note else []


def cropped_text(text: str, width: int = WIDTH) -> str:
    """Make text printable and at most `width` cells wide.

    >>> cropped_text("abcdef", 4)
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


def broken(text: str, width: int) -> list[str]:
    """Make text printable and break it into lines of at most `width` cells, nothing cut.

    >>> broken("a name of many words", 12)
    ['a name of', 'many words']
    """
    lines = Text(printable(text)).wrap(_console(width), width)
    return [line.plain.rstrip() for line in lines]
