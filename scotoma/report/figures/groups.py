"""Which groups pay: their rates against the level of compression, and by how much each changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.groups import RateChange
from scotoma.config.gate import ChangeRule
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, Table, named, said
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

__all__ = ["amplification", "forest"]

METRICS = {"error": "error", "fpr": "false positive rate", "fnr": "false negative rate"}
SHORT = {"error": "error", "fpr": "FPR", "fnr": "FNR"}
SHAPES = {"error": "circle", "fpr": "square", "fnr": "triangle-up"}
MOST_PANELS = 12  # groups drawn against compression, those whose change lies highest
MOST_ROWS = 40  # groups in the forest
PANEL = 252  # pixels
CUT = 24  # columns of text at which a name is cut in a panel

Changes = Mapping[str, Sequence[RateChange]]
Cell = tuple[str, str, str, Quantity]  # group, variant, metric, rate


def amplification(audit: Audit) -> Figure | None:
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
        title="Each group’s rates as compression grows",
        summary=_amplified(audit, rows, len(groups)),
        spec=_panels(cells, groups, names, audit),
        table=Table(
            "Rates of each group, with 95% intervals",
            ("Group", "Rate", "Variant", "Mean over members", "n"),
            tuple(
                (group, METRICS[metric], name, said(numbers.rate(found)), numbers.count(found.n))
                for group, name, metric, found in cells
            ),
            labels=3,
        ),
    )


def forest(audit: Audit, gate: GateResult | None) -> Figure | None:
    """The relative change of every group's rates under one variant, which the reader picks."""
    rows = _changes(audit)
    if not rows:
        return None
    groups = _most_changed(audit, rows, MOST_ROWS)
    kept = {name: [row for row in found if row.group in groups] for name, found in rows.items()}
    domain = _domain([row.relative for found in kept.values() for row in found])
    drawn = [
        (
            name,
            f"{SHORT[row.metric]} · {row.group}",
            *clipped(row.relative, domain),
            numbers.percent(row.relative).value or MISSING,
            _beyond(row.relative),
        )
        for name, found in kept.items()
        for row in sorted(found, key=lambda r: groups.index(r.group))
    ]
    chosen = max(kept, key=lambda name: max(map(_height, kept[name])))
    limit = _limit(gate)
    return Figure(
        slug="forest",
        title="Change of each group under one variant",
        summary=_worst(kept, limit),
        spec=_forest(drawn, list(kept), chosen, domain, limit),
        table=Table(
            "Change from dense to compressed, with 95% intervals",
            ("Variant", "Group", "Rate", "Relative change", "Change, points", "n"),
            tuple(
                (
                    name,
                    row.group,
                    METRICS[row.metric],
                    said(numbers.percent(row.relative)),
                    said(numbers.points(row.absolute)),
                    numbers.count(row.relative.n),
                )
                for name, found in kept.items()
                for row in found
            ),
            labels=3,
        ),
    )


def _changes(audit: Audit) -> dict[str, list[RateChange]]:
    """Rows of rates over all classes, or of the positive one, by variant."""
    rows = {
        variant.name: [row for row in audit.subgroups[variant.name] if row.class_name is None]
        for variant in audit.compressed
    }
    return {name: of for name, of in rows.items() if of}


def _height(row: RateChange) -> float:
    """How high the interval of a change lies; what has none lies lowest."""
    low = row.relative.low
    return float("-inf") if low is None else low


def _most_changed(audit: Audit, rows: Changes, most: int) -> list[str]:
    """Everyone first, then the groups, in the audit's order, whose change lies highest."""
    names = [group.name for group in audit.groups]
    highest = dict.fromkeys(names, float("-inf"))
    for row in (row for found in rows.values() for row in found):
        highest[row.group] = max(highest[row.group], _height(row))
    kept = {names[0], *sorted(names[1:], key=lambda name: -highest[name])[: most - 1]}
    return [name for name in names if name in kept]


def _left_out(audit: Audit, drawn: int) -> str:
    of = len(audit.groups)
    return f" Drawn: {drawn} of {of} groups, those that change most." if drawn < of else ""


def _amplified(audit: Audit, rows: Changes, drawn: int) -> str:
    name, row = max(
        ((name, row) for name, found in rows.items() for row in found), key=lambda p: _height(p[1])
    )
    if row.relative.value is None:
        return "No relative change can be estimated." + _left_out(audit, drawn)
    before, after = numbers.rate(row.dense), numbers.rate(row.compressed)
    return (
        f"The change whose interval lies highest: {METRICS[row.metric]} of "
        f"{named(row.group)} under {named(name)}, from {said(before)} to {said(after)}."
        f"{_left_out(audit, drawn)}"
    )


def _worst(rows: Changes, limit: float | None) -> str:
    name, row = max(
        ((name, row) for name, found in rows.items() for row in found), key=lambda p: _height(p[1])
    )
    shown = said(numbers.percent(row.relative))
    return (
        f"Filled: the 95% interval leaves out 0. Open: it holds 0. Cross: {MISSING}."
        f"{'' if limit is None else f' Dashed: the gate’s limit, +{limit:g}%.'} "
        f"The highest: {METRICS[row.metric]} of {named(row.group)} under {named(name)}, "
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
        (title[g], name, METRICS[m], *ends(found, 100.0), level[name])
        for g, name, m, found in cells
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
    """An axis that holds all values; a wide interval goes beyond it, or it would flatten all."""
    values = [ends(change)[0] for change in changes]
    known = [value for value in values if value is not None] or [0.0]
    lows = [low for low in (ends(change)[1] for change in changes) if low is not None] or [0.0]
    highest = max(20.0, 1.6 * max(known))
    lowest = max(min(-10.0, *lows), -100.0, -highest)
    return float(round(lowest)), float(round(highest))


def _beyond(change: Quantity) -> bool:
    low, high = change.low, change.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _limit(gate: GateResult | None) -> float | None:
    """The gate's limit on a relative change of groups, per cent."""
    rules = [] if gate is None else gate.rules.rules
    limits = [rule.max_increase.relative for rule in rules if isinstance(rule, ChangeRule)]
    return next((100.0 * limit for limit in limits if limit is not None), None)


def _forest(
    rows: list[tuple[Any, ...]],
    names: list[str],
    chosen: str,
    domain: tuple[float, float],
    limit: float | None,
) -> dict[str, Any]:
    variant, label, value, low, high, goes_left, goes_right, change, beyond = fields(9)
    within = {"test": f"!datum.{beyond}", "value": GROUND}
    hollow = {"type": "point", "opacity": 1, "size": 60, "strokeWidth": 2, "stroke": INK}
    layers = [
        words(change, {"value": "width"}, dx=8),
        upright(0.0),
        *([] if limit is None else [upright(limit, strokeDash=[5, 3])]),
        whisker(
            low,
            high,
            "relative change, per cent",
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
