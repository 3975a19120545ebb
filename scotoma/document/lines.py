"""How do lines of plain text look? Aligned columns, wrapped sentences, 80 cells a line."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scotoma.printable import printable

WIDTH = 80
GAP = 2  # spaces between two columns
INSET = " " * 4  # before a note that needs a line of its own
READABLE, LEAST = 16, 6  # cells of a name where all fits, and where one number needs the line


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int, below: bool = False
) -> list[str]:
    """Align cells in columns; a note that does not fit beside its row goes below it.

    Args:
        header: Title of each column but the last, which holds notes.
        rows: Cells and, at the end, a note or an empty text.
        right: Place of the first column of numbers, which align right and are never cropped; names
            before it are cropped where they do not fit.
        below: Notes go below their rows, even where they fit.

    Returns:
        Printable lines of at most 80 cells; of a row that needs more, the last numbers stand below
        it with their titles.

    >>> table_lines(["group", "n"], [["a", "10", "few events"], ["bb", "9", ""]], right=1)
    ['group   n', 'a      10  few events', 'bb      9']
    """
    cells = [list(header), *(row[:-1] for row in rows)]
    columns = zip(*cells, strict=True)
    widths = [max(cell_len(printable(cell)) for cell in column) for column in columns]
    numbers = sum(widths[right:]) + GAP * (len(widths) - 1)
    if numbers + sum(min(width, READABLE) for width in widths[:right]) > WIDTH:
        split = _columns_that_fit(widths, right)
        if split < len(header):
            noted = []
            for *own, note in rows:
                rest = zip(header[split:], own[split:], strict=True)
                told = [*(f"{title} {cell}" for title, cell in rest if cell), note]
                noted.append([*own[:split], "; ".join(filter(None, told))])
            return table_lines(header[:split], noted, right=right, below=True)
    table = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for place in range(len(header)):
        table.add_column(justify="left" if place < right else "right", no_wrap=place >= right)
    for row in cells:
        table.add_row(*(Text(printable(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    console = _console(max(WIDTH, numbers + LEAST * right))
    with console.capture() as rendered:
        console.print(table)
    head, *body = rendered.get().splitlines()
    lines = [head.rstrip()]
    for line, row in zip(body, rows, strict=True):
        note = printable(row[-1])
        beside = f"{line}{' ' * GAP}{note}".rstrip()
        if note and (below or cell_len(beside) > WIDTH):
            lines += [line.rstrip(), *wrapped(note, first=INSET, later=INSET)]
        else:
            lines.append(beside)
    return lines


def _columns_that_fit(widths: Sequence[int], right: int) -> int:
    """How many columns a first line holds, at least one number beside the names."""
    used = sum(min(width, READABLE) + GAP for width in widths[:right])
    for place in range(right, len(widths)):
        used += widths[place] + GAP
        if used - GAP > WIDTH and place > right:
            return place
    return len(widths)


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


def _console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)


def broken(text: str, width: int) -> list[str]:
    """Make text printable and break it into lines of at most `width` cells, nothing cut.

    >>> broken("a name of many words", 12)
    ['a name of', 'many words']
    """
    lines = Text(printable(text)).wrap(_console(width), width)
    return [line.plain.rstrip() for line in lines]
