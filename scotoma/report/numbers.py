"""How a number looks: digits, units, its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scotoma.uncertainty import FEW_EVENTS
from scotoma.uncertainty.rates import FEW

__all__ = [
    "Shown",
    "class_change",
    "count",
    "end",
    "from_class",
    "magnitude",
    "mirrored",
    "p_value",
    "percent",
    "plain",
    "plain_change",
    "points",
    "rate",
    "share",
    "size",
]

Estimate = Mapping[str, Any]  # as `Estimate.as_dict` leaves it in audit.json

MINUS = "\N{MINUS SIGN}"


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


def rate(estimate: Estimate) -> Shown:
    """A fraction in per cent.

    >>> found = rate({"value": 0.0166, "low": 0.004, "high": 0.068, "reason": "", "note": ""})
    >>> found.value, found.low, found.high
    ('1.66%', '0.40', '6.80')
    """
    return _shown(estimate, factor=100.0, sign="", unit="%", least=2)


def points(estimate: Estimate) -> Shown:
    """A difference of fractions in percentage points, with its sign.

    >>> points({"value": 0.0413, "low": -0.003, "high": 0.05, "reason": "", "note": ""}).value
    '+4.13'
    """
    return _shown(estimate, factor=100.0, sign="+", unit="", least=2)


def percent(estimate: Estimate) -> Shown:
    """A relative change, which is in per cent already.

    >>> percent({"value": 1284.4, "low": 9.0, "high": "inf", "reason": "", "note": ""}).high
    '+∞'
    """
    return _shown(estimate, factor=1.0, sign="+", unit="%", least=1)


def plain(estimate: Estimate) -> Shown:
    """A number without a unit.

    >>> plain({"value": 0.8124, "low": None, "high": 0.9, "reason": "", "note": ""}).value
    '0.812'
    """
    return _shown(estimate, factor=1.0, sign="", unit="", least=3)


def plain_change(estimate: Estimate) -> Shown:
    """A difference of numbers without a unit, with its sign.

    >>> plain_change({"value": 0.1, "low": 0.0, "high": 0.2, "reason": "", "note": ""}).value
    '+0.100'
    """
    return _shown(estimate, factor=1.0, sign="+", unit="", least=3)


def size(count_of_bytes: float) -> str:
    """A size of a file.

    >>> size(812), size(48_300), size(2_400_000)
    ('812 B', '48.3 kB', '2.4 MB')
    """
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count_of_bytes >= scale:
            return f"{count_of_bytes / scale:,.1f} {unit}"
    return f"{count_of_bytes:,.0f} B"


def magnitude(estimate: Estimate) -> str:
    """A difference of fractions in percentage points without its sign, for a sentence.

    >>> magnitude({"value": -0.0413, "low": None, "high": None, "reason": "", "note": ""})
    '4.13'
    """
    return points(estimate).value.lstrip("+" + MINUS)


def class_change(estimate: Estimate) -> Shown:
    """A difference that is in percentage points already.

    >>> class_change({"value": -4.05, "low": -7.13, "high": -0.97, "reason": "", "note": ""}).low
    '−7.13'
    """
    return _shown(estimate, factor=1.0, sign="+", unit="", least=2)


def end(value: float, factor: float) -> str:
    """An end of an axis, with its sign.

    >>> end(0.0471, 100.0), end(0.0, 100.0)
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
    """A p-value to three decimals.

    >>> p_value(0.0391), p_value(0.00002)
    ('0.039', '<0.001')
    """
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def from_class(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A row of the classes table as an estimate; `key` is `normalised` or `absolute`.

    Only the normalised difference has its interval there.

    >>> row = {"absolute": 0.5, "n": 83, "reason": "", "events": 3.0}
    >>> from_class(row, "absolute")["reason"]
    'no interval was computed'
    """
    own = key == "normalised"
    return {
        "value": row[key],
        "low": row["low"] if own else None,
        "high": row["high"] if own else None,
        "n": row["n"],
        "reason": row["reason"] if own or row["reason"] else "no interval was computed",
        "note": FEW_EVENTS if row["events"] is not None and row["events"] < FEW else "",
    }


def mirrored(estimate: Estimate, whole: float = 0.0) -> dict[str, Any]:
    """The estimate of `whole` minus the quantity: a recall from a rate of misses.

    >>> mirrored({"value": 0.25, "low": 0.0, "high": None, "n": 9}, 1.0)
    {'value': 0.75, 'low': None, 'high': 1.0, 'n': 9}
    """

    def turned(value: float | str | None) -> float | None:
        return None if value is None else whole - float(value)

    ends = {"low": turned(estimate["high"]), "high": turned(estimate["low"])}
    return {**estimate, "value": turned(estimate["value"]), **ends}


def _shown(estimate: Estimate, *, factor: float, sign: str, unit: str, least: int) -> Shown:
    value, low, high = (_number(estimate[key], factor) for key in ("value", "low", "high"))
    reason = estimate["reason"]
    notes = tuple(part for part in estimate["note"].split("; ") if part)
    if value is None:
        return Shown("", "", "", reason or "undefined (no reason was recorded)", ())
    digits = _digits([end for end in (value, low, high) if end is not None], least)
    if low is None or high is None:
        return Shown(_text(value, digits, sign) + unit, "", "", reason or "no interval", notes)
    shown, *ends = (_text(number, digits, sign) for number in (value, low, high))
    return Shown(shown + unit, ends[0], ends[1], reason, notes)


def _number(value: float | str | None, factor: float) -> float | None:
    return None if value is None else factor * float(value)  # infinite numbers come by name


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
