"""What is one table of a paper: the run's rows, the paper's own, and what can be concluded."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from itertools import chain
from typing import Any, TypeAlias

from scotoma import published
from scotoma.document import Cell as Shows
from scotoma.document import Column, Interval, Section, Table, Unit
from scotoma.document.cells import NO_NUMBER
from scotoma.published import PublishedTable

Cell: TypeAlias = int | float | str | None
Rows: TypeAlias = Sequence[Sequence[Cell]]
CANNOT = "This run cannot give it: "
NOT_PRINTED = "the paper prints no number there"


@functools.cache
def specification(paper: str) -> dict[str, dict[str, Any]]:
    """What stands in the tables of a paper whatever the run: titles, columns, its own numbers.

    Args:
        paper: A name of `PAPERS`.

    >>> specification("clarify")["Posttraining 2"]["metrics"]
    ['AD']
    """
    text = resources.files(__package__).joinpath("tables.json").read_text("utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)[paper]
    return found


def is_absent(cell: Any) -> bool:
    """Whether a cell holds no number and no name."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def grid(
    caption: str,
    columns: Sequence[str],
    rows: Rows,
    *,
    names: int = 1,
    unit: Unit = "ratio",
    absent: str = "",
) -> Table:
    """Make the table that all readers get; the note says why a cell has no number.

    Args:
        caption: Whose rows they are.
        columns: Titles; the first `names` of them are those of the rows' names.
        rows: Cells, as many a row as columns.
        names: Columns that name a row.
        unit: Of columns that hold numbers that are not whole.
        absent: Why a cell has no number.

    Raises:
        ValueError: A cell has no number and `absent` is empty.
    """
    lacking = any(map(is_absent, chain.from_iterable(rows)))
    if lacking and not absent:
        raise ValueError(f"{caption} must say why it has no number where it has none")
    made = []
    for at, name in enumerate(columns):
        cells = [row[at] for row in rows if not is_absent(row[at])]
        own: Unit = "count" if all(isinstance(cell, int) for cell in cells) else unit
        text = at < names or any(isinstance(cell, str) for cell in cells)
        made.append(Column(f"c{at}", name, "text" if text else own))
    body: list[dict[str, Shows]] = [
        {
            column.key: Interval(None, reason=absent) if is_absent(cell) else cell
            for column, cell in zip(made, row, strict=True)
        }
        for row in rows
    ]
    note = f"{NO_NUMBER}: {absent.rstrip('.')}." if lacking else ""
    known = [absent] if lacking else ()
    return Table("", caption, made, body, note, stub=names, known=known)


def printed(caption: str, table: PublishedTable, rows: str, columns: Sequence[str] = ()) -> Table:
    """Take a published table as it was printed, every digit.

    Args:
        caption: Where it is printed.
        table: The table.
        rows: Title of the column of the rows' names.
        columns: Shorter titles for its first columns.
    """
    titles = (rows, *columns, *table.columns[len(columns) :])[: 1 + len(table.columns)]
    body = [(name, *cells) for name, cells in table.rows.items()]
    return grid(caption, titles, body, unit="printed", absent=NOT_PRINTED)


def paper_table(
    paper: str,
    name: str,
    rows: Rows = (),
    *,
    missing: str = "",
    conclusion: str = "",
    notes: Sequence[str] = (),
    beside: Sequence[Table] = (),
    without: str = "",
    more_absent: str = "",
    **own: Any,
) -> Section:
    """Put the run's rows beside the paper's own, under the title of the specification.

    Args:
        paper: A name of `PAPERS`.
        name: Which of its tables.
        rows: Of the run.
        missing: Why the run cannot give it.
        conclusion: What the sound protocol says.
        notes: What else to know.
        beside: Tables of the paper that are made here, after those of the specification.
        without: Columns of the specification that are left out have this in their titles.
        more_absent: Why a cell has no number, beside the reason of the specification.
        own: Of `grid`, in place of the specification.
    """
    tables = specification(paper)
    said, at = tables[name], 1 + list(tables).index(name)
    asked = {key: said[key] for key in ("caption", "columns", "names", "unit", "absent")
             if key in said}  # fmt: skip
    if without:
        asked["columns"] = [title for title in asked["columns"] if without not in title]
    if more_absent:
        asked["absent"] += f"; {more_absent}"
    parts = [] if missing else [grid(rows=rows, **asked | own)]
    for one in said.get("published", ()):
        found: Any = published.load(one["of"])
        for key in one["table"]:
            found = found[key]
        if renamed := one.get("renamed"):
            found = replace(found, rows={renamed[key]: row for key, row in found.rows.items()})
        parts.append(printed(one["caption"], found, one["rows"], one.get("columns", ())))
    answer = [f"{CANNOT}{missing}."] if missing else []
    answer += [f"Sound protocol: {conclusion}"] if conclusion else []
    name = said.get("name", name)
    return Section(
        f"t{at}",
        f"{name}. {said['title']}",
        [*answer, *notes],
        [replace(one, id=f"t{at}-{place}") for place, one in enumerate([*parts, *beside], 1)],
        link=name,
    )


def long_table(paper: str, sections: Sequence[Section]) -> Table:
    """One row a cell of every table, for CSV: number, text, or why there is neither.

    Args:
        paper: Name of the paper.
        sections: Its tables.
    """
    names = ("paper", "table", "of", "row", "column", "number", "text", "reason")
    rows: list[dict[str, Shows]] = []
    for section in sections:
        for table in section.parts:
            assert isinstance(table, Table)
            for row in table.rows:
                row_name = ", ".join(str(row[one.key]) for one in table.columns[: table.stub])
                for column in table.columns[table.stub :]:
                    cell: Any = row[column.key]
                    number = None if isinstance(cell, str | Interval) else float(cell)
                    row_of: dict[str, Shows] = {
                        "paper": paper, "table": section.link, "of": table.caption,
                        "row": row_name, "column": column.title, "number": number,
                        "text": cell if isinstance(cell, str) else None,
                        "reason": cell.reason if isinstance(cell, Interval) else None,
                    }  # fmt: skip
                    rows.append(row_of)
    return Table("cells", "", [Column(name, name) for name in names], rows)
