"""What is reported of a group: a rate, its change, a gap between two groups."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.numbers import Estimate, Variance


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
