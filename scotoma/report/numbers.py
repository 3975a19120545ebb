"""How the old page writes numbers: `document.cells` by the names that its templates use."""

from __future__ import annotations

from functools import partial

from scotoma.document.cells import MINUS as MINUS
from scotoma.document.cells import Interval as Interval
from scotoma.document.cells import Ranged as Ranged
from scotoma.document.cells import Shown as Shown
from scotoma.document.cells import complement, show, size

__all__ = [
    "axis_end",
    "complement",
    "count",
    "p_value",
    "percent",
    "points",
    "rate",
    "scaled",
    "score_change",
    "score_text",
    "share",
    "size",
    "unitless",
    "unitless_change",
]

rate = partial(show, unit="rate")
points = partial(show, unit="points")
percent = partial(show, unit="percent")
unitless = partial(show, unit="number")
unitless_change = partial(show, unit="change")
score_text = partial(show, unit="score")
score_change = partial(show, unit="score_change")


def axis_end(value: float, factor: float) -> str:
    """An end of an axis, with its sign."""
    return show(Interval(factor * value / 100), "points").value


def share(fraction: float | None, reason: str = "") -> str:
    """A share that describes these data and is no estimate: it has no interval."""
    return f"undefined ({reason})" if fraction is None else f"{100.0 * fraction:,.2f}%"


def count(number: float) -> str:
    """A whole number with thousands separators, others with the digits they need."""
    return show(number, "count").value


def p_value(p: float) -> str:
    """A p-value to three decimals; nan was not tested."""
    return show(p, "p").value


def scaled(quantity: Ranged, factor: float) -> Interval:
    """Multiply a quantity."""
    value, low, high = (
        None if end is None else factor * end
        for end in (quantity.value, quantity.low, quantity.high)
    )
    return Interval(value, low, high, quantity.n, quantity.reason, quantity.note)
