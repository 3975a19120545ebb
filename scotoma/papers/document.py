"""What does a document of a paper's tables hold? A run's numbers, and the published ones beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scotoma.document import Cell, Column, Document, Section, Table
from scotoma.errors import ConfigError, DataError
from scotoma.papers import PAPERS, paper_tables
from scotoma.papers.table import PaperTable, is_absent
from scotoma.printable import ONE_OF_THEM, nearest, quoted

if TYPE_CHECKING:
    from scotoma.run import Run


CANNOT = "This run cannot give it"
NOTE = (
    "The run and the paper are of different data and models: the same question asked twice, not "
    "one result repeated."
)


def paper_document(run: Run, paper: str, *, whole: bool = False) -> Document:
    """Make the document of a paper's tables from a finished audit.

    Args:
        run: The audit.
        paper: One of `scotoma.papers.PAPERS`.
        whole: One row a cell, unrounded, instead of the tables.

    Raises:
        ConfigError: Another paper.
        DataError: The run can give none of the tables.
    """
    if paper not in PAPERS:
        raise ConfigError(
            f"paper must be one of {', '.join(PAPERS)}, got {quoted(paper)}"
            f"{nearest(paper, PAPERS, ONE_OF_THEM)}"
        )
    from scotoma.predictions.finished import FinishedAudit

    finished = FinishedAudit(run)
    made = paper_tables(paper, finished)
    if all(table.run is None for table in made):
        raise DataError(f"{made[0].name} of {paper} cannot be made: {made[0].missing}")
    head = f"{finished.audit.project} in the tables of {PAPERS[paper]().source}. {NOTE}"
    if whole:
        return Document(head, sections=[Section("cells", "", parts=[long_table(paper, made)])])
    return tables_document(head, made)


def tables_document(head: str, tables: Sequence[PaperTable]) -> Document:
    """Make the document of a paper's tables: the run's, then the paper's own."""
    return Document(head, sections=[_section(at, table) for at, table in enumerate(tables, 1)])


def _section(at: int, table: PaperTable) -> Section:
    answer = [f"{CANNOT}: {table.missing}."] if table.missing else []
    answer += [f"Sound protocol: {table.conclusion}"] if table.conclusion else []
    parts = [grid.table(f"t{at}-{place}") for place, grid in enumerate(table.grids, 1)]
    title = f"{table.name}. {table.title}"
    return Section(f"t{at}", title, [*answer, *table.notes], parts, link=table.name)


def long_table(paper: str, tables: Sequence[PaperTable]) -> Table:
    """Lay tables out as one row a cell: unrounded in `number`, or in `text`, or `reason`.

    Args:
        paper: Name of the paper.
        tables: The tables; those that the run cannot give have the paper's rows alone.
    """
    names = ("paper", "table", "of", "row", "column", "number", "text", "reason")
    rows: list[dict[str, Cell]] = [
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
        for grid in table.grids
        for cells in grid.rows
        for column, cell in zip(grid.columns[grid.names :], cells[grid.names :], strict=True)
    ]
    return Table("cells", "", [Column(name, name) for name in names], rows)
