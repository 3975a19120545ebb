"""What is a document made of? Sections of sentences, tables and charts, the same for all readers.

Whoever has something to show builds these and renders nothing: `html`, `text` and `Table` itself
write pages, terminals, Markdown, CSV and data frames from the same cells.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from scotoma.document.cells import NUMERIC, Cell, Shown, Unit, is_ranged, show, unnoted

if TYPE_CHECKING:
    import polars as pl

    from scotoma.document.pictures import Picture, Pictures


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of one


@dataclass(frozen=True)
class Column:
    """A column: its key in the rows, its title, the unit of its cells.

    Attributes:
        drawn: Whether a page draws the interval beside the number, on one axis for the column.
        brief: Whether its numbers are short, see `show`.
    """

    key: str
    title: str
    unit: Unit = "text"
    drawn: bool = False
    brief: bool = False

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers."""
        return self.unit in NUMERIC


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        id: Unique in its document; the stem of its CSV file.
        caption: What it holds.
        columns: From left to right.
        rows: Cells by column key; further keys are kept for charts and not shown.
        note: What to know to read it.
        stub: How many columns from the left name a row.
        known: How reasons and notes begin that the note above says, so that no cell repeats them.
        cards: Whether a narrow page shows each row as a block of its own.
        most: Rows that a page or a terminal shows; the CSV file has all. None shows all, 0 shows
            none and leaves a link to the file.
        marked: Places of the rows to point out.
    """

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Cell]]
    note: str = ""
    stub: int = 1
    known: Sequence[str] = ()
    cards: bool = False
    most: int | None = None
    marked: Collection[int] = ()

    @classmethod
    def of_frame(cls, frame: pl.DataFrame) -> Table:
        """Take a data frame as it is, for its CSV text."""
        return cls("rows", "", [Column(name, name) for name in frame.columns], frame.to_dicts())

    def cells(self) -> list[list[Shown]]:
        """Every cell as text, row by row."""
        return [
            [show(row.get(c.key), c.unit, self.known, brief=c.brief) for c in self.columns]
            for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """Rows unrounded: an estimate is its value, `_low`, `_high`, `_n` and `_reason`.

        >>> from scotoma.document import Interval
        >>> Table("t", "", [Column("d", "Dense", "rate")], [{"d": Interval(0.5)}]).records()
        [{'d': 0.5, 'd_low': None, 'd_high': None, 'd_n': 0, 'd_reason': ''}]
        """
        ranged = {
            c.key
            for c in self.columns
            if any(is_ranged(unnoted(row.get(c.key))) for row in self.rows)
        }
        return [
            {
                key: value
                for c in self.columns
                for key, value in _flat(c.key, unnoted(row.get(c.key)), ranged)
            }
            for row in self.rows
        ]

    def csv(self) -> str:
        """Rows as CSV; text that a spreadsheet would take for a formula has an apostrophe.

        >>> Table("t", "", [Column("g", "Group")], [{"g": "=1+1"}]).csv().splitlines()
        ['g', "'=1+1"]
        """
        file, records = io.StringIO(), self.records()
        heads = list(records[0]) if records else [column.key for column in self.columns]
        writer = csv.DictWriter(file, heads, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _harmless(v) for k, v in record.items()} for record in records)
        return file.getvalue()

    def frame(self) -> pl.DataFrame:
        """Rows as a data frame, in the columns of `records`."""
        import polars as pl

        records = self.records()
        if not records:
            return pl.DataFrame({column.key: [] for column in self.columns})
        return pl.DataFrame(records, infer_schema_length=None)

    def _repr_html_(self) -> str:
        from scotoma.document.html import fragment

        return fragment(self)


@dataclass(frozen=True)
class Chart:
    """A drawing of a table's records.

    Attributes:
        id: Unique in its document.
        title: What it is about.
        summary: What a reader who cannot see it should know.
        table: What it draws; its page holds it folded.
        spec: Stem of the Vega-Lite file in `charts/`. Its fields are keys of the records, numbers
            in the unit shown.
        by: Key of the column that a reader picks a value of: one drawing for each; None for one.
        first: The value that is drawn before a reader picks another; empty for the first.
    """

    id: str
    title: str
    summary: str
    table: Table
    spec: str
    by: str | None = None
    first: str = ""


@dataclass(frozen=True)
class Facts:
    """Words and what they stand for, or questions and their answers.

    Attributes:
        rows: Term and text; without a term an item of a list.
        title: What they are about; empty for none.
        id: Unique in its document; empty where no link leads there.
    """

    rows: Sequence[tuple[str, str]]
    title: str = ""
    id: str = ""


@dataclass(frozen=True)
class Verbatim:
    """Text to copy, such as Markdown.

    Attributes:
        id: Unique in its document.
        title: What it is for.
        text: What to copy.
    """

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Section:
    """A question, its answer, and the evidence.

    Attributes:
        id: Unique in its document; links lead to it.
        title: The question, or what it is about.
        answer: Sentences.
        parts: Evidence.
        folded: Whether it is closed until a reader opens it.
        about: What is in it, in a few words, where it is folded.
        link: What a list of contents calls it; empty for the title.
        verdict: PASS, UNSURE or FAIL beside the title; empty for none.
        warnings: Sentences to be careful about.
        steps: What to do next.
    """

    id: str
    title: str
    answer: Sequence[str] = ()
    parts: Sequence[Part] = ()
    folded: bool = False
    about: str = ""
    link: str = ""
    verdict: str = ""
    warnings: Sequence[str] = ()
    steps: Sequence[str] = ()


@dataclass(frozen=True)
class Document:
    """Title, lead and sections, in order.

    Attributes:
        kind: What it is, in a word or two above the title.
        pages: Files of pages that belong together, with their titles: links to them.
        page: Which of these files it is.
    """

    title: str
    lead: str = ""
    sections: Sequence[Section] = field(default_factory=tuple)
    kind: str = "Scotoma"
    pages: Sequence[tuple[str, str]] = ()
    page: str = ""

    def tables(self) -> Iterator[Table]:
        """Yield every table, those of charts among them: the downloads and data frames."""
        seen = set()
        for section in self.sections:
            for part in section.parts:
                table = getattr(part, "table", part)
                if isinstance(table, Table) and table.id not in seen:
                    seen.add(table.id)
                    yield table

    def _repr_html_(self) -> str:
        from scotoma.document.html import fragment

        return fragment(self)


Part: TypeAlias = "Table | Chart | Facts | Verbatim | Picture | Pictures"


def _flat(key: str, cell: Cell, ranged: Collection[str]) -> Iterator[tuple[str, Any]]:
    if key not in ranged:
        yield key, cell
        return
    number: Any = cell if is_ranged(cell) else None
    yield key, cell if number is None else number.value
    for part in ("low", "high", "n", "reason"):
        yield f"{key}_{part}", getattr(number, part, None)


def _harmless(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
