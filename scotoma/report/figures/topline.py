"""The top line beside what it hides: accuracy, how much models differ, the floor, the excess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scotoma.audit import Audit
from scotoma.audit.divergence import Divergence
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
    """Top-1 accuracy of each variant, how much models differ beside the floor, and the excess."""
    names = [variant.name for variant in audit.variants]
    if not audit.divergence:
        return None
    changes = {name: audit.divergence[name] for name in names[1:]}
    top1 = [_top1(audit, names)] if audit.labelled else []
    return Figure(
        slug="topline",
        title=f"{'Accuracy, changed' if top1 else 'Changed'} examples, and their excess over seed "
        "noise",
        summary=_summary(audit, changes),
        spec=panels(
            [*top1, _differing(names, changes), _excess(names, changes)],
            PANEL,
            columns=2 + len(top1),
        ),
        table=FigureTable(
            f"{'Top-1 accuracy and ' if top1 else ''}CIEs among "
            f"{numbers.count(audit.examples.test)} test examples",
            ("Variant", *(["Top-1"] if top1 else []), "CIEs", "Range over ties", "Models differ",
             "Floor", "Excess, points"),
            tuple(_row(audit, name, changes.get(name)) for name in names),
        ),
    )  # fmt: skip


def _summary(audit: Audit, changes: Mapping[str, Divergence]) -> str:
    most = max(changes, key=lambda name: changes[name].cie.cie.count)
    cie = changes[most].cie
    differing, floor = changes[most].differing.value, cie.floor.value
    values = [accuracy.top1.value for accuracy in audit.accuracy.values()]
    known = [100 * value for value in values if value is not None]
    spread = f"Top-1 accuracy ranges from {min(known):.1f}% to {max(known):.1f}%. " if known else ""
    count, n = numbers.count(cie.cie.count), numbers.count(cie.n)
    text = f"{spread}Most examples change in {isolated(most)}: {count} of {n} are CIEs"
    if cie.paired:
        return f"{text}; {100 * (differing or 0.0):.1f}% of predictions flip."
    if differing is None or floor is None:
        return f"{text}; there are too few members for a floor."
    return (
        f"{text}; a dense and a compressed model differ on {100 * differing:.1f}%, two dense "
        f"models on {100 * floor:.1f}%."
    )


def _row(audit: Audit, name: str, divergence: Divergence | None) -> tuple[str, ...]:
    top1 = [cell_text(numbers.rate(audit.accuracy[name].top1))] if audit.labelled else []
    if divergence is None:
        return (name, *top1, "baseline", "", "", "", "")
    cie = divergence.cie
    return (
        name,
        *top1,
        numbers.count(cie.cie.count),
        f"{numbers.count(cie.cie.low)} to {numbers.count(cie.cie.high)}",
        cell_text(numbers.rate(divergence.differing)),
        "none: made from dense" if cie.paired else cell_text(numbers.rate(cie.floor)),
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


def _differing(names: list[str], changes: Mapping[str, Divergence]) -> dict[str, Any]:
    variant, value, low, high, floor = fields(5)
    rows: list[tuple[Any, ...]] = [(names[0], None, None, None, None)]
    for name, one in changes.items():
        at = None if one.cie.paired else one.cie.floor.value
        rows.append((name, *ends(one.differing, 100.0), None if at is None else round(100 * at, 4)))
    return {
        "title": "Models differ (bars), floor (ticks)",
        "data": data(rows),
        **SIZE,
        "encoding": {"y": category(variant, scale={"domain": names})},
        "layer": [
            {
                "mark": {"type": "bar", "height": 11, "color": BLUE},
                "encoding": {"x": numeric(value, "% of examples, 95% interval")},
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


def _excess(names: list[str], changes: Mapping[str, Divergence]) -> dict[str, Any]:
    variant, value, low, high, missing = fields(5)
    rows = [
        (name, *ends(one.cie.excess, 100.0), MISSING if one.cie.excess.value is None else "")
        for name, one in changes.items()
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
