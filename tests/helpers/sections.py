"""What tests of sections share: their parts by kind, and the cells of a table as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.groups import ScoreReport
from scotoma.document import Chart, Facts, Section, Table
from tests.helpers.audits import filled, whole

__all__ = ["chart", "kept", "scored", "table", "texts", "unlabelled"]

KEPT = Path(__file__).parents[1] / "shown"


def table(section: Section, name: str) -> Table:
    """A table of a section by its id, a chart's too."""
    for part in section.parts:
        one = part.table if isinstance(part, Chart) else part
        if isinstance(one, Table) and one.id == name:
            return one
    raise AssertionError(f"no table {name} in {section.id}")


def chart(section: Section, name: str) -> Chart:
    """A chart of a section by its id."""
    (one,) = (part for part in section.parts if isinstance(part, Chart) and part.id == name)
    return one


def texts(shown: Table) -> list[list[str]]:
    """Every cell as a reader sees it, row by row."""
    return [list(map(str, row)) for row in shown.cells()]


def unlabelled(content: dict[str, Any]) -> Audit:
    """An audit of examples without labels."""
    audit = whole(content)
    data = audit.examples.model_copy(update={"unlabelled": "Errors are not measured."})
    rows = {question: own for question, own in audit.rows.items() if question != "accuracy"}
    return audit.model_copy(update={"examples": data, "rows": rows})


def scored(content: dict[str, Any], scores: dict[str, Any]) -> Audit:
    """An audit in which each example has a number of each model."""
    defaults = {"name": "loss", "unit": "", "lower_is_better": True, "examples": {}}
    part = ScoreReport.model_validate(filled(ScoreReport, defaults | scores))
    return whole(content).model_copy(update={"scores": part})


def kept(section: Section, page: str = "") -> tuple[str, str]:
    """Everything that a section says, and what a reviewer has read of it in `tests/shown`.

    Sections of pages other than an audit's have the name of the page before their own.

    After a wanted change: SCOTOMA_GOLDEN=1 pytest writes it anew.
    """
    text, path = "\n".join(_said(section)) + "\n", KEPT / f"{page}{section.id}.txt"
    if os.environ.get("SCOTOMA_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    return text, path.read_text(encoding="utf-8")


def _said(section: Section) -> Iterator[str]:
    yield f"{section.title} | {section.about} | {section.link}"
    yield from (*section.answer, *section.warnings)
    for part in section.parts:
        yield ""
        if isinstance(part, Chart):
            yield f"{part.title}: {part.summary} ({part.spec}, {part.by}, {part.first})"
        if isinstance(part, Facts):
            yield from (f"{term}: {text}" for term, text in part.rows)
            continue
        one = part.table if isinstance(part, Chart) else part
        if isinstance(one, Table):
            yield f"{one.id}, {one.most}, {one.stub}: {one.caption}: {one.note}"
            yield " | ".join(column.title for column in one.columns)
            yield from (" | ".join(row) for row in texts(one))
