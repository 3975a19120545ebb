"""How do audits change over time? Verdicts, the most affected group, and the CIE excess."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

from scotoma.audit import Quantity
from scotoma.document.cells import Shown
from scotoma.report import numbers
from scotoma.report.figures.figure import Figure, FigureTable, cell_text, isolated
from scotoma.report.figures.grammar import (
    GROUND,
    INK,
    QUIET,
    SOLID,
    VERDICTS,
    category,
    clipped,
    data,
    fields,
    panels,
    single,
)
from scotoma.report.timeline import Audited, TrendVariant

__all__ = ["trend_figures"]

PANEL = 252  # width of one drawing with its labels, pixels
SIZE = {"width": 176, "height": 130}
OUTSIDE = {
    "failed": ("cross", INK),
    "skipped": ("stroke", QUIET),
    "unreadable": ("square", QUIET),
}
FILLED = ("PASS", "FAIL", "failed")
ROW = "no result"
DAY_MS = 86_400_000
MONTHS_MS = 75 * DAY_MS  # from here on the axis has months
MOST_TICKS = 4
MOST = 3.0  # times the largest change drawn: a longer interval is cut, and the table has it


def trend_figures(audits: Sequence[Audited]) -> dict[str, Figure]:
    """Every figure of the page that there is something to draw for.

    Args:
        audits: In the order of time.

    Returns:
        Figures by slug: verdicts, worst, excess.
    """
    drawn = (
        _verdicts(audits),
        _panels(
            audits,
            slug="worst",
            title="The most affected group of each audit",
            unit="points; 0: no change",
            of=lambda one: one.worst,
            shown=numbers.points,
            factor=100.0,
        ),
        _panels(
            audits,
            slug="excess",
            title="CIEs beyond seed noise",
            unit="points; 0: seeds alone",
            of=lambda one: one.excess,
            shown=numbers.points,
            factor=100.0,
        ),
    )
    return {figure.slug: figure for figure in drawn if figure is not None}


def _verdicts(audits: Sequence[Audited]) -> Figure | None:
    names = _names(audits)
    rows = [(_ms(a), one.variant, one.verdict) for a in audits for one in a.variants]
    rows += [(_ms(audit), ROW, audit.state) for audit in audits if not audit.variants]
    if not rows:
        return None
    looks = VERDICTS | OUTSIDE
    kinds = [kind for kind in looks if kind in {kind for _, _, kind in rows}]
    shapes, colours = zip(*(looks[kind] for kind in kinds), strict=True)
    at, variant, verdict = fields(3)
    legend = {"columns": 3}  # of a narrow place the width
    colour = category(verdict, scale={"domain": kinds, "range": list(colours)}, legend=legend)
    shape = category(verdict, scale={"domain": kinds, "range": list(shapes)}, legend=legend)
    lines = [*names, *([ROW] if any(row[1] == ROW for row in rows) else [])]
    return Figure(
        slug="verdicts",
        title="Verdicts over time",
        summary=_last_verdicts(audits),
        spec=single(
            data=data(rows),
            height={"step": 26},
            encoding={
                "x": _time(at, _span(audits)),
                "y": category(variant, scale={"domain": lines}),
            },
            layer=[
                {
                    "mark": {"type": "point", "size": 90, "strokeWidth": 2, "opacity": 1},
                    "encoding": {
                        "shape": shape,
                        "stroke": colour,
                        "fill": {
                            "condition": [
                                {"test": f"datum.{verdict} === '{kind}'", "value": looks[kind][1]}
                                for kind in FILLED
                            ],
                            "value": GROUND,
                        },
                    },
                }
            ],
        ),
        table=FigureTable(
            "Verdict of each variant, audit by audit",
            ("Audit", "Variant", "Verdict", "Test examples"),
            tuple(row for audit in audits for row in _said(audit)),
            labels=3,
        ),
    )  # fmt: skip


def _said(audit: Audited) -> list[tuple[str, ...]]:
    """Rows of the table: a variant each, or why there is none."""
    if not audit.variants:
        return [(audit.day, ROW, audit.why, "")]
    n = numbers.count(audit.examples)
    return [(audit.day, one.variant, one.verdict, n) for one in audit.variants]


def _panels(
    audits: Sequence[Audited],
    *,
    slug: str,
    title: str,
    unit: str,
    of: Callable[[TrendVariant], Quantity | None],
    shown: Callable[[Quantity], Shown],
    factor: float,
) -> Figure | None:
    """One panel a variant: a number with its interval, audit by audit."""
    rows = [(a, one, of(one)) for a in audits for one in a.variants]
    known = [(a, one, e) for a, one, e in rows if e is not None and _is_finite(e.value)]
    if not known:
        return None
    domain = _domain([estimate for _, _, estimate in known], factor)
    each = [
        _panel(
            name,
            [(_ms(a), *clipped(e, domain, factor)) for a, one, e in known if one.variant == name],
            unit, domain, _span(audits),
        )
        for name in _names(audits)
    ]  # fmt: skip
    last = known[-1][0]
    newest = [(one, estimate) for audit, one, estimate in known if audit is last]
    one, estimate = max(newest, key=lambda pair: pair[1].value or 0.0)
    where = f", {isolated(one.where)}" if slug == "worst" else ""
    where_head = ("Where",) if slug == "worst" else ()
    return Figure(
        slug=slug,
        title=title,
        summary=f"Highest in the audit of {last.day}: {isolated(one.variant)}{where}, "
        f"{cell_text(shown(estimate))}, n = {numbers.count(estimate.n)}.",
        spec=panels(each, PANEL, columns=3),
        table=FigureTable(
            f"{title}, with 95% intervals",
            ("Audit", "Variant", *where_head, "Number", "n", "Members"),
            tuple(
                (
                    audit.day, one.variant, *((one.where,) if slug == "worst" else ()),
                    "not estimable" if e is None else cell_text(shown(e)),
                    "" if e is None else numbers.count(e.n), f"{one.members}",
                )
                for audit, one, e in rows
            ),
            labels=3 if slug == "worst" else 2,
        ),
    )  # fmt: skip


def _panel(
    name: str,
    rows: Sequence[tuple[Any, ...]],
    unit: str,
    domain: tuple[float, float],
    span: tuple[int, int],
) -> dict[str, Any]:
    at, value, low, high, goes_down, goes_up = fields(6)
    scale = {"domain": list(domain), "nice": True}
    y = {"type": "quantitative", "scale": scale, "axis": {"title": unit, "tickCount": 4}}
    null: dict[str, Any] = {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "color": QUIET},
        "encoding": {"x": None, "y": {"datum": 0.0, "type": "quantitative"}},
    }
    cut: list[dict[str, Any]] = [
        {
            "transform": [{"filter": f"datum.{goes}"}],
            "mark": {"type": "point", "shape": f"triangle-{side}", **SOLID, "size": 40},
            "encoding": {"y": {"field": end, **y}},
        }
        for side, end, goes in (("down", low, goes_down), ("up", high, goes_up))
    ]
    return {
        "title": name,
        "data": data(rows),
        **SIZE,
        "encoding": {"x": _time(at, span)},
        "layer": [
            null,
            {
                "mark": {"type": "line", "color": QUIET, "strokeWidth": 1, "strokeDash": [2, 3]},
                "encoding": {"y": {"field": value, **y}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"y": {"field": low, **y}, "y2": {"field": high}},
            },
            {
                "mark": {"type": "point", **SOLID, "size": 40},
                "encoding": {"y": {"field": value, **y}},
            },
            *cut,
        ],
    }


def _time(field: str, span: tuple[int, int]) -> dict[str, Any]:
    """The channel of time, in UTC on any machine, the same in every panel."""
    scale: dict[str, Any] = {"type": "utc", "nice": False, "padding": 14}
    if span[0] < span[1]:
        scale["domain"] = [_date(ms) for ms in span]
    long = span[1] - span[0]
    labels = "%d %b %y" if long > MOST_TICKS * DAY_MS else "%d %b %H:%M"
    axis = {
        "title": None, "values": [_date(ms) for ms in _ticks(span)], "grid": False,
        "labelOverlap": True, "format": "%b %Y" if long >= MONTHS_MS else labels,
    }  # fmt: skip
    return {"field": field, "type": "temporal", "scale": scale, "axis": axis}


def _ticks(span: tuple[int, int]) -> list[int]:
    """Moments for the axis, no two with one label: months, days, or minutes in short spans.

    >>> [ms / DAY_MS for ms in _ticks((0, 9 * DAY_MS))]
    [0.0, 3.0, 6.0, 9.0]
    >>> [ms / DAY_MS for ms in _ticks((0, 334 * DAY_MS))]  # January to December 1970
    [0.0, 90.0, 181.0, 273.0]
    """
    if span[1] - span[0] >= MONTHS_MS:
        months = _months(span)
        return months[:: math.ceil(len(months) / MOST_TICKS)]
    step = DAY_MS if span[1] - span[0] > MOST_TICKS * DAY_MS else 60_000
    each = (span[1] - span[0]) / (MOST_TICKS - 1)
    moments = [span[0] + round(k * each / step) * step for k in range(MOST_TICKS)]
    return [ms for ms in dict.fromkeys(moments) if ms <= span[1]]


def _months(span: tuple[int, int]) -> list[int]:
    """The first moments of the months of a span."""
    began = datetime.datetime.fromtimestamp(span[0] / 1000, datetime.UTC)
    first = 12 * began.year + began.month - 1
    starts = (
        datetime.datetime((first + k) // 12, (first + k) % 12 + 1, 1, tzinfo=datetime.UTC)
        for k in range((span[1] - span[0]) // (28 * DAY_MS) + 2)
    )
    moments = (round(start.timestamp() * 1000) for start in starts)
    return [ms for ms in moments if span[0] <= ms <= span[1]]


def _date(ms: int) -> dict[str, Any]:
    """A moment as Vega-Lite takes it in a domain, where a number is a year."""
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return {
        "utc": True, "year": at.year, "month": at.month, "date": at.day, "hours": at.hour,
        "minutes": at.minute, "seconds": at.second, "milliseconds": at.microsecond // 1000,
    }  # fmt: skip


def _domain(quantities: Sequence[Quantity], factor: float) -> tuple[float, float]:
    """An axis with 0 on it, all numbers, and intervals up to some times the largest number."""
    values = [factor * (quantity.value or 0.0) for quantity in quantities]
    reach = MOST * max([abs(value) for value in values] + [1e-6])
    ends = [
        factor * end
        for quantity in quantities
        for end in (quantity.low, quantity.high)
        if end is not None
    ]
    inside = [min(max(end, -reach), reach) for end in ends]
    low, high = min([0.0, *values, *inside]), max([0.0, *values, *inside])
    return float(f"{low:.3g}"), float(f"{high:.3g}") if high > low else low + 1.0


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _names(audits: Sequence[Audited]) -> list[str]:
    """Every variant, in the order in which the audits came to have them."""
    return list(dict.fromkeys(one.variant for audit in audits for one in audit.variants))


def _span(audits: Sequence[Audited]) -> tuple[int, int]:
    moments = [_ms(audit) for audit in audits]
    return min(moments), max(moments)


def _ms(audit: Audited) -> int:
    return int(audit.at.timestamp() * 1000)


def _last_verdicts(audits: Sequence[Audited]) -> str:
    ended = [audit for audit in audits if audit.variants]
    if not ended:
        return "No audit has finished."
    words = ", ".join(f"{isolated(one.variant)} {one.verdict}" for one in ended[-1].variants)
    return f"The newest, from {ended[-1].day}: {words}."
