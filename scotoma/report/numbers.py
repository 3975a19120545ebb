"""How a number looks: digits, units, its interval, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "Interval",
    "Ranged",
    "Shown",
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

MINUS = "\N{MINUS SIGN}"


class Ranged(Protocol):
    """A number with its interval, as a `Quantity` of the audit has them, or an `Interval`."""

    @property
    def value(self) -> float | None:
        """The number; None where it is undefined."""

    @property
    def low(self) -> float | None:
        """Lower end of the interval; None where there is none."""

    @property
    def high(self) -> float | None:
        """Upper end of the interval; None where there is none."""

    @property
    def n(self) -> int:
        """What it rests on."""

    @property
    def reason(self) -> str:
        """Why the number or its interval is missing; else empty."""

    @property
    def note(self) -> str:
        """What to say beside it."""


@dataclass(frozen=True)
class Interval:
    """A number that the page works out from the audit's.

    Attributes:
        value: The number; None where it is undefined.
        low: Lower end of the interval; None where there is none.
        high: Upper end of the interval; None where there is none.
        n: What it rests on.
        reason: Why the number or its interval is missing; else empty.
        note: What to say beside it.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int = 0
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A number as text: the only form in which a template sees an estimate.

    Attributes:
        value: The number with its unit; empty where there is none.
        low: Lower end of the interval; empty where there is none.
        high: Upper end of the interval; empty where there is none.
        reason: Why the number or its interval is missing; empty otherwise.
        notes: What to say beside it; empty where there is no number.
    """

    value: str
    low: str
    high: str
    reason: str
    notes: tuple[str, ...]


def rate(quantity: Ranged) -> Shown:
    """A fraction in per cent.

    >>> shown = rate(Interval(0.0166, 0.004, 0.068))
    >>> shown.value, shown.low, shown.high
    ('1.66%', '0.40', '6.80')
    """
    return _shown(quantity, factor=100.0, sign="", unit="%", least=2)


def points(quantity: Ranged) -> Shown:
    """A difference of fractions in percentage points, with its sign.

    >>> points(Interval(0.0413, -0.003, 0.05)).value
    '+4.13'
    """
    return _shown(quantity, factor=100.0, sign="+", unit="", least=2)


def percent(quantity: Ranged) -> Shown:
    """A relative change, which is in per cent already.

    >>> percent(Interval(1284.4, 9.0, math.inf)).high
    '+∞'
    """
    return _shown(quantity, factor=1.0, sign="+", unit="%", least=1)


def unitless(quantity: Ranged) -> Shown:
    """A number without a unit.

    >>> unitless(Interval(0.8124, None, 0.9)).value
    '0.812'
    """
    return _shown(quantity, factor=1.0, sign="", unit="", least=3)


def unitless_change(quantity: Ranged) -> Shown:
    """A difference of numbers without a unit, with its sign.

    >>> unitless_change(Interval(0.1, 0.0, 0.2)).value
    '+0.100'
    """
    return _shown(quantity, factor=1.0, sign="+", unit="", least=3)


def score_text(quantity: Ranged) -> Shown:
    """A score in its own unit, to four significant digits of the largest number shown.

    >>> shown = score_text(Interval(1234.5, 1100.25, 1300.0))
    >>> shown.value, score_text(Interval(0.01234, None, None)).value
    ('1,234', '0.01234')
    """
    return _significant(quantity, "")


def score_change(quantity: Ranged) -> Shown:
    """A difference of scores in their own unit, with its sign.

    >>> score_change(Interval(0.5, -0.25, 1.25)).low
    '−0.250'
    """
    return _significant(quantity, "+")


def size(count_of_bytes: float) -> str:
    """A size of a file.

    >>> size(812), size(48_300), size(2_400_000)
    ('812 B', '48.3 kB', '2.4 MB')
    """
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count_of_bytes >= scale:
            return f"{count_of_bytes / scale:,.1f} {unit}"
    return f"{count_of_bytes:,.0f} B"


def axis_end(value: float, factor: float) -> str:
    """An end of an axis, with its sign.

    >>> axis_end(0.0471, 100.0), axis_end(0.0, 100.0)
    ('+4.71', '0.00')
    """
    return _text(factor * value, 2, "+")


def share(fraction: float | None, reason: str = "") -> str:
    """A share that describes these data and is no estimate: it has no interval.

    >>> share(0.5), share(None, "no CIE")
    ('50.00%', 'undefined (no CIE)')
    """
    return f"undefined ({reason})" if fraction is None else _text(100.0 * fraction, 2, "") + "%"


def count(number: float) -> str:
    """A whole number with thousands separators, others with the digits they need.

    >>> count(1798), count(4.0), count(2.5)
    ('1,798', '4', '2.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}".rstrip("0")


def p_value(p: float) -> str:
    """A p-value to three decimals; nan was not tested.

    >>> p_value(0.0391), p_value(0.00002), p_value(math.nan)
    ('0.039', '<0.001', 'not tested')
    """
    if math.isnan(p):
        return "not tested"
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def complement(quantity: Ranged, whole: float = 0.0) -> Interval:
    """Turn a quantity into `whole` minus it: a recall from a rate of misses.

    >>> complement(Interval(0.25, 0.0, None, 9), 1.0)
    Interval(value=0.75, low=None, high=1.0, n=9, reason='', note='')
    """
    value, low, high = (
        None if end is None else whole - end
        for end in (quantity.value, quantity.low, quantity.high)
    )
    return Interval(value, high, low, quantity.n, quantity.reason, quantity.note)


def scaled(quantity: Ranged, factor: float) -> Interval:
    """Multiply a quantity.

    >>> scaled(Interval(0.25, None, 0.5, 9), 100.0).high
    50.0
    """
    value, low, high = (
        None if end is None else factor * end
        for end in (quantity.value, quantity.low, quantity.high)
    )
    return Interval(value, low, high, quantity.n, quantity.reason, quantity.note)


def _shown(quantity: Ranged, *, factor: float, sign: str, unit: str, least: int) -> Shown:
    whole = scaled(quantity, factor)
    value, low, high, reason = whole.value, whole.low, whole.high, whole.reason
    notes = tuple(part for part in whole.note.split("; ") if part)
    if value is None:
        return Shown("", "", "", reason or "undefined (no reason was recorded)", ())
    digits = _digits([end for end in (value, low, high) if end is not None], least)
    if low is None or high is None:
        return Shown(_text(value, digits, sign) + unit, "", "", reason or "no interval", notes)
    shown, *ends = (_text(number, digits, sign) for number in (value, low, high))
    return Shown(shown + unit, ends[0], ends[1], reason, notes)


def _significant(quantity: Ranged, sign: str) -> Shown:
    known = [abs(end) for end in (quantity.value, quantity.low, quantity.high) if end is not None]
    largest = max((end for end in known if 0 < end < math.inf), default=1.0)
    digits = min(max(3 - math.floor(math.log10(largest)), 0), 8)
    if quantity.value is None:
        return _shown(quantity, factor=1.0, sign=sign, unit="", least=2)
    notes = tuple(part for part in quantity.note.split("; ") if part)
    value = _text(quantity.value, digits, sign)
    if quantity.low is None or quantity.high is None:
        return Shown(value, "", "", quantity.reason or "no interval", notes)
    low, high = (_text(end, digits, sign) for end in (quantity.low, quantity.high))
    return Shown(value, low, high, quantity.reason, notes)


def _digits(values: list[float], least: int) -> int:
    """More decimals where the number and its interval are small, so that two digits can be seen."""
    size = max(map(abs, values))
    if size == 0 or size >= 0.05:
        return least
    return least + 1 if size >= 0.005 else least + 2


def _text(value: float, digits: int, sign: str) -> str:
    if math.isinf(value):
        return ("+" if value > 0 else MINUS) + "∞"
    if value == 0:
        return f"{0.0:.{digits}f}"
    # The sign of what rounds to zero stays: it says on which side of zero an interval ends.
    return f"{value:{sign},.{digits}f}".replace("-", MINUS)
