"""Clarify's metrics by the question that they answer, as the page lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scotoma.audit import Audit, Quantity
from scotoma.audit.outcomes import (
    LabelMetric,
    MetricGuide,
    ModelMetric,
    OutcomeQuestion,
    SelectionRow,
)
from scotoma.bias.four_fifths import STANDINGS

__all__ = [
    "KNOWN_NOTES",
    "MetricRow",
    "MetricTable",
    "Selection",
    "ShownConcern",
    "concerns",
    "selections",
]

KNOWN_NOTES = ("upper bound only",)  # above the tables, not in every cell
MOST_ROWS = 40  # of one metric; the CSV holds all


@dataclass(frozen=True)
class MetricRow:
    """One metric of one pair of facets.

    Attributes:
        metric: Its short name.
        disadvantaged: What readers call facet d.
        advantaged: What readers call facet a.
        n: What it rests on.
        of: The compressed variant, or the split whose labels these are.
        value: The metric of the labels; None for a variant.
        dense: The metric of the dense members; None for the labels.
        compressed: The metric of the compressed members, likewise.
        change: The change, likewise.
    """

    metric: str
    disadvantaged: str
    advantaged: str
    n: int
    of: str
    value: Quantity | None = None
    dense: Quantity | None = None
    compressed: Quantity | None = None
    change: Quantity | None = None


@dataclass(frozen=True)
class MetricTable:
    """A metric in words, with its rows.

    Attributes:
        guide: The metric in words.
        rows: The first rows.
    """

    guide: MetricGuide
    rows: tuple[MetricRow, ...]


@dataclass(frozen=True)
class ShownConcern:
    """A question of the guide, with the rows of its metrics.

    Attributes:
        guide: The question.
        metrics: Its metrics.
        of_models: Whether some rows are of predictions.
        aside: What to read with the table.
        silent: Why none of its metrics can be estimated; else empty.
    """

    guide: OutcomeQuestion
    metrics: tuple[MetricTable, ...]
    of_models: bool
    aside: str
    silent: str


def concerns(audit: Audit) -> list[ShownConcern]:
    """List the questions of the guide, each with the rows of its metrics.

    Args:
        audit: The audit; without pairs of groups there is nothing to list.
    """
    outcomes = audit.clarify
    if not outcomes.data and not any(outcomes.variants.values()):
        return []
    names = audit.group_names
    rows = [_of_labels(row, names) for row in outcomes.data]
    rows += [
        _of_models(row, names, variant.name)
        for variant in audit.compressed
        for row in outcomes.variants.get(variant.name, ())
    ]
    return [_concern(question, rows) for question in outcomes.questions]


@dataclass(frozen=True)
class Selection:
    """The four-fifths table of one attribute.

    Attributes:
        attribute: The attribute.
        rows: What readers call the group, variant, what is known, and how it stands in words.
    """

    attribute: str
    rows: tuple[tuple[str, str, SelectionRow, str], ...]


def selections(audit: Audit) -> list[Selection]:
    """List the tables of the four-fifths rule, group by group and variant by variant."""
    names, outcomes = audit.group_names, audit.clarify
    tables: dict[str, list[tuple[str, str, SelectionRow, str]]] = {}
    groups = dict.fromkeys(
        (row.attribute, row.group) for rows in outcomes.selection.values() for row in rows
    )
    for attribute, group in groups:
        tables.setdefault(attribute, []).extend(
            (names.get(group, group), variant, row, STANDINGS[row.standing, row.certain])
            for variant, rows in outcomes.selection.items()
            for row in rows
            if (row.attribute, row.group) == (attribute, group)
        )
    return [Selection(attribute, tuple(rows[:MOST_ROWS])) for attribute, rows in tables.items()]


def _concern(question: OutcomeQuestion, rows: Sequence[MetricRow]) -> ShownConcern:
    tables = {guide: tuple(r for r in rows if r.metric == guide.name) for guide in question.metrics}
    every = [row for part in tables.values() for row in part]
    cut = any(len(part) > MOST_ROWS for part in tables.values())
    of_models = any(row.change for row in every)
    return ShownConcern(
        guide=question,
        metrics=tuple(MetricTable(guide, part[:MOST_ROWS]) for guide, part in tables.items()),
        of_models=of_models,
        aside="d: the disadvantaged group; a: the advantaged one. "
        + ("Distances have an upper bound only. " if of_models else "")
        + (f"The first {MOST_ROWS} rows of each metric; clarify.csv holds all." if cut else ""),
        silent=_silent(every),
    )


def _silent(rows: Sequence[MetricRow]) -> str:
    """Say why no metric can be estimated; empty where one can."""
    quantities = [quantity for row in rows for quantity in _quantities(row)]
    if any(quantity.value is not None for quantity in quantities):
        return ""
    reasons = "; ".join(sorted({quantity.reason for quantity in quantities}))
    return f"{reasons[:1].upper()}{reasons[1:]}." if quantities else "No rows."


def _quantities(row: MetricRow) -> Iterator[Quantity]:
    yield from (q for q in (row.value, row.dense, row.compressed, row.change) if q is not None)


def _of_labels(row: LabelMetric, names: Mapping[str, str]) -> MetricRow:
    return MetricRow(
        metric=row.metric,
        disadvantaged=names.get(row.disadvantaged, row.disadvantaged),
        advantaged=names.get(row.advantaged, row.advantaged),
        n=row.value.n,
        of=f"{row.split} labels",
        value=row.value,
    )


def _of_models(row: ModelMetric, names: Mapping[str, str], variant: str) -> MetricRow:
    return MetricRow(
        metric=row.metric,
        disadvantaged=names.get(row.disadvantaged, row.disadvantaged),
        advantaged=names.get(row.advantaged, row.advantaged),
        n=row.change.n,
        of=variant,
        dense=row.dense,
        compressed=row.compressed,
        change=row.change,
    )
