"""Where things lie in the small drawings beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scotoma.document.cells import Ranged

__all__ = ["HEIGHT", "WIDTH", "Mark", "Scale", "mark", "scale_of"]

WIDTH, HEIGHT = 160, 16  # of one drawing, in SVG units
MARGIN = 8  # room for half a symbol at both ends


@dataclass(frozen=True)
class Scale:
    """One axis for all drawings of a column, so that they can be compared; 0 is on it.

    Attributes:
        low: Number at the left end.
        high: Number at the right end, above `low`.
    """

    low: float
    high: float

    def at(self, value: float) -> float:
        """Place of a number in SVG units, held inside the drawing.

        >>> Scale(-1.0, 1.0).at(0.0), Scale(-1.0, 1.0).at(float("inf"))
        (80.0, 152.0)
        """
        inside = min(max(value, self.low), self.high)
        share = (inside - self.low) / (self.high - self.low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)


@dataclass(frozen=True)
class Mark:
    """An interval as drawn, places in SVG units.

    Attributes:
        zero: Place of 0.
        value: Place of the number.
        low: Left end of the interval; None where there is none.
        high: Right end of the interval; None where there is none.
        beyond: The interval lies wholly on one side of 0.
    """

    zero: float
    value: float
    low: float | None
    high: float | None
    beyond: bool


def scale_of(quantities: Iterable[Ranged]) -> Scale | None:
    """The axis that holds 0, all numbers and all finite ends; None where there is no number.

    >>> from scotoma.document.cells import Interval
    >>> scale_of([Interval(2.0, 1.0, 3.0), Interval(-1.0, None, None)])
    Scale(low=-1.0, high=3.0)
    """
    numbers = [
        number
        for quantity in quantities
        for number in (quantity.value, quantity.low, quantity.high)
        if number is not None
    ]
    if not numbers:
        return None
    finite = [0.0, *filter(math.isfinite, numbers)]
    low, high = min(finite), max(finite)
    return Scale(low, high if high > low else low + 0.01)


def mark(quantity: Ranged, scale: Scale | None) -> Mark | None:
    """What to draw of an estimate; None where it has no value.

    >>> from scotoma.document.cells import Interval
    >>> mark(Interval(1.0, 0.5, 1.5), Scale(0.0, 2.0))
    Mark(zero=8.0, value=80.0, low=44.0, high=116.0, beyond=True)
    """
    if scale is None or quantity.value is None:
        return None
    zero, value = scale.at(0.0), scale.at(quantity.value)
    if quantity.low is None or quantity.high is None:
        return Mark(zero, value, None, None, beyond=False)
    low, high = quantity.low, quantity.high
    return Mark(zero, value, scale.at(low), scale.at(high), beyond=low > 0 or high < 0)
