"""The words that the figures share: fields, colours, axes, intervals, shapes of verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from scotoma.document.cells import Ranged

__all__ = [
    "CONFIG",
    "FAMILY",
    "GROUND",
    "HALO",
    "INK",
    "MISSING",
    "PICKED",
    "QUIET",
    "SOFT",
    "SOLID",
    "arrows",
    "category",
    "clipped",
    "cross",
    "data",
    "ends",
    "fields",
    "numeric",
    "panels",
    "picker",
    "point",
    "points_by_verdict",
    "single",
    "strip",
    "upright",
    "whisker",
    "words",
]

Spec = dict[str, Any]

MISSING = "not estimable"  # stands beside a cross where a number would be, never 0
# Colours are names that the page's style sheet resolves: one drawing serves light, dark and print.
INK, QUIET, SOFT = "var(--figure-ink)", "var(--figure-quiet)", "var(--figure-soft)"
GROUND, LINE = "var(--figure-ground)", "var(--figure-line)"
FAMILY = tuple(f"var(--figure-{i})" for i in range(1, 7))
VERDICTS = {
    "PASS": ("circle", "var(--figure-pass)"),
    "UNSURE": ("diamond", "var(--figure-unsure)"),
    "FAIL": ("triangle-up", "var(--figure-fail)"),
    "not judged": ("square", "var(--figure-quiet)"),
}
PANEL_CUT = 14  # columns of text at which a name is cut in one of several drawings
SPACE = 24  # pixels between panels
HALO: Spec = {"stroke": GROUND, "strokeWidth": 5}  # below a name, which stays legible over marks
SOLID: Spec = {"filled": True, "opacity": 1, "size": 60, "color": INK}
NARROW = "narrow"  # a signal that the page's script sets
# Print and the drawing without scripts have no picker that would name the variant.
PICKED: Spec = {"text": {"expr": "variant"}, "fontWeight": "normal"}
STILL_WIDTH = 640  # pixels, of a drawing that nothing fits to its room
CONFIG: Spec = {
    # Metrically equal, so that text measured here fits there.
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": QUIET,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 12,
        "labelLimit": 0,
        "labelFlush": False,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "title": {"anchor": "start", "color": INK, "fontSize": 13, "fontWeight": 600, "offset": 8},
    "header": {
        "labelColor": INK,
        "labelFontSize": 13,
        "labelFontWeight": 600,
        "labelAnchor": "start",
        "labelLimit": 0,
        "title": None,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "title": None,
        "orient": "top",
        "symbolSize": 70,
        "symbolStrokeWidth": 2,
        "labelLimit": 0,
    },
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
}


def fields(count: int) -> tuple[str, ...]:
    """Names of so many fields.

    >>> fields(3)
    ('c0', 'c1', 'c2')
    """
    return tuple(f"c{i}" for i in range(count))


def data(rows: Iterable[Sequence[Any]]) -> Spec:
    """Rows as data of a specification.

    >>> data([("male", 0.5)])
    {'values': [{'c0': 'male', 'c1': 0.5}]}
    """
    return {"values": [dict(zip(fields(len(row)), row, strict=True)) for row in rows]}


def ends(quantity: Ranged, factor: float = 1.0) -> tuple[float | None, ...]:
    """Value, low and high end as numbers; None where there is none, or none that is finite.

    >>> from scotoma.document.cells import Interval
    >>> ends(Interval(0.02, 0.01, math.inf), 100.0)
    (2.0, 1.0, None)
    """
    three = (quantity.value, quantity.low, quantity.high)
    numbers = (None if x is None else factor * x for x in three)
    return tuple(None if x is None or not math.isfinite(x) else float(f"{x:.6g}") for x in numbers)


def clipped(
    quantity: Ranged, domain: tuple[float, float], factor: float = 1.0
) -> tuple[float | None, float | None, float | None, bool, bool]:
    """Value and ends held inside an axis, and whether the interval goes on to the left, the right.

    >>> from scotoma.document.cells import Interval
    >>> clipped(Interval(1.0, 0.5, math.inf), (0.0, 4.0))
    (1.0, 0.5, 4.0, False, True)
    """
    if quantity.value is None:
        return None, None, None, False, False
    left, right = domain
    value = min(max(factor * quantity.value, left), right)
    if quantity.low is None or quantity.high is None:
        return value, None, None, False, False
    low, high = factor * quantity.low, factor * quantity.high
    inside = (min(max(end, left), right) for end in (low, high))
    held_low, held_high = (float(f"{end:.6g}") for end in inside)
    return float(f"{value:.6g}"), held_low, held_high, low < left, high > right


def numeric(field: str, title: str | None, **more: Any) -> Spec:
    """A channel for numbers."""
    axis = {"title": title, "tickCount": 4} | more.pop("axis", {})
    return {"field": field, "type": "quantitative", "axis": axis} | more


def category(field: str, **more: Any) -> Spec:
    """A channel for names, in the order of the rows."""
    return {"field": field, "type": "nominal", "sort": None, "title": None} | more


def picker(options: Sequence[str], chosen: str, name: str = "variant") -> Spec:
    """A choice that the reader makes; the drawing without scripts shows `chosen`."""
    label = f"{name[0].upper()}{name[1:]}"
    return {
        "name": name,
        "value": chosen,
        "bind": {"input": "select", "options": list(options), "name": label},
    }


def points_by_verdict(verdict: str, value: str) -> Spec:
    """A layer of points whose shape and colour say the verdict; UNSURE is hollow."""
    names = list(VERDICTS)
    shapes, colours = zip(*VERDICTS.values(), strict=True)
    colour = category(verdict, scale={"domain": names, "range": colours}, legend=None)
    shape = category(verdict, scale={"domain": names, "range": shapes}, legend=None)
    unsure = {"test": f"datum.{verdict} === 'UNSURE'", "value": GROUND}
    return {
        "transform": [{"filter": f"isValid(datum.{value})"}],
        "mark": {"type": "point", "size": 80, "strokeWidth": 2, "opacity": 1},
        "encoding": {
            "x": {"field": value, "type": "quantitative"},
            "shape": shape,
            "stroke": colour,
            "fill": {"condition": unsure, **colour},
        },
    }


def whisker(low: str, high: str, title: str | None, **more: Any) -> Spec:
    """A layer of intervals; it has the axis."""
    return {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {"x": numeric(low, title, **more), "x2": {"field": high}},
    }


def arrows(low: str, high: str, goes_left: str, goes_right: str) -> list[Spec]:
    """Layers of arrowheads where an interval goes on beyond the axis."""
    return [
        {
            "transform": [{"filter": f"datum.{goes}"}],
            "mark": {"type": "point", "shape": f"triangle-{side}", **SOLID},
            "encoding": {"x": {"field": end, "type": "quantitative"}},
        }
        for side, end, goes in (("left", low, goes_left), ("right", high, goes_right))
    ]


def point(value: str, **more: Any) -> Spec:
    """A layer of filled points where there is a number."""
    return {
        "transform": [{"filter": f"isValid(datum.{value})"}],
        "mark": {"type": "point", **SOLID, **more},
        "encoding": {"x": {"field": value, "type": "quantitative"}},
    }


def strip(value: str, title: str, *, zero: bool) -> list[Spec]:
    """Layers of a tick for every row and a diamond at the mean; the axis begins at 0 or not."""
    tick = {"type": "tick", "opacity": 0.75, "thickness": 1.5, "size": 13, "color": FAMILY[0]}
    mean = {"type": "point", "shape": "diamond", "filled": True, "opacity": 1, "size": 60}
    return [
        {"mark": tick, "encoding": {"x": numeric(value, title, scale={"zero": zero})}},
        {
            "mark": mean | {"color": INK},
            "encoding": {"x": {"aggregate": "mean", "field": value, "type": "quantitative"}},
        },
    ]


def cross(value: str, at: float) -> Spec:
    """A layer of crosses where there is no number, at a place that means nothing."""
    return {
        "transform": [{"filter": f"!isValid(datum.{value})"}],
        "mark": {"type": "point", "shape": "cross", "angle": 45, **SOLID, "color": QUIET},
        "encoding": {"x": {"datum": at, "type": "quantitative"}},
    }


def upright(at: float, **more: Any) -> Spec:
    """A layer of one line from top to bottom, at a number."""
    return {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "color": QUIET, **more},
        "encoding": {"x": {"datum": at, "type": "quantitative"}, "y": None},
    }


def words(text: str, x: Spec, **more: Any) -> Spec:
    """A layer of words beside what is drawn; a narrow place leaves them to the table."""
    mark = {"type": "text", "align": "left", "dx": 4, "color": QUIET, **more}
    shown = {"condition": {"test": NARROW, "value": ""}, "field": text}
    return {"mark": mark, "encoding": {"x": x, "text": shown}}


def single(**parts: Any) -> Spec:
    """A specification of one drawing that is as wide as its place."""
    return {
        "background": None,
        "padding": 4,
        "config": CONFIG,
        "width": STILL_WIDTH,
        "autosize": {"type": "fit-x", "contains": "padding"},
        **parts,
        "params": [{"name": NARROW, "value": False}, *parts.get("params", ())],
    }


def panels(each: Sequence[Spec], width: int, columns: int, **parts: Any) -> Spec:
    """Drawings side by side, as many in a row as their place has room for.

    Args:
        each: The drawings.
        width: Of one with its labels, pixels.
        columns: How many stand in a row where nothing fits them to their room.
        parts: What else the specification has.
    """
    return {
        "background": None,
        "padding": 4,
        "config": CONFIG,
        "concat": list(each),
        "columns": columns,
        "spacing": SPACE,
        "usermeta": {"panel": width + SPACE, "cut": PANEL_CUT},
        **parts,
        "params": [{"name": NARROW, "value": False}, *parts.get("params", ())],
    }
