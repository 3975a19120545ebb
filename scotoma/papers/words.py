"""How do the sentences below a table put numbers with their intervals?"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scotoma.audit import Audit, Quantity
from scotoma.audit.divergence import Divergence

__all__ = ["NOT_DENSE", "TIES", "divergence_sentence", "in_percent", "quantity_text", "under"]

NOT_DENSE = "dense is what the others are compared with"
TIES = "Ties in distance are broken at random: each figure is the mean over all ways to do it."


def quantity_text(
    quantity: Quantity, *, factor: float = 1.0, digits: int = 1, sign: str = "", unit: str = ""
) -> str:
    """Put a number with its interval and n, or the reason why it has none.

    >>> from scotoma.numbers import Estimate
    >>> quarter = Quantity.of(Estimate(0.25, 0.125, 0.5, 40, 1, 9.0, 3.0))
    >>> quantity_text(quarter, factor=100, unit="%")
    '25.0% [12.5, 50.0] (n 40)'
    """
    if quantity.value is None:
        return quantity.reason or "undefined"

    def text(value: float) -> str:
        return f"{round(factor * value, digits) + 0.0:{sign}.{digits}f}"

    shown = f"{text(quantity.value)}{unit}"
    if quantity.low is None or quantity.high is None:
        return f"{shown}, {quantity.reason or 'no interval'}"
    return f"{shown} [{text(quantity.low)}, {text(quantity.high)}] (n {quantity.n:,})"


def in_percent(value: float | None) -> float | None:
    """Put a fraction in per cent; None where there is none.

    >>> in_percent(0.25), in_percent(math.nan), in_percent(None)
    (25.0, None, None)
    """
    return None if value is None or math.isnan(value) else 100 * value


def under(outcomes: Mapping[str, str]) -> str:
    """Put what holds under each variant, those of one outcome together.

    >>> under({"prune-0.5": "none", "int8": "none", "prune-0.9": "2 classes"})
    'none under prune-0.5, int8; 2 classes under prune-0.9'
    """
    variants: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        variants.setdefault(outcome, []).append(name)
    return "; ".join(f"{outcome} under {', '.join(names)}" for outcome, names in variants.items())


def divergence_sentence(audit: Audit) -> str:
    """Say how much more a compressed model differs from a dense one than seeds alone explain."""
    shares = [f"{one.name} {_beyond_seeds(audit.divergence[one.name])}" for one in audit.compressed]
    return (
        "examples that a dense and a compressed model label differently, beyond those that two "
        f"dense models do: {'; '.join(shares)}."
    )


def _beyond_seeds(divergence: Divergence) -> str:
    if divergence.flips is not None:
        flips = quantity_text(divergence.flips, factor=100, unit="%")
        return f"{flips} that its own dense model labels otherwise"
    return quantity_text(divergence.cie.excess, factor=100, sign="+", unit=" points")
