"""What is reported of a group: a rate, its change, a gap between two groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from scotoma.errors import DataError
from scotoma.uncertainty import Estimate, Variance


@dataclass(frozen=True)
class GroupRate:
    """One rate of one group.

    Attributes:
        group: Name of the group.
        metric: `error`, `fpr` or `fnr`.
        class_id: The class against the rest; None for the error and for the positive class.
        rate: Mean over the members, a fraction.
    """

    group: str
    metric: str
    class_id: int | None
    rate: Estimate

    def as_dict(self) -> dict[str, Any]:
        """The rate for JSON, unrounded.

        >>> rate = Estimate.on_scale(0.1, 0.01, 9.0, n=500, members=10)
        >>> GroupRate("men", "error", None, rate).as_dict()["rate"]["value"]
        0.1
        """
        return as_dict(self)


@dataclass(frozen=True)
class GroupChange:
    """What compression does to one rate of one group.

    Attributes:
        group: Name of the group.
        metric: `error`, `fpr` or `fnr`.
        class_id: The class against the rest; None for the error and for the positive class.
        dense: The rate of the dense population, a fraction.
        compressed: The rate of the compressed population, a fraction.
        relative: 100 (compressed / dense - 1), in per cent; its interval is on the log scale.
        absolute: compressed - dense, a fraction.
        relative_variance: Variance of log(compressed / dense) and its parts.
        absolute_variance: Variance of the difference and its parts.
    """

    group: str
    metric: str
    class_id: int | None
    dense: Estimate
    compressed: Estimate
    relative: Estimate
    absolute: Estimate
    relative_variance: Variance
    absolute_variance: Variance

    @property
    def events(self) -> float:
        """Effective events of the change: the smaller of dense and compressed."""
        return self.absolute.events

    def harm_p(self, relative: float | None = None, absolute: float | None = None) -> float:
        """One-sided p-value that the rate rose beyond the limits: small says it did.

        With both limits, harm is a rise beyond the larger of them: both must be exceeded, so the
        larger of the two p-values counts.

        Args:
            relative: Limit on compressed / dense - 1, a fraction: 0.2 for +20%.
            absolute: Limit on compressed - dense, a fraction.

        Returns:
            Fraction in [0, 1]; nan where a limit's number has no interval.

        Raises:
            DataError: Neither limit is given.

        References:
            Berger (1982), Technometrics 24:295-300, intersection-union tests.
        """
        both = self._limits(relative, absolute)
        p = [estimate.p_above(limit) for estimate, limit in both]
        return math.nan if any(map(math.isnan, p)) else max(p)

    def noninferiority_p(
        self, relative: float | None = None, absolute: float | None = None
    ) -> float:
        """P-value that the rate did not rise beyond the limits: small says it did not.

        With both limits one of them held is enough, so the smaller p-value counts, twice.

        Args:
            relative: Limit on compressed / dense - 1, a fraction: 0.2 for +20%.
            absolute: Limit on compressed - dense, a fraction.

        Returns:
            Fraction in [0, 1]; nan where a limit's number has no interval.

        Raises:
            DataError: Neither limit is given.
        """
        both = self._limits(relative, absolute)
        p = [estimate.p_below(limit) for estimate, limit in both]
        return math.nan if any(map(math.isnan, p)) else min(1.0, len(p) * min(p))

    def _limits(
        self, relative: float | None, absolute: float | None
    ) -> list[tuple[Estimate, float]]:
        if relative is None and absolute is None:
            raise DataError(
                f"a limit on the {self.metric} of group '{self.group}' must be relative, absolute "
                "or both, got neither: set one of them"
            )
        both = [] if relative is None else [(self.relative, 100 * relative)]
        return both if absolute is None else [*both, (self.absolute, absolute)]

    def as_dict(self) -> dict[str, Any]:
        """The change for JSON, unrounded."""
        return as_dict(self)


@dataclass(frozen=True)
class GroupGap:
    """How much more one rate rose in group b than in group a.

    Attributes:
        group_a: Name of the group compared with.
        group_b: Name of the group in question.
        metric: `error`, `fpr` or `fnr`.
        rise_a: compressed - dense in group a, a fraction.
        rise_b: compressed - dense in group b, a fraction.
        gap: rise_b - rise_a, with the covariance of the two groups in its interval.
    """

    group_a: str
    group_b: str
    metric: str
    rise_a: Estimate
    rise_b: Estimate
    gap: Estimate

    def as_dict(self) -> dict[str, Any]:
        """The gap for JSON, unrounded."""
        return as_dict(self)


def as_dict(result: GroupRate | GroupChange | GroupGap) -> dict[str, Any]:
    """The fields by name, estimates and variances as mappings; nan is None.

    >>> rate = Estimate.on_scale(0.1, 0.01, 9.0, n=500, members=10)
    >>> list(as_dict(GroupRate("men", "error", None, rate)))
    ['group', 'metric', 'class_id', 'rate']
    """
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {
        name: value.as_dict() if isinstance(value, Estimate | Variance) else value
        for name, value in values.items()
    }
