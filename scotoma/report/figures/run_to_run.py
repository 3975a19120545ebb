"""How far do models of different seeds lie apart in fairness?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.run_to_run import FairnessRuns
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    QUIET,
    category,
    data,
    fields,
    picker,
    single,
    strip,
)

__all__ = ["draw_run_to_run", "fairness_name"]

FOUR_FIFTHS = 0.2  # of DI, 1 - the ratio of the rates: beyond it the 80% rule is broken
MOST_ATTRIBUTES = 6  # drawn, those whose DI moves most from member to member

Rows = list[tuple[str, FairnessRuns]]


def fairness_name(metric: str) -> str:
    """Name a metric of the fixed-seed study apart from Clarify's: both have a DI.

    >>> fairness_name("DI")
    'fairness.DI'
    """
    return f"fairness.{metric}"


def draw_run_to_run(audit: Audit) -> Figure | None:
    """One metric of every member, by attribute and variant; the reader picks the metric."""
    rows = [(v.name, row) for v in audit.variants for row in audit.run_to_run.get(v.name, ())]
    defined = [(name, row) for name, row in rows if row.members > 1 and row.max_diff is not None]
    if not defined:
        return None
    kept = _most_moved(defined)
    metrics = list(dict.fromkeys(fairness_name(row.metric) for _, row in kept))
    return Figure(
        slug="run_to_run",
        title="Fairness of models that differ only in their seed",
        summary=_summary(defined),
        spec=_strips(kept, metrics),
        table=FigureTable(
            "Fairness metrics over members, fractions; 0 is fair. Intervals take training runs as "
            "normal, on this test set",
            ("Attribute", "Metric", "Variant", "Mean", "MaxDiff", "Standard deviation", "Members"),
            tuple(
                (
                    row.attribute,
                    fairness_name(row.metric),
                    name,
                    _plain(row.mean, row.reason),
                    _plain(row.max_diff, row.reason),
                    cell_text(replace(numbers.unitless(row.sigma), notes=())),
                    str(row.members),
                )
                for name, row in rows
            ),
            labels=3,
        ),
    )


def _plain(value: float | None, reason: str) -> str:
    return reason if value is None else f"{value:.4f}"


def _most_moved(rows: Rows) -> Rows:
    """The rows of the attributes whose DI moves most, in the order of the audit."""
    moved: dict[str, float] = {}
    for _, row in rows:
        if row.metric == "DI" and row.max_diff is not None:
            moved[row.attribute] = max(row.max_diff, moved.get(row.attribute, 0.0))
    names = list(dict.fromkeys(row.attribute for _, row in rows))
    ranked = sorted(names, key=lambda name: -moved.get(name, 0.0))[:MOST_ATTRIBUTES]
    return [(name, row) for name, row in rows if row.attribute in ranked]


def _summary(rows: Rows) -> str:
    name, row = max(rows, key=lambda pair: pair[1].max_diff or 0.0)
    low, high = (
        min(v for v in row.values if v is not None),
        max(v for v in row.values if v is not None),
    )
    drawn = (
        f"Each tick is a member, the diamond their mean; 0 is fair. The widest: "
        f"{fairness_name(row.metric)} of "
        f"{isolated(row.attribute)} in {isolated(name)}, from {low:.3f} to {high:.3f} over "
        f"{row.members} members."
    )
    di = [v for _, own in rows if own.metric == "DI" for v in own.values if v is not None]
    if not di:
        return drawn
    beyond = sum(value > FOUR_FIFTHS for value in di)
    return (
        f"{drawn} Dashed: the 80% rule, fairness.DI {FOUR_FIFTHS}; {beyond} of {len(di)} members "
        "and attributes lie beyond it."
    )


def _strips(rows: Rows, metrics: Sequence[str]) -> dict[str, Any]:
    metric, label, value = fields(3)
    several = len({row.attribute for _, row in rows}) > 1
    drawn = [
        (fairness_name(row.metric), f"{row.attribute} · {name}" if several else name, round(one, 6))
        for name, row in sorted(rows, key=lambda pair: pair[1].attribute)
        for one in row.values
        if one is not None
    ]
    impact = fairness_name("DI")
    chosen = impact if impact in metrics else metrics[0]
    return single(
        title={"expr": "metric + ' of every member, and the mean'"},
        params=[picker(metrics, chosen, "metric")],
        data=data(drawn),
        transform=[{"filter": f"datum.{metric} === metric"}],
        height={"step": 20},
        encoding={"y": category(label)},
        layer=[
            *strip(value, "0 is fair", zero=True),
            {
                "data": {"values": [{}]},
                "transform": [{"filter": f"metric === '{impact}'"}],
                "mark": {"type": "rule", "color": QUIET, "strokeDash": [5, 3]},
                "encoding": {"x": {"datum": FOUR_FIFTHS, "type": "quantitative"}, "y": None},
            },
        ],
    )  # fmt: skip
