"""Which groups are affected? The rates of each before and after compression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.groups import RateChange
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text
from scotoma.report.figures.grammar import (
    FAMILY,
    GROUND,
    MISSING,
    PICKED,
    QUIET,
    category,
    data,
    ends,
    fields,
    numeric,
    picker,
    single,
    words,
)

__all__ = ["draw_rates", "most_changed_groups"]

METRICS = {"error": "error", "fpr": "false positive rate", "fnr": "false negative rate"}
MOST = 24  # groups drawn, those whose change lies highest
STEP, APART = 28, 6  # pixels from group to group, and from its row to each of its two marks

Changes = Mapping[str, Sequence[RateChange]]


def draw_rates(audit: Audit, focus: str) -> Figure | None:
    """Every group's rate in dense and in compressed models, of a variant that the reader picks.

    Args:
        audit: The audit, groups called by their names.
        focus: The variant that is drawn first.
    """
    rows = _changes(audit)
    if not rows:
        return None
    groups = most_changed_groups(audit, list(rows), MOST)
    kept = [(name, row) for name, changes in rows.items() for row in changes if row.group in groups]
    return Figure(
        slug="rates",
        title="Rates of each group before and after compression",
        summary=_summary(audit, len(groups)),
        spec=_spec(kept, groups, focus, audit),
        table=FigureTable(
            "Rates of each group, with 95% intervals",
            ("Variant", "Group", "Rate", "Dense", "Compressed", "Change, points",
             "Relative change", "n"),
            tuple(_table_row(name, row) for name, row in kept),
            labels=3,
        ),
    )  # fmt: skip


def most_changed_groups(audit: Audit, variants: Sequence[str], most: int) -> list[str]:
    """Name everyone first, then the groups, in the audit's order, whose change lies highest."""
    names = [group.name for group in audit.groups]
    highest = dict.fromkeys(names, float("-inf"))
    for name in variants:
        for row in audit.subgroups.get(name, ()):
            if row.class_name is None:
                highest[row.group] = max(highest[row.group], _height(row))
    kept = {names[0], *sorted(names[1:], key=lambda name: -highest[name])[: most - 1]}
    return [name for name in names if name in kept]


def _changes(audit: Audit) -> dict[str, list[RateChange]]:
    """Rows of rates over all classes, or of the positive one, by variant."""
    rows = {
        variant.name: [
            row for row in audit.subgroups.get(variant.name, ()) if row.class_name is None
        ]
        for variant in audit.compressed
    }
    return {name: of for name, of in rows.items() if of}


def _height(row: RateChange) -> float:
    """How high the interval of a change lies; what has none lies lowest."""
    low = row.absolute.low
    return float("-inf") if low is None else low


def _summary(audit: Audit, drawn: int) -> str:
    of = len(audit.groups)
    left_out = f" Drawn: {drawn} of {of} groups, those that change most." if drawn < of else ""
    return f"Rings: dense; diamonds: compressed; lines: 95% intervals; right: the change.{left_out}"


def _table_row(variant: str, row: RateChange) -> tuple[str, ...]:
    return (
        variant,
        row.group,
        METRICS[row.metric],
        cell_text(numbers.rate(row.dense)),
        cell_text(numbers.rate(row.compressed)),
        cell_text(numbers.points(row.absolute)),
        cell_text(numbers.percent(row.relative)),
        numbers.count(row.absolute.n),
    )


def _spec(
    kept: list[tuple[str, RateChange]], groups: list[str], focus: str, audit: Audit
) -> dict[str, Any]:
    variant, metric, group, dense, dense_low, dense_high, value, low, high, change = fields(10)
    size = {one.name: one.n for one in audit.groups}
    label = {name: f"{name} · n {numbers.count(size[name])}" for name in groups}
    rows = [
        (name, METRICS[row.metric], label[row.group], *ends(row.dense, 100.0),
         *ends(row.compressed, 100.0), numbers.points(row.absolute).value or MISSING)
        for name, row in kept
    ]  # fmt: skip
    names = list(dict.fromkeys(name for name, _ in kept))
    metrics = [name for name in METRICS.values() if any(row[1] == name for row in rows)]
    pickers = [picker(names, focus if focus in names else names[0])]
    shown = f"datum.{variant} === variant"
    if len(metrics) > 1:
        pickers.append(picker(metrics, metrics[0], "rate"))
        shown += f" && datum.{metric} === rate"
    return single(
        title=PICKED,
        params=pickers,
        data=data(rows),
        transform=[{"filter": shown}],
        height={"step": STEP},
        encoding={"y": category(group, scale={"domain": [label[name] for name in groups]})},
        layer=[
            words(change, {"value": "width"}, dx=8),
            _interval(dense_low, dense_high, -APART, QUIET, "per cent"),
            _interval(low, high, APART, FAMILY[1], None),
            _sign(dense, -APART, {"shape": "circle", "fill": GROUND, "stroke": QUIET}),
            _sign(value, APART, {"shape": "diamond", "fill": FAMILY[1], "stroke": FAMILY[1]}),
        ],
        usermeta={"cut": 26},
    )


def _interval(low: str, high: str, offset: int, colour: str, title: str | None) -> dict[str, Any]:
    x: dict[str, Any] = {"field": low, "type": "quantitative"}
    if title:
        x = numeric(low, title, axis={"tickCount": 6})
    return {
        "mark": {"type": "rule", "strokeWidth": 2, "yOffset": offset, "color": colour},
        "encoding": {"x": x, "x2": {"field": high}},
    }


def _sign(value: str, offset: int, look: dict[str, Any]) -> dict[str, Any]:
    return {
        "transform": [{"filter": f"isValid(datum.{value})"}],
        "mark": {"type": "point", "size": 70, "strokeWidth": 2, "opacity": 1, "yOffset": offset}
        | look,
        "encoding": {"x": {"field": value, "type": "quantitative"}},
    }
