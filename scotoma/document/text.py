"""How does a document read as plain text, on a terminal or in Markdown?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scotoma.document.cells import Shown
from scotoma.document.lines import table_lines, wrapped
from scotoma.document.parts import Chart, Column, Document, Facts, Section, Table, Verbatim
from scotoma.printable import code_span


def document_text(document: Document) -> str:
    """Write a document in lines of 80 cells, without sections that a page folds.

    Args:
        document: What to write.

    >>> from scotoma.document import Column, Interval
    >>> rows = [{"group": "old", "error": Interval(0.25, 0.125, 0.5, 40), "n": 40}]
    >>> columns = (Column("group", "group"), Column("n", "n", "count"),
    ...            Column("error", "error", "rate"))
    >>> table = Table("rates", "", columns, rows)
    >>> who = Section("who", "Groups", ["One."], [table])
    >>> print(document_text(Document("Who pays?", sections=[who])))
    Who pays?
    <BLANKLINE>
    Groups
    One.
    group   n                  error
    old    40  25.00% [12.50, 50.00]
    """
    lines = [*wrapped(document.title), *_lines(document.lead)]
    for section in document.sections:
        if not section.folded:
            lines += ["", *section_lines(section)]
    return "\n".join(lines)


def section_lines(section: Section) -> list[str]:
    """Write a section in lines of 80 cells: title, answer, tables, steps, warnings."""
    lines = [*_lines(section.title)]
    for sentence in section.answer:
        lines += wrapped(sentence, later="  ")
    for part in section.parts:
        table = part.table if isinstance(part, Chart) else part
        if isinstance(table, Table):
            lines += [*_lines(table.caption), *text_table(table), *_lines(table.note)]
            lines += [""] if part is not section.parts[-1] else []
        elif isinstance(part, Facts):
            lines += _lines(part.title)
            for term, text in part.rows:
                lines += wrapped(f"{term}: {text}" if term else text, later="  ")
    for sentence in (*section.steps, *section.warnings):
        lines += wrapped(f"! {sentence}", later="  ")
    return lines


def text_table(table: Table) -> list[str]:
    """Align a table for a terminal; notes, and text behind the numbers, stand beside or below.

    >>> from scotoma.document import Column
    >>> columns = (Column("g", "group"), Column("n", "n", "count"), Column("why", ""))
    >>> text_table(Table("t", "", columns, [{"g": "old", "n": 4, "why": "too few"}]))
    ['group  n', 'old    4  too few']
    """
    shown = replace(table, rows=table.rows[: table.most])
    last = max((i for i, c in enumerate(table.columns) if c.numeric), default=table.stub - 1)
    aligned, behind = table.columns[: last + 1], table.columns[last + 1 :]
    rows = [_row(cells, aligned, behind) for cells in shown.cells()]
    lines = table_lines([column.title for column in aligned], rows, right=table.stub)
    if left := len(table.rows) - len(shown.rows):
        lines.append(f"and {left:,} more")
    return lines


def _row(cells: Sequence[Shown], aligned: Sequence[Column], behind: Sequence[Column]) -> list[str]:
    """The cells of a line, and last what is said beside them, each once."""
    asides = dict.fromkeys(cell.aside for cell in cells if cell.value)
    numbers = [
        cell.number if cell.value else cell.reason and "undefined" for cell in cells[: len(aligned)]
    ]
    asides |= dict.fromkeys(cell.reason for cell in cells if not cell.value)
    for column, cell in zip(behind, cells[len(aligned) :], strict=True):
        if cell.value:
            asides[f"{column.title} {cell.value}".strip()] = None
    return [*numbers, "; ".join(filter(None, asides))]


def markdown_text(document: Document) -> str:
    """Write a document as Markdown, names as code.

    Args:
        document: What to write.
    """
    blocks = [f"# {document.title}", *filter(None, [document.lead])]
    for section in document.sections:
        blocks += _section_blocks(section)
    return "\n\n".join(blocks) + "\n"


def _section_blocks(section: Section) -> Iterator[str]:
    if section.title:
        yield f"## {section.title}"
    yield from section.answer
    for part in section.parts:
        if isinstance(part, Table):
            yield from filter(None, [part.caption, markdown_table(part), part.note])
        elif isinstance(part, Chart):
            yield from filter(None, [part.title, markdown_table(part.table)])
        elif isinstance(part, Facts):
            yield from filter(None, [part.title])
            yield "\n".join(
                f"- **{term}**: {text}" if term else f"- {text}" for term, text in part.rows
            )
        elif isinstance(part, Verbatim):
            yield from filter(None, [part.title])
            yield part.text
    if items := (*section.steps, *section.warnings):
        yield "\n".join(f"- {sentence}" for sentence in items)


def markdown_table(table: Table) -> str:
    r"""Write a table in Markdown.

    >>> from scotoma.document import Column
    >>> columns = (Column("g", "Group"), Column("n", "n", "count"))
    >>> print(markdown_table(Table("t", "", columns, [{"g": "a|b", "n": 1798}])))
    | Group | n |
    | --- | --: |
    | `a\|b` | 1,798 |
    """
    lines = [
        [column.title for column in table.columns],
        ["--:" if column.numeric else "---" for column in table.columns],
    ]
    for cells in table.cells():
        texts = zip(table.columns, map(str, cells), strict=True)
        lines.append([code_span(x) if c.unit == "text" and x else x for c, x in texts])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _lines(text: str) -> list[str]:
    return wrapped(text) if text else []
