"""How do the sentences below a table put numbers with their intervals?"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scotoma.audit import Audit
from scotoma.audit.base import At
from scotoma.document import Unit, in_words, show
from scotoma.document.cells import Ranged

TIES = "Ties in distance are broken at random: each figure is the mean over all ways to do it."


def quantity_text(quantity: Ranged, unit: Unit) -> str:
    """Put a number with its interval and n, or the reason why it has none.

    >>> from scotoma.numbers import Estimate
    >>> quantity_text(Estimate(0.25, 0.125, 0.5, 40, 1, 9.0, 3.0), "rate")
    '25.00% [12.50, 50.00] (n 40)'
    """
    shown = show(quantity, unit)
    if not shown.value:
        return shown.reason
    rests = f" (n {show(quantity.n, 'count').value})" if shown.high else f", {shown.reason}"
    return in_words(quantity, unit) + rests


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
    shares = [f"{one.name} {_beyond_seeds(audit, one.name)}" for one in audit.compressed]
    return (
        "examples that a dense and a compressed model label differently, beyond those that two "
        f"dense models do: {'; '.join(shares)}."
    )


def _beyond_seeds(audit: Audit, variant: str) -> str:
    for row in audit.numbers("divergence", variant, what="flips"):
        return f"{quantity_text(row.number, 'rate')} that its own dense model labels otherwise"
    (excess,) = audit.numbers("divergence", variant, what="cie.excess")
    return quantity_text(excess.number, "points")


def subset_accuracy(audit: Audit, variant: str) -> dict[str, At]:
    """Accuracy of dense and compressed models on each subset of the examples."""
    ats = audit.at("divergence", variant, "top1.")
    return {str(at["dense"].fact("subset")): at for at in ats}
