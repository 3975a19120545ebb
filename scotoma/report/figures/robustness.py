"""What do corrupted pictures cost each variant, and which groups do they cost more?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.robustness import ALL_KINDS, CurvePoint, LossRow, RobustnessReport
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

__all__ = ["draw_robust_groups", "draw_robustness"]

PANEL = 252  # pixels
MOST_LINES = len(FAMILY)  # variants drawn, those that lose most
MOST_ROWS = 40  # groups by families in the forest
FAMILIES = {
    ALL_KINDS: "all corruptions",
    "noise": "noise",
    "blur": "blur",
    "weather": "weather",
    "digital": "digital",
    "extended": "extended",
}


def draw_robustness(audit: Audit) -> Figure | None:
    """Accuracy against severity: one panel a family, one line a variant."""
    report = audit.robustness
    if report is None or not report.corruptions:
        return None
    names = _drawn(audit, report)
    points = [point for point in report.curves if point.variant in names]
    return Figure(
        slug="robustness",
        title="Accuracy under corruption, by severity",
        summary=_summary(report),
        spec=_panels(points, names, report),
        table=FigureTable(
            "Accuracy, mean over the corruptions of a family, with 95% intervals",
            ("Family", "Severity", "Variant", "Accuracy", "n"),
            tuple(
                (
                    FAMILIES[point.family],
                    str(point.severity) if point.severity else "clean",
                    point.variant,
                    cell_text(numbers.rate(point.accuracy)),
                    numbers.count(point.accuracy.n),
                )
                for point in points
            ),
            labels=3,
        ),
    )


def draw_robust_groups(audit: Audit) -> Figure | None:
    """What each group loses beyond all others, in points, under one variant."""
    report = audit.robustness
    rows = {} if report is None else _contrasts(report)
    if not rows:
        return None
    kept = {name: of[:MOST_ROWS] for name, of in rows.items()}
    shown = [row.contrast for of in kept.values() for row in of if row.contrast]
    reach = max([1.0, *(abs(end) for q in shown for end in ends(q, 100.0) if end is not None)])
    domain = (-float(math.ceil(reach)), float(math.ceil(reach)))
    drawn = [
        (
            name,
            f"{FAMILIES[row.family]} · {row.group}",
            *clipped(row.contrast, domain, 100.0),
            numbers.points(row.contrast).value or MISSING,
            _shown(row),
        )
        for name, of in kept.items()
        for row in of
        if row.contrast is not None
    ]
    chosen = max(kept, key=lambda name: kept[name][0].contrast.value or 0.0)  # type: ignore[union-attr]
    return Figure(
        slug="robust_groups",
        title="Groups that corruption costs more, in one variant",
        summary=_most_affected(kept),
        spec=_forest(drawn, list(kept), chosen, domain),
        table=FigureTable(
            "Loss of a group beyond that of all other examples, compressed less dense, points",
            ("Variant", "Group", "Family", "Beyond the rest", "p, adjusted", "n"),
            tuple(
                (
                    name,
                    row.group,
                    FAMILIES[row.family],
                    cell_text(numbers.points(row.contrast)),
                    numbers.p_value(row.p_adjusted or 0.0),
                    numbers.count(row.contrast.n),
                )
                for name, of in kept.items()
                for row in of
                if row.contrast is not None
            ),
            labels=3,
        ),
    )


def _drawn(audit: Audit, report: RobustnessReport) -> list[str]:
    """Dense, and the variants that lose most, in the audit's order."""

    def lost(name: str) -> float:
        rows = (row for row in report.losses[name] if row.metric == "error")
        return max((abs(row.absolute.value or 0.0) for row in rows), default=0.0)

    kept = sorted((variant.name for variant in audit.compressed), key=lambda name: -lost(name))
    wanted = {audit.dense.name, *kept[: MOST_LINES - 1]}
    return [variant.name for variant in audit.variants if variant.name in wanted]


def _contrasts(report: RobustnessReport) -> dict[str, list[LossRow]]:
    """Rows that were tested, the most affected group first."""
    tested = {
        name: [row for row in rows if row.p_adjusted is not None and row.contrast is not None]
        for name, rows in report.losses.items()
    }
    return {
        name: sorted(rows, key=lambda row: -(row.contrast.value or 0.0))  # type: ignore[union-attr]
        for name, rows in tested.items()
        if rows
    }


def _shown(row: LossRow) -> bool:
    return row.p_adjusted is not None and row.p_adjusted <= 0.05


def _summary(report: RobustnessReport) -> str:
    left_out = f" Not made: {', '.join(sorted(report.left_out))}." if report.left_out else ""
    note = f" Scaled to the size of these pictures: {report.note}." if report.note else ""
    kinds = len(report.corruptions)
    return (
        f"{numbers.count(report.examples)} of {numbers.count(report.test)} test examples under "
        f"{kinds} corruptions; lines show means over the corruptions of a family, bars their 95% "
        f"intervals.{left_out}{note}"
    )


def _most_affected(rows: dict[str, list[LossRow]]) -> str:
    found = [(name, row) for name, of in rows.items() for row in of if _shown(row)]
    legend = "Filled: shown after Holm over groups and families."
    if not found:
        return f"{legend} No group is shown to lose more or less than the others."
    name, row = max(found, key=lambda pair: abs(pair[1].contrast.value or 0.0))  # type: ignore[union-attr]
    assert row.contrast is not None
    return (
        f"{legend} Largest: {isolated(row.group)} under {FAMILIES[row.family]} in "
        f"{isolated(name)}, {cell_text(numbers.points(row.contrast))} points."
    )


def _panels(
    points: Sequence[CurvePoint], names: list[str], report: RobustnessReport
) -> dict[str, Any]:
    family, variant, severity, value, low, high = fields(6)
    beside = max(1, len(names) - 1)  # intervals of one severity stand side by side
    rows = [
        (
            FAMILIES[point.family],
            point.variant,
            point.severity + 0.3 * (names.index(point.variant) / beside - 0.5),
            *ends(point.accuracy, 100.0),
        )
        for point in points
    ]
    families = dict.fromkeys(row[0] for row in rows)
    colour = category(
        variant, scale={"domain": names, "range": FAMILY[: len(names)]}, legend={"columns": 3}
    )
    axis = {"values": [0, *report.severities], "format": "d"}
    return {
        "background": None,
        "padding": 4,
        "config": CONFIG,
        "usermeta": {"panel": PANEL + SPACE, "cut": 24},
        "data": data(rows),
        "facet": category(family) | {"sort": list(families)},
        "columns": 3,
        "spacing": SPACE,
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
        "spec": {
            "width": PANEL - 42,
            "height": 130,
            "encoding": {
                "x": numeric(severity, "severity, 0: clean", axis=axis),
                "color": colour,
            },
            "layer": [
                {
                    "mark": {"type": "line", "strokeWidth": 1.5},
                    "encoding": {
                        "y": numeric(value, "per cent right", scale={"zero": False}),
                    },
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {
                        "y": {"field": low, "type": "quantitative"},
                        "y2": {"field": high},
                    },
                },
            ],
        },
    }


def _forest(
    rows: list[tuple[Any, ...]], names: list[str], chosen: str, domain: tuple[float, float]
) -> dict[str, Any]:
    """Specify intervals of many rows, of the one variant that the reader picks.

    Args:
        rows: Variant, label, value, low, high, whether the interval goes on to the left and to the
            right, the value in words, and whether its sign is filled.
        names: The variants.
        chosen: The one that is shown first.
        domain: Ends of the axis, points.
    """
    variant, label, value, low, high, goes_left, goes_right, change, beyond = fields(9)
    within = {"test": f"!datum.{beyond}", "value": GROUND}
    hollow = {"type": "point", "opacity": 1, "size": 60, "strokeWidth": 2, "stroke": INK}
    layers = [
        words(change, {"value": "width"}, dx=8),
        upright(0.0),
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
