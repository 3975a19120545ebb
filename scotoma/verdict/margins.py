"""How small a rise can a test set rule out? Known from the dense models, before compression.

`numbers.enough` says what is a floor, what are events, and how many are too few.
"""

from __future__ import annotations

import math

from scotoma.numbers.enough import FEW


def sampling_margin(rate: float, n: int) -> float:
    """Compute two standard errors of a dense rate: what another test set moves it by anyway.

    A rise of this size is within what two test sets of this size differ by, so that nobody could
    tell it from luck; a finer margin would never be cleared.

    Args:
        rate: Rate of the dense models, a fraction; taken for at least 1/(n + 2), at most the rest.
        n: Examples at risk (or clusters), at least 1.

    Returns:
        A fraction.

    >>> round(sampling_margin(0.10, 900), 3), round(sampling_margin(0.0, 98), 3)
    (0.02, 0.02)
    """
    least = 1 / (n + 2)
    p = min(max(rate, least), 1 - least)
    return 2 * math.sqrt(p * (1 - p) / n)


def clearing_margin(rate: float, n: int, margin: float | None) -> float | None:
    """Choose the rise that a PASS has to rule out: the rule's margin, or the sampling margin.

    >>> clearing_margin(0.10, 900, 0.005), clearing_margin(math.nan, 0, 0.005)
    (0.02, 0.005)
    """
    if math.isnan(rate) or n == 0:
        return margin
    return max(margin or 0.0, sampling_margin(rate, n))


def why_too_small(rate: float, n: int, *, margin: float, coarsest: float) -> str:
    """Say why a rate of so few examples cannot be judged; empty where it can.

    Args:
        rate: Rate of the dense models, a fraction; nan where another reason leaves it undefined.
        n: Examples at risk (or clusters).
        margin: Largest rise that the rule accepts, a fraction.
        coarsest: Coarsest margin that a PASS may rest on, a fraction.

    Returns:
        A sentence to print. Too small is what expects fewer than 10 errors and could not be cleared
        even if no prediction changed, and what would need a margin above `coarsest`.

    >>> why_too_small(0.1, 4, margin=0.01, coarsest=0.1)
    'too small to judge: 4 examples allow no margin below 49 points'
    >>> why_too_small(0.1, 2_000, margin=0.01, coarsest=0.1)
    ''
    """
    if n == 0:
        return "too small to judge: no examples"
    if math.isnan(rate):
        return ""
    own = sampling_margin(rate, n)
    unchanged = 3.92 / (n + 4)  # half of the interval where no prediction changes
    least = unchanged if n * rate < FEW and unchanged > max(margin, own) else own
    if least <= margin or (least == own and own <= coarsest):
        return ""
    examples = "example" if n == 1 else "examples"
    return f"too small to judge: {n:,} {examples} allow no margin below {100 * least:.2g} points"
