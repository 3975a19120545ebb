"""Numbers and estimates as text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from scotoma.numbers import Estimate

__all__ = ["aside", "number", "shown"]

PLAIN = 1e6  # larger numbers with significant digits are written with an exponent


def number(value: float, digits: int = 3, sign: str = "", *, significant: bool = False) -> str:
    """A number with `digits` decimals, fewer from 10 upwards, or with `digits` significant ones.

    >>> number(0.14159), number(1234.5), number(-0.5, 1, "+"), number(math.inf)
    ('0.142', '1,234', '-0.5', 'inf')
    >>> number(0.00014159, significant=True), number(31415.9, significant=True)
    ('0.000142', '31,400')
    """
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else str(value)
    if significant:
        rounded = float(f"{value:.{digits}g}")
        plain = 10**digits <= abs(rounded) < PLAIN
        return f"{rounded:{sign},.0f}" if plain else f"{value:{sign}.{digits}g}"
    kept = max(0, min(digits, digits + 1 - len(str(int(abs(value))))))
    return f"{value:{sign},.{kept}f}"


def shown(
    estimate: Estimate,
    *,
    factor: float = 1.0,
    digits: int = 3,
    sign: str = "",
    significant: bool = False,
) -> str:
    """An estimate and its interval; `undefined` where there is none, the reason stands beside.

    >>> shown(Estimate(0.25, 0.125, 0.5, 40, 1, 9.0, 3.0), factor=100, digits=2)
    '25.0 [12.5, 50.0]'
    """

    def text(value: float) -> str:
        return number(factor * value, digits, sign, significant=significant)

    if math.isnan(estimate.value):
        return "undefined"
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return text(estimate.value)
    if estimate.note.startswith("upper bound only"):
        return f"{text(estimate.value)}, at most {text(estimate.high)}"
    return f"{text(estimate.value)} [{text(estimate.low)}, {text(estimate.high)}]"


def aside(estimates: Iterable[Estimate], *hidden: str) -> str:
    """Reasons and notes of estimates in a row, each once, without what is `hidden`."""
    parts = {
        part: None
        for estimate in estimates
        for text in (estimate.reason, estimate.note)
        for part in text.split("; ")
        if part and not part.startswith(hidden)
    }
    return "; ".join(parts)
