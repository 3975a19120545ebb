"""How sure is a mean, whenever one looks? Bets on bounded values, whose wealth is evidence.

Who bets that a mean lies above m, at odds that are fair if it is m, does not grow rich unless it
does: the chance that the wealth ever reaches 1/alpha is at most alpha, however often one looks and
for whatever reason one stops (Ville). Nothing is assumed of the values but their range, and that
they come in random order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.estimate import check_level
from scotoma.numbers.inputs import Floats, floats

# Shares of the largest bet that cannot lose all. Spread evenly they decided before grids of a
# constant ratio, before bets that follow the variance seen, and before a normal mixture.
BETS = np.array([0.003, 0.01, *(np.arange(20) + 0.5) / 20])
HALVINGS = 50  # of the range in which the end of an interval is looked for


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """Values of a bounded variable, in random order; the order itself is not kept.

    Attributes:
        values: Distinct values, shape (U,).
        counts: How often each was seen, shape (U,).
        lowest: Smallest value that is possible.
        highest: Largest value that is possible.
    """

    values: Floats
    counts: Floats
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: npt.ArrayLike, lowest: float, highest: float) -> BoundedSample:
        """Count values.

        Args:
            values: Finite numbers, shape (n,).
            lowest: Smallest value that is possible.
            highest: Largest value that is possible.

        Raises:
            DataError: A value outside these.
        """
        sample = floats(values, "values")
        # Values that rounding alone tells apart are one value.
        own, counts = np.unique(np.round(sample, 12), return_counts=True)
        if own.size and not (own[0] >= lowest and own[-1] <= highest):
            raise DataError(
                f"values must lie from {lowest:g} to {highest:g}, got {own[0]:g} to {own[-1]:g}"
            )
        return cls(own, counts.astype(np.float64), lowest, highest)

    @property
    def mean(self) -> float:
        """Their mean; nan of none."""
        n = self.counts.sum()
        return float(self.values @ self.counts / n) if n else math.nan

    def times(self, factor: float) -> BoundedSample:
        """What would be seen of `factor` times as many, if shares stay as they are."""
        return BoundedSample(self.values, self.counts * factor, self.lowest, self.highest)

    def above(self, mean: float) -> float:
        """Evidence that the true mean lies above a number: the logarithm of an e-value.

        The mean over several bets of their wealth. It never grows with `mean`.

        Args:
            mean: The number; the evidence is against every true mean up to it.

        References:
            Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting,
            JRSS B 86:1-27, whose capital process this is for constant bets; Cover (1991) and Ryu
            and Bhatt (2022), arXiv 2207.12382, for mixing them.

        >>> flips = BoundedSample.of([0] * 90 + [1] * 10, -1, 1)
        >>> round(flips.above(0.0), 2), round(flips.above(0.1), 2)
        (5.13, -0.59)
        """
        if mean <= self.lowest:
            certain = mean < self.lowest or self.values[self.counts > 0].max(initial=mean) > mean
            return math.inf if certain else 0.0
        returned = (self.values - self.lowest) / (mean - self.lowest)
        wealth = np.log1p(BETS[:, None] * (returned - 1)) @ self.counts
        return float(np.logaddexp.reduce(wealth)) - math.log(len(BETS))

    def below(self, mean: float) -> float:
        """Evidence that the true mean lies below a number; see `above`."""
        return self._turned().above(-mean)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Means that the evidence leaves, at any time and at all times together.

        Args:
            level: Chance that the true mean is never left out, a fraction in (0, 1).

        >>> low, high = BoundedSample.of([0] * 90 + [1] * 10, -1, 1).interval()
        >>> round(low, 3), round(high, 3)
        (0.018, 0.218)
        """
        check_level(level)
        least = math.log(2 / (1 - level))
        return self._low(least), -self._turned()._low(least)

    def _turned(self) -> BoundedSample:
        return BoundedSample(-self.values, self.counts, -self.highest, -self.lowest)

    def _low(self, least: float) -> float:
        low, high = self.lowest, self.mean
        if math.isnan(high):
            return low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.above(middle) >= least else (low, middle)
        return low


def e_holm(log_e: npt.ArrayLike) -> Floats:
    """E-values adjusted so that the chance of any false alarm in the family stays bounded.

    Means of e-values are e-values, so that a closed test takes the mean over each subset of the
    family; the smallest mean that holds an e-value is what is left of it. Evidence that grows with
    time stays valid at any stopping time, as does the mean: the chance that an adjusted one whose
    hypothesis is true ever reaches 1/alpha is at most alpha, whatever their dependence.

    Args:
        log_e: Logarithms of e-values, shape (M,).

    Returns:
        Logarithms of the adjusted ones, in the same order.

    References:
        Vovk and Wang (2021), E-values: calibration, combination and applications, Annals of
        Statistics 49:1736-1754, algorithm 1.

    >>> np.exp(e_holm(np.log([100.0, 1.0, 1.0]))).round(2).tolist()
    [34.0, 1.0, 1.0]
    """
    values = np.asarray(log_e, np.float64)
    smaller = np.logaddexp.accumulate(np.concatenate([[-math.inf], np.sort(values)]))
    means = np.logaddexp(values[:, None], smaller[:-1]) - np.log(np.arange(len(values)) + 1)
    # Where an e-value would count twice, as one of the smaller too, a mean above is smaller.
    return np.asarray(means.min(axis=1), np.float64) if len(values) else values
