"""What is one table of a paper: the run's rows, the paper's own, and what can be concluded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from scotoma.document import Cell as Shows
from scotoma.document import Column, Interval, Table, Unit
from scotoma.document.cells import NO_NUMBER
from scotoma.published import PublishedTable

Cell: TypeAlias = int | float | str | None


def is_absent(cell: Cell) -> bool:
    """Whether a cell holds no number and no name."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


@dataclass(frozen=True)
class Grid:
    """Rows and columns of a table.

    Attributes:
        caption: Whose numbers they are, as a phrase.
        columns: Unique names, as the paper calls them; the first `names` are of columns of names.
        rows: One cell a column; None or nan where there is no number.
        names: How many columns name a row.
        unit: What its floats are; `printed` shows every digit.
        absent: Why there is no number where there is none, as a clause.

    >>> Grid("a run", ("variant", "top-1"), (("dense", 94.5),)).rows[0][1]
    94.5
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1
    unit: Unit = "ratio"
    absent: str = ""

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns of {self.caption} must differ")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"rows of {self.caption} must have {len(self.columns)} cells")
        if not self.absent and any(map(is_absent, chain.from_iterable(self.rows))):
            raise ValueError(f"{self.caption} must say why it has no number where it has none")

    def table(self, identity: str) -> Table:
        """Make the table that all readers get; the note says why a cell has no number."""
        columns = [
            Column(f"c{at}", name, "text" if at < self.names else self._unit(at))
            for at, name in enumerate(self.columns)
        ]
        rows: list[dict[str, Shows]] = [
            {
                f"c{at}": Interval(None, reason=self.absent) if is_absent(cell) else cell
                for at, cell in enumerate(row)
            }
            for row in self.rows
        ]
        lacking = any(map(is_absent, chain.from_iterable(self.rows)))
        return Table(
            identity, self.caption, columns, rows,
            f"{NO_NUMBER}: {self.absent.rstrip('.')}." if lacking else "",
            stub=self.names, known=[self.absent] if lacking else (),
        )  # fmt: skip

    def _unit(self, at: int) -> Unit:
        cells = [row[at] for row in self.rows if not is_absent(row[at])]
        if any(isinstance(cell, str) for cell in cells):
            return "text"
        return "count" if all(isinstance(cell, int) for cell in cells) else self.unit

    @classmethod
    def published(
        cls, caption: str, table: PublishedTable, *, rows: str, columns: Sequence[str] = ()
    ) -> Grid:
        """Take a published table as it was printed, every digit.

        Args:
            caption: Which table, of which data and models.
            table: The published table.
            rows: What its rows are.
            columns: Other names for the first of its columns, as the run's grid has them.

        >>> from scotoma.published import pie
        >>> Grid.published("Table 3", pie().table3, rows="sparsity").rows[-1]
        ('0.9', 94.14, 2, 216)
        """
        body = tuple((name, *cells) for name, cells in table.rows.items())
        names = (rows, *columns, *table.columns[len(columns) :])
        absent = "the paper prints no number there"
        return cls(caption, names[: 1 + len(table.columns)], body, unit="printed", absent=absent)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table or figure of a paper, for a run.

    Attributes:
        name: What the paper calls it: `Table 1`.
        title: What it shows.
        run: The run's numbers, by the paper's protocol; None where the run cannot give them.
        published: The paper's own numbers; none where it prints none, as in a figure.
        conclusion: What the sound protocol concludes on this run: floor, intervals, adjusted tests.
        notes: What is missing from the rows, or differs from the paper, as sentences.
        missing: Without `run`: what is missing and how to get it, as one sentence.
    """

    name: str
    title: str
    run: Grid | None
    published: Sequence[Grid] = ()
    conclusion: str = ""
    notes: Sequence[str] = ()
    missing: str = ""

    def __post_init__(self) -> None:
        if (self.run is None) != bool(self.missing):
            raise ValueError(f"{self.name} must have rows of the run, or say what is missing")

    @property
    def grids(self) -> list[Grid]:
        """The run's rows, where it can give them, and the paper's."""
        return [*([] if self.run is None else [self.run]), *self.published]

    @classmethod
    def lacking(
        cls, name: str, title: str, missing: str, published: Sequence[Grid] = ()
    ) -> PaperTable:
        """Make a table that the run cannot give.

        >>> PaperTable.lacking("Table 5", "Rates", "no groups; name some").run is None
        True
        """
        return cls(name=name, title=title, run=None, published=published, missing=missing)
