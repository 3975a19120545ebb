"""What does an audit know of a change? The rows of one address, as numbers to compute with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from scotoma.audit import Audit, Quantity
from scotoma.audit.base import At, by_address
from scotoma.numbers import Estimate, Variance


@dataclass(frozen=True)
class Rise:
    """What is known of a change: how far the compressed models rise above the dense ones.

    Attributes:
        absolute: compressed - dense; positive is harm.
        relative: compressed / dense - 1; None where nobody has it.
        dense: The number of the dense models; None where the change stands alone.
        compressed: That of the compressed ones.
        absolute_variance: Variance of `absolute`; None where its parts are not known.
        relative_variance: Variance of log(compressed / dense).
    """

    absolute: Estimate
    relative: Estimate | None = None
    dense: Estimate | None = None
    compressed: Estimate | None = None
    absolute_variance: Variance | None = None
    relative_variance: Variance | None = None

    @classmethod
    def of(cls, at: At) -> Rise:
        """Read the rows of an address that are called as its attributes."""
        read: dict[str, Any] = {}
        for name in ("absolute", "relative", "dense", "compressed"):
            if (row := at.get(name)) is None:
                continue
            read[name] = read_estimate(row.number)
            if row.spread is not None and name in ("absolute", "relative"):
                parts = {part: known(value) for part, value in row.spread}
                read[f"{name}_variance"] = Variance(**parts)
        return cls(**read)

    @property
    def events(self) -> float:
        """Effective events that harm rests on: those of the compressed population."""
        return (self.compressed or self.absolute).events

    def negated(self) -> Rise:
        """The same of a difference alone that is harm where it is negative."""
        return replace(self, absolute=self.absolute.negated())


class AuditRows:
    """The rows of one variant by address: each question is laid out once, when it is first asked.

    Attributes:
        audit: The audit.
        variant: Name of a compressed variant.
        sizes: Test examples of each group.
        names: What readers call each group.
    """

    def __init__(self, audit: Audit, variant: str) -> None:
        self.audit, self.variant = audit, variant
        self.sizes = {group.key: group.n for group in audit.groups}
        self.names = audit.group_names
        self._questions: dict[str, list[At]] = {}

    def at(self, question: str, what: str) -> list[At]:
        """List the addresses that have a number, in the order of the audit."""
        if question not in self._questions:
            rows = self.audit.numbers(question)
            self._questions[question] = by_address(
                row for row in rows if row.variant in (None, self.variant)
            )
        return [at for at in self._questions[question] if what in at]


def read_estimate(quantity: Quantity) -> Estimate:
    """Convert a number of the file to one to compute with: null is nan.

    >>> change = Estimate.on_scale(0.02, 0.005, float("inf"), n=500, members=10)
    >>> read_estimate(Quantity.of(change)) == change
    True
    """
    numbers: dict[str, Any] = {
        name: math.nan if value is None else value for name, value in quantity
    }
    return Estimate(events=numbers.pop("effective_events"), **numbers)


def known(value: float | None) -> float:
    """Read a number of the file: null is nan.

    >>> known(0.5), known(None)
    (0.5, nan)
    """
    return math.nan if value is None else value


def null_if_nan(value: float) -> float | None:
    """Convert a number to what the file holds: nan is null.

    >>> null_if_nan(0.5), null_if_nan(math.nan)
    (0.5, None)
    """
    return None if math.isnan(value) else value
