"""Which groups are affected? Their rates in every variant, and by how much each changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.groups import RateChange
from scotoma.config.gate import ChangeRule
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    CONFIG,
    FAMILY,
    GROUND,
    INK,
    MISSING,
    PICKED,
    SPACE,
    arrows,
    category,
    clipped,
    cross,
    data,
    ends,
    fields,
    numeric,
    picker,
    point,
    single,
    upright,
    whisker,
    words,
)

__all__ = ["draw_amplification", "draw_forest", "forest"]

METRICS = {"error": "error", "fpr": "false positive rate", "fnr": "false negative rate"}
SHORT = {"error": "error", "fpr": "FPR", "fnr": "FNR"}
SHAPES = {"error": "circle", "fpr": "square", "fnr": "triangle-up"}
MOST_PANELS = 12  # groups drawn against compression, those whose change lies highest
MOST_ROWS = 40  # groups in the forest
PANEL = 252  # pixels
CUT = 24  # columns of text at which a name is cut in a panel

Changes = Mapping[str, Sequence[RateChange]]
Cell = tuple[str, str, str, Quantity]  # group, variant, metric, rate


def draw_amplification(audit: Audit) -> Figure | None:
    """Rates of each group for every variant: one panel a group, one line a metric."""
    rows = _changes(audit)
    if not rows:
        return None
    names = [variant.name for variant in audit.variants]
    groups = _most_changed(audit, rows, MOST_PANELS)
    kept = [(name, row) for name, of in rows.items() for row in of if row.group in groups]
    dense = {(row.group, row.metric): row.dense for _, row in kept}
    cells: list[Cell] = [(group, names[0], metric, q) for (group, metric), q in dense.items()]
    cells += [(row.group, name, row.metric, row.compressed) for name, row in kept]
    cells.sort(key=lambda c: (groups.index(c[0]), list(METRICS).index(c[2]), names.index(c[1])))
    return Figure(
        slug="amplification",
        title="Rates of each group in every variant",
        summary=_amplified(audit, rows, len(groups)),
        spec=_panels(cells, groups, names, audit),
        table=FigureTable(
            "Rates of each group, with 95% intervals",
            ("Group", "Rate", "Variant", "Mean over members", "n"),
            tuple(
                (
                    group,
                    METRICS[metric],
                    name,
                    cell_text(numbers.rate(changes)),
                    numbers.count(changes.n),
                )
                for group, name, metric, changes in cells
            ),
            labels=3,
        ),
    )


def draw_forest(audit: Audit, gate: GateResult | None) -> Figure | None:
    """The change of every group's rates, in points, under one variant, which the reader picks."""
    rows = _changes(audit)
    if not rows:
        return None
    groups = _most_changed(audit, rows, MOST_ROWS)
    kept = {name: [row for row in changes if row.group in groups] for name, changes in rows.items()}
    domain = _domain([row.absolute for changes in kept.values() for row in changes])
    drawn = [
        (
            name,
            f"{SHORT[row.metric]} · {row.group}",
            *clipped(row.absolute, domain, 100.0),
            numbers.points(row.absolute).value or MISSING,
            _beyond(row.absolute),
        )
        for name, changes in kept.items()
        for row in sorted(changes, key=lambda r: groups.index(r.group))
    ]
    chosen = max(kept, key=lambda name: max(map(_height, kept[name])))
    margin = _margin(gate)
    return Figure(
        slug="forest",
        title="Change of each group’s rates in one variant",
        summary=_worst(kept, margin),
        spec=forest(drawn, list(kept), chosen, domain, margin),
        table=FigureTable(
            "Change from dense to compressed, with 95% intervals",
            ("Variant", "Group", "Rate", "Change, points", "Relative change", "n"),
            tuple(
                (
                    name,
                    row.group,
                    METRICS[row.metric],
                    cell_text(numbers.points(row.absolute)),
                    cell_text(numbers.percent(row.relative)),
                    numbers.count(row.absolute.n),
                )
                for name, changes in kept.items()
                for row in changes
            ),
            labels=3,
        ),
    )


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


def _most_changed(audit: Audit, rows: Changes, most: int) -> list[str]:
    """Everyone first, then the groups, in the audit's order, whose change lies highest."""
    names = [group.name for group in audit.groups]
    highest = dict.fromkeys(names, float("-inf"))
    for row in (row for changes in rows.values() for row in changes):
        highest[row.group] = max(highest[row.group], _height(row))
    kept = {names[0], *sorted(names[1:], key=lambda name: -highest[name])[: most - 1]}
    return [name for name in names if name in kept]


def _left_out(audit: Audit, drawn: int) -> str:
    of = len(audit.groups)
    return f" Drawn: {drawn} of {of} groups, those that change most." if drawn < of else ""


def _amplified(audit: Audit, rows: Changes, drawn: int) -> str:
    name, row = max(
        ((name, row) for name, changes in rows.items() for row in changes),
        key=lambda p: _height(p[1]),
    )
    if row.absolute.value is None:
        return "No change can be estimated." + _left_out(audit, drawn)
    before, after = numbers.rate(row.dense), numbers.rate(row.compressed)
    return (
        f"The change with the highest interval: {METRICS[row.metric]} of "
        f"{isolated(row.group)} in {isolated(name)}, from {cell_text(before)} to "
        f"{cell_text(after)}."
        f"{_left_out(audit, drawn)}"
    )


def _worst(rows: Changes, margin: float | None) -> str:
    name, row = max(
        ((name, row) for name, changes in rows.items() for row in changes),
        key=lambda p: _height(p[1]),
    )
    shown = f"{cell_text(numbers.points(row.absolute))} points"
    return (
        f"Filled: the 95% interval excludes 0. Open: it includes 0. Cross: {MISSING}."
        f"{'' if margin is None else f' Dashed: the gate’s margin, +{margin:g} points.'} "
        f"Highest interval: {METRICS[row.metric]} of {isolated(row.group)} in {isolated(name)}, "
        f"{shown}."
    )


def _panels(
    cells: list[Cell],
    groups: list[str],
    names: list[str],
    audit: Audit,
) -> dict[str, Any]:
    group, variant, metric, value, low, high, pruned = fields(7)
    level = {v.name: v.kind in ("dense", "prune") for v in audit.variants}
    size = {g.name: g.n for g in audit.groups}
    title = {name: f"n {numbers.count(size[name])} · {name}" for name in groups}
    rows = [
        (title[g], name, METRICS[m], *ends(changes, 100.0), level[name])
        for g, name, m, changes in cells
    ]
    metrics = [METRICS[m] for m in METRICS if any(cell[2] == m for cell in cells)]
    scale = {"domain": metrics, "range": FAMILY[: len(metrics)]}
    legend: dict[str, Any] | None = None if len(metrics) == 1 else {"columns": 2}
    colour = category(metric, scale=scale, legend=legend)
    x = category(variant, scale={"domain": names}, axis={"labelAngle": -45})
    beside = {"domain": metrics}  # intervals of one group stand side by side
    shapes = [SHAPES[m] for m in METRICS if METRICS[m] in metrics]
    return {
        "background": None,
        "padding": 4,
        "config": CONFIG,
        "usermeta": {"panel": PANEL + SPACE, "cut": CUT},
        "data": data(rows),
        "facet": category(group) | {"sort": list(title.values())},
        "columns": 3,
        "spacing": SPACE,
        # A shared axis would stay where the still drawing's rows end.
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
        "spec": {
            "width": PANEL - 42,
            "height": 120,
            "encoding": {"x": x, "color": colour, "xOffset": category(metric, scale=beside)},
            "layer": [
                {
                    "transform": [{"filter": f"datum.{pruned}"}],
                    "mark": {"type": "line", "strokeWidth": 1.5},
                    "encoding": {"y": {"field": value, "type": "quantitative"}},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {"y": numeric(low, "per cent"), "y2": {"field": high}},
                },
                {
                    "mark": {"type": "point", "filled": True, "opacity": 1, "size": 45},
                    "encoding": {
                        "y": {"field": value, "type": "quantitative"},
                        "shape": category(
                            metric, scale={"domain": metrics, "range": shapes}, legend=legend
                        ),
                    },
                },
            ],
        },
    }


def _domain(changes: Sequence[Quantity]) -> tuple[float, float]:
    """An axis in points for all values; a wide interval goes beyond it, or it would flatten all."""
    drawn = [ends(change, 100.0)[:2] for change in changes]
    values = [value for value, _ in drawn if value is not None] or [0.0]
    highest = max(2.0, 1.6 * max(values))
    lowest = min((low for _, low in drawn if low is not None), default=0.0)
    return float(math.floor(min(-1.0, *values, max(lowest, -highest)))), float(math.ceil(highest))


def _beyond(change: Quantity) -> bool:
    low, high = change.low, change.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _margin(gate: GateResult | None) -> float | None:
    """The gate's margin on a change of a group's rates, points."""
    rules = [] if gate is None else gate.rules.rules
    margins = [rule.max_increase.absolute for rule in rules if isinstance(rule, ChangeRule)]
    return next((100.0 * margin for margin in margins if margin is not None), None)


def forest(
    rows: list[tuple[Any, ...]],
    names: list[str],
    chosen: str,
    domain: tuple[float, float],
    margin: float | None,
) -> dict[str, Any]:
    """Specify intervals of many rows, of the one variant that the reader picks.

    Args:
        rows: Variant, label, value, low, high, whether the interval goes on to the left and to the
            right, the value in words, and whether its sign is filled.
        names: The variants.
        chosen: The one that is shown first.
        domain: Ends of the axis, points.
        margin: Where a margin stands, points; None draws none.
    """
    variant, label, value, low, high, goes_left, goes_right, change, beyond = fields(9)
    within = {"test": f"!datum.{beyond}", "value": GROUND}
    hollow = {"type": "point", "opacity": 1, "size": 60, "strokeWidth": 2, "stroke": INK}
    layers = [
        words(change, {"value": "width"}, dx=8),
        upright(0.0),
        *([] if margin is None else [upright(margin, strokeDash=[5, 3])]),
        whisker(
            low,
            high,
            "change, points",
            scale={"domain": domain, "nice": False},
            axis={"tickCount": 6},
        ),
        *arrows(low, high, goes_left, goes_right),
        point(value)
        | {
            "mark": hollow,
            "encoding": {
                "x": {"field": value, "type": "quantitative"},
                "fill": {"condition": within, "value": INK},
                "shape": category(
                    beyond,
                    scale={"domain": [True, False], "range": ["diamond", "circle"]},
                    legend=None,
                ),
            },
        },
        cross(value, 0.0),
    ]
    return single(
        title=PICKED,
        params=[picker(names, chosen)],
        data=data(rows),
        transform=[{"filter": f"datum.{variant} === variant"}],
        height={"step": 20},
        encoding={"y": category(label)},
        layer=layers,
    )
