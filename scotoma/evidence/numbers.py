"""How a number stands in a file: unrounded enough to compare, or in words with its interval."""

from __future__ import annotations

from typing import Literal

from scotoma.audit import Quantity
from scotoma.document import show


def six_digits(value: float | None) -> str:
    """Write a number with six significant digits, for formats that hold numbers as text.

    >>> six_digits(0.0961538461), six_digits(None)
    ('0.0961538', '')
    """
    return "" if value is None else f"{value:.6g}"


def interval_words(quantity: Quantity, unit: Literal["rate", "points"]) -> str:
    """Write a number with its interval, or why there is none.

    Args:
        quantity: A fraction, or a difference of fractions.
        unit: `rate` for per cent, `points` for percentage points.

    >>> from scotoma.numbers import Estimate, undefined
    >>> rise = Quantity.of(Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10))
    >>> interval_words(rise, "points")
    '+2.00 points [+0.87, +3.13]'
    >>> interval_words(Quantity.of(undefined("no positives", n=0, members=5)), "rate")
    'undefined (no positives)'
    """
    shown = show(quantity, unit)
    if not shown.value:
        return f"undefined ({shown.reason})"
    value = shown.value if unit == "rate" else f"{shown.value} points"
    return f"{value} [{shown.low}, {shown.high}]" if shown.low else value
