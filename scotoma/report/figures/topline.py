"""The top line beside what it hides: accuracy, the count of CIEs with its floor, the excess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.divergence import Excess
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    FAMILY,
    MISSING,
    category,
    cross,
    data,
    ends,
    fields,
    numeric,
    panels,
    point,
    upright,
    whisker,
    words,
)

__all__ = ["draw_topline"]

PANEL = 252  # width of one drawing with its labels, pixels
SIZE = {"width": 150, "height": {"step": 22}}
BLUE, ORANGE = FAMILY[:2]


def draw_topline(audit: Audit) -> Figure | None:
    """Top-1 accuracy of each variant, its CIEs beside the floor, and their excess over it."""
    names = [variant.name for variant in audit.variants]
    if not audit.divergence:
        return None
    cies = {name: audit.divergence[name].cie for name in names[1:]}
    n = audit.examples.test
    return Figure(
        slug="topline",
        title="Accuracy, changed examples, and their excess over seed noise",
        summary=_summary(audit, cies),
        spec=panels(
            [_top1(audit, names), _counts(names, cies, n), _excess(names, cies)],
            PANEL,
            columns=3,
        ),
        table=FigureTable(
            f"Top-1 accuracy and CIEs among {numbers.count(n)} test examples",
            ("Variant", "Top-1", "CIEs", "Range over ties", "Floor of the count", "Excess, points"),
            tuple(_row(audit, name, cies.get(name)) for name in names),
        ),
    )


def _summary(audit: Audit, cies: Mapping[str, Excess]) -> str:
    most = max(cies, key=lambda name: cies[name].cie.count)
    floor = cies[most].floor_at_k.value
    beside = (
        "there are too few members for a floor"
        if floor is None
        else f"seeds alone would change about {floor * cies[most].n:.0f}"
    )
    values = [audit.accuracy[v.name].top1.value for v in audit.variants]
    known = [100 * value for value in values if value is not None]
    spread = f"Top-1 accuracy ranges from {min(known):.1f}% to {max(known):.1f}%. " if known else ""
    count, n = (numbers.count(x) for x in (cies[most].cie.count, cies[most].n))
    return f"{spread}Most examples change in {isolated(most)}: {count} of {n}; {beside}."


def _row(audit: Audit, name: str, cie: Excess | None) -> tuple[str, ...]:
    top1 = cell_text(numbers.rate(audit.accuracy[name].top1))
    if cie is None:
        return (name, top1, "baseline", "", "", "")
    count, floor = cie.cie, cie.floor_at_k
    return (
        name,
        top1,
        numbers.count(count.count),
        f"{numbers.count(count.low)} to {numbers.count(count.high)}",
        floor.reason if floor.value is None else f"{floor.value * cie.n:.0f}",
        cell_text(numbers.points(cie.excess)),
    )


def _top1(audit: Audit, names: list[str]) -> dict[str, Any]:
    variant, value, low, high = fields(4)
    return {
        "title": "Top-1 accuracy",
        "data": data((name, *ends(audit.accuracy[name].top1, 100.0)) for name in names),
        **SIZE,
        "encoding": {"y": category(variant, scale={"domain": names})},
        "layer": [
            whisker(low, high, "per cent, 95% interval", scale={"zero": False}),
            point(value),
        ],
    }


def _counts(names: list[str], cies: Mapping[str, Excess], n: int) -> dict[str, Any]:
    variant, count, low, high, floor = fields(5)
    rows: list[tuple[Any, ...]] = [(names[0], None, None, None, None)]
    for name, cie in cies.items():
        share, ties = cie.floor_at_k.value, cie.cie
        at = None if share is None else round(share * n, 2)
        rows.append((name, ties.count, ties.low, ties.high, at))
    return {
        "title": "CIEs (bars), floor (ticks)",
        "data": data(rows),
        **SIZE,
        "encoding": {"y": category(variant, scale={"domain": names})},
        "layer": [
            {
                "mark": {"type": "bar", "height": 11, "color": BLUE},
                "encoding": {"x": numeric(count, "examples; lines: range over ties")},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {"x": {"field": low, "type": "quantitative"}, "x2": {"field": high}},
            },
            {
                "transform": [{"filter": f"isValid(datum.{floor})"}],
                "mark": {
                    "type": "tick", "color": ORANGE, "opacity": 1, "thickness": 3, "size": 18
                },
                "encoding": {"x": {"field": floor, "type": "quantitative"}},
            },
        ],
    }  # fmt: skip


def _excess(names: list[str], cies: Mapping[str, Excess]) -> dict[str, Any]:
    variant, value, low, high, missing = fields(5)
    rows = [
        (name, *ends(cie.excess, 100.0), MISSING if cie.excess.value is None else "")
        for name, cie in cies.items()
    ]
    return {
        "title": "Excess over the floor",
        "data": data([(names[0], None, None, None, ""), *rows]),
        **SIZE,
        "encoding": {"y": category(variant, scale={"domain": names})},
        "layer": [
            upright(0.0),
            whisker(low, high, "points, 95% interval", axis={"format": "~g"}),
            point(value),
            cross(value, 0.0) | {"transform": [{"filter": f"datum.{missing} !== ''"}]},
            words(missing, {"datum": 0.0, "type": "quantitative"}, dx=10),
        ],
    }
