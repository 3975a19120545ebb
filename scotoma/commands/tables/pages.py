"""The tables command: a paper's tables from a run as text, Markdown or CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl
from rich.cells import cell_len

from scotoma.commands.shared.finished_run import open_run
from scotoma.commands.slices.search import harmless
from scotoma.document.lines import WIDTH, cropped_text, wrapped
from scotoma.errors import ConfigError, DataError
from scotoma.papers import PAPERS, paper_tables
from scotoma.papers.table import Cell, Grid, PaperTable, is_absent
from scotoma.printable import ONE_OF_THEM, code_span, nearest, quoted

if TYPE_CHECKING:
    from scotoma.papers.finished import FinishedAudit

__all__ = ["pages_as_csv", "pages_as_markdown", "pages_as_text", "run_tables"]

GAPS = (2, 1)  # cells between two columns; the smaller where a table then fits
LONGEST, WIDEST = 24, 34  # cells of a name, and of a number with its interval
CANNOT = "This run cannot give it"
NOTE = (
    "The run and the paper are of different data and models: the same question asked twice, not "
    "one result repeated."
)


def run_tables(place: str, paper: str, *, csv: bool, markdown: bool) -> None:
    """Print a paper's tables from a finished audit.

    Args:
        place: Folder of a finished audit, or its `s3://BUCKET/PREFIX`.
        paper: One of `scotoma.papers.PAPERS`.
        csv: Print CSV.
        markdown: Print Markdown.

    Raises:
        ConfigError: Another paper, both formats, or no run.
        DataError: The run cannot give one of the tables.
    """
    if paper not in PAPERS:
        raise ConfigError(
            f"--paper must be one of {', '.join(PAPERS)}, got {quoted(paper)}"
            f"{nearest(paper, PAPERS, ONE_OF_THEM)}"
        )
    if csv and markdown:
        raise ConfigError("--csv and --markdown exclude each other; choose one")
    from scotoma.papers.finished import FinishedAudit

    finished = FinishedAudit(open_run(place))
    made = paper_tables(paper, finished)
    if all(table.run is None for table in made):
        raise DataError(f"{made[0].name} of {paper} cannot be made: {made[0].missing}")
    if csv:
        sys.stdout.write(pages_as_csv(paper, made))
    else:
        write = pages_as_markdown if markdown else pages_as_text
        sys.stdout.write("\n".join(write(_head(paper, finished), made)) + "\n")


def _head(paper: str, finished: FinishedAudit) -> str:
    return f"{finished.audit.project} in the tables of {PAPERS[paper]().source}. {NOTE}"


def pages_as_text(head: str, tables: Sequence[PaperTable]) -> Iterator[str]:
    """Format tables as lines of at most 80 cells; a wider table goes on below itself.

    Args:
        head: What stands above them.
        tables: The tables.
    """
    yield from wrapped(head)
    for table in tables:
        yield ""
        yield from wrapped(f"{table.name}. {table.title}", later="  ")
        if table.missing:
            yield from ("", *wrapped(f"{CANNOT}: {table.missing}.", later="  "))
        for grid in _grids(table):
            yield ""
            yield from wrapped(grid.caption)
            yield from _lines(grid)
            yield from (line for why in _absent(grid) for line in wrapped(why, later="  "))
        for sentence in _sentences(table):
            yield ""
            yield from wrapped(sentence, later="  ")


def pages_as_markdown(head: str, tables: Sequence[PaperTable]) -> Iterator[str]:
    """Format tables as Markdown; names of others stand in code spans.

    Args:
        head: What stands above them.
        tables: The tables.
    """
    yield head
    for table in tables:
        yield from ("", f"### {table.name}. {table.title}")
        if table.missing:
            yield from ("", f"{CANNOT}: {table.missing}.")
        for grid in _grids(table):
            rules = ["---" if at < grid.names else "---:" for at in range(len(grid.columns))]
            yield from ("", f"{grid.caption}:", "")
            for row in (grid.columns, rules):
                yield f"| {' | '.join(row)} |"
            for cells in grid.rows:
                yield f"| {' | '.join(_marked(grid, at, cell) for at, cell in enumerate(cells))} |"
            yield from (line for why in _absent(grid) for line in ("", why))
        for sentence in _sentences(table):
            yield from ("", sentence)


def pages_as_csv(paper: str, tables: Sequence[PaperTable]) -> str:
    """Format tables as CSV: one row a cell: unrounded in `number`, or in `text`, or `reason`.

    Args:
        paper: Name of the paper.
        tables: The tables; those that the run cannot give have the paper's rows alone.
    """
    rows = [
        {
            "paper": paper,
            "table": table.name,
            "of": grid.caption,
            "row": ", ".join(str(cell) for cell in cells[: grid.names]),
            "column": column,
            "number": None if isinstance(cell, str) or is_absent(cell) else float(cell or 0),
            "text": cell if isinstance(cell, str) else None,
            "reason": grid.absent if is_absent(cell) else None,
        }
        for table in tables
        for grid in _grids(table)
        for cells in grid.rows
        for column, cell in zip(grid.columns[grid.names :], cells[grid.names :], strict=True)
    ]
    kinds = {"number": pl.Float64, "text": pl.String, "reason": pl.String}
    return harmless(
        pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)
    ).write_csv()


def _grids(table: PaperTable) -> list[Grid]:
    return [*([] if table.run is None else [table.run]), *table.published]


def _absent(grid: Grid) -> list[str]:
    """Say why `-` stands in a grid; nothing where it does not."""
    cells = (cell for row in grid.rows for cell in row)
    return [f"-: {grid.absent.rstrip('.')}."] if any(map(is_absent, cells)) else []


def _sentences(table: PaperTable) -> Iterator[str]:
    yield from table.notes
    if table.conclusion:
        yield f"Sound protocol: {table.conclusion}"


def _marked(grid: Grid, at: int, cell: Cell) -> str:
    text = _shown(grid, at, cell)
    return code_span(text) if isinstance(cell, str) else text


def _lines(grid: Grid) -> Iterator[str]:
    """Align a grid; the columns that do not fit in 80 cells follow below, beside the names."""
    cells = [
        [
            cropped_text(_shown(grid, at, cell), LONGEST if at < grid.names else WIDEST)
            for at, cell in enumerate(row)
        ]
        for row in grid.rows
    ]
    heads = [column.split() for column in grid.columns]
    widths = [
        max(cell_len(text) for text in [*head, *(row[at] for row in cells)])
        for at, head in enumerate(heads)
    ]
    gap = next((gap for gap in GAPS if sum(widths) + gap * (len(widths) - 1) <= WIDTH), GAPS[0])
    for number, block in enumerate(_blocks(widths, grid.names, gap)):
        shown = [*range(grid.names), *block]
        titles = [_folded(heads[at], widths[at]) for at in shown]
        height = max(map(len, titles))
        titles = [[""] * (height - len(title)) + title for title in titles]
        yield from [""] if number else []
        for row in [*zip(*titles, strict=True), *([line[at] for at in shown] for line in cells)]:
            padded = [
                _padded(text, widths[at], left=at < grid.names)
                for at, text in zip(shown, row, strict=True)
            ]
            yield (" " * gap).join(padded).rstrip()


def _blocks(widths: Sequence[int], names: int, gap: int) -> list[list[int]]:
    """Deal the columns that are no names to blocks that fit beside the names."""
    room = WIDTH - sum(width + gap for width in widths[:names])
    blocks: list[list[int]] = [[]]
    for at in range(names, len(widths)):
        if blocks[-1] and sum(widths[i] + gap for i in [*blocks[-1], at]) - gap > room:
            blocks.append([])
        blocks[-1].append(at)
    return blocks


def _folded(words: Sequence[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        joined = f"{lines[-1]} {word}".strip()
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def _shown(grid: Grid, at: int, cell: Cell) -> str:
    if is_absent(cell):
        return "-"
    if isinstance(cell, float):
        digits = grid.own_digits.get(grid.columns[at], grid.digits)
        return str(cell) if digits is None else f"{round(cell, digits) + 0.0:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
