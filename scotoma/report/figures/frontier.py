"""How far one can compress: what each variant loses beside what it saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scotoma.audit.frontier import FrontierRow
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    category,
    clipped,
    cross,
    data,
    ends,
    fields,
    panels,
    points_by_verdict,
    upright,
    whisker,
)

__all__ = ["draw_frontier"]

PANEL = 312  # width of one drawing with its labels, pixels
BASELINE = "not judged"

Costs = Mapping[str, Any]  # of one member, as measurements.json has them
Mark = tuple[float | None, ...]  # value, low end, high end


def draw_frontier(rows: Sequence[FrontierRow]) -> Figure | None:
    """Accuracy, worst group, size and latency of each variant, its verdict as the shape."""
    if not rows:
        return None
    names = [row.variant for row in rows]
    verdicts = [row.verdict or BASELINE for row in rows]
    worst = _worst(rows)
    drawings = [
        _panel("Top-1 accuracy", "per cent, 95% interval", names, verdicts,
               [ends(row.top1, 100.0) for row in rows]),
        _panel("Rise in the most affected group", "points, 95% interval", names, verdicts, worst,
               zero=True),
    ]  # fmt: skip
    costs = [row.costs for row in rows]
    if any(costs):
        sizes = [(c["compressed_bytes"] / 1e6, None, None) if c else (None,) * 3 for c in costs]
        unit, factor = ("MB", 1.0) if max(s[0] or 0 for s in sizes) >= 1 else ("kB", 1e3)
        scaled = [(None if s[0] is None else round(s[0] * factor, 4), None, None) for s in sizes]
        drawings.append(
            _panel("Size of one member, packed", f"{unit}, no interval: one file", names, verdicts,
                   scaled, from_zero=True)
        )  # fmt: skip
    if any(c and c.get("latency") for c in costs):
        times = [_latency(c) for c in costs]
        drawings.append(
            _panel("Latency of one image", "ms, median and quartiles", names, verdicts, times,
                   from_zero=True)
        )  # fmt: skip
    return Figure(
        slug="frontier",
        title="What each variant loses and saves",
        summary=_summary(rows),
        spec=panels(drawings, PANEL, columns=2),
        table=_table(rows),
    )


def _worst(rows: Sequence[FrontierRow]) -> list[Mark]:
    rises = [ends(row.worst.absolute, 100.0)[0] for row in rows if row.worst]
    largest = max((abs(rise) for rise in rises if rise is not None), default=0.0)
    furthest = max(2.0, 2.0 * largest)
    return [
        clipped(row.worst.absolute, (-furthest, furthest), 100.0)[:3]
        if row.worst
        else (None, None, None)
        for row in rows
    ]


def _latency(costs: Costs | None) -> Mark:
    one = ((costs or {}).get("latency") or {}).get("1")
    return (one["median_ms"], one["low_ms"], one["high_ms"]) if one else (None, None, None)


def _summary(rows: Sequence[FrontierRow]) -> str:
    judged = {
        verdict: [row.variant for row in rows if row.verdict == verdict]
        for verdict in ("PASS", "UNSURE", "FAIL")
    }
    verdict_words = "; ".join(
        f"{verdict}: {', '.join(map(isolated, names))}"
        for verdict, names in judged.items()
        if names
    )
    return (
        f"{verdict_words or 'No gate was applied'}. Circles pass, diamonds are unsure, triangles "
        "fail, squares are not judged; crosses: not estimable or not measured."
    )


def _panel(
    title: str,
    unit: str,
    names: Sequence[str],
    verdicts: Sequence[str],
    marks: Sequence[Mark],
    *,
    zero: bool = False,
    from_zero: bool = False,
) -> dict[str, Any]:
    variant, verdict, value, low, high = fields(5)
    rows = [
        (name, verdict_words, *mark)
        for name, verdict_words, mark in zip(names, verdicts, marks, strict=True)
    ]
    known = [m[0] for m in marks if m[0] is not None]
    crosses = {
        "transform": [{"filter": f"!isValid(datum.{value}) && datum.{verdict} !== '{BASELINE}'"}]
    }
    scale = {"zero": from_zero or zero}
    return {
        "title": title,
        "data": data(rows),
        "width": 210,
        "height": {"step": 22},
        "encoding": {"y": category(variant, scale={"domain": list(names)})},
        "layer": [
            *([upright(0.0)] if zero else []),
            whisker(low, high, unit, scale=scale),
            points_by_verdict(verdict, value),
            cross(value, 0.0 if zero or from_zero or not known else min(known)) | crosses,
        ],
    }


def _table(rows: Sequence[FrontierRow]) -> FigureTable:
    return FigureTable(
        "Size and latency are of one member on one machine",
        ("Variant", "Gate", "Top-1", "Most affected group, points", "Relative", "Which",
         "Packed, bytes",
         "Latency of one image, ms"),
        tuple(
            (
                row.variant,
                row.verdict or BASELINE,
                cell_text(numbers.rate(row.top1)),
                cell_text(numbers.points(row.worst.absolute)) if row.worst else "none",
                cell_text(numbers.percent(row.worst.relative)) if row.worst else "none",
                f"{row.worst.metric} of {row.worst.group}" if row.worst else "",
                numbers.count(row.costs["compressed_bytes"]) if row.costs else "not measured",
                _time(row.costs),
            )
            for row in rows
        ),
        labels=2,
    )  # fmt: skip


def _time(costs: Costs | None) -> str:
    median, low, high = _latency(costs)
    return "not measured" if median is None else f"{median:.3f} [{low:.3f}, {high:.3f}]"
