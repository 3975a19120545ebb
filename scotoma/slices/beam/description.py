"""How large are the slices of a search on Beam, and what is the metric inside and outside them?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.inputs import Flags, Floats
from scotoma.numbers import (
    Estimate,
    RateEvidence,
    Variance,
    Words,
    combine,
    of_variance,
    undefined,
)
from scotoma.numbers.influences import member_variance
from scotoma.slices.beam.judge import SumsTest
from scotoma.slices.beam.part import PartRows, Query, Sums
from scotoma.slices.evidence.outcomes import SliceMetric
from scotoma.slices.evidence.tally import tally_lanes
from scotoma.slices.search.findings import Key, SliceFinding
from scotoma.slices.search.greedy import rows_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.view import NOTHING

SIZES, SUMS = 0, 1  # numbers of the sums that a part yields
ROUNDING = 16 * np.finfo(np.float64).eps  # of a sum of squares: what is smaller is 0
POWERS = 5  # lanes before those of the members


@dataclass(frozen=True, eq=False)
class Describe:
    """Adds up over one part of a table what describes some slices.

    Attributes:
        query: The search.
        slices: The slices to describe.
        mean: What outcomes are centred on: 0 for rates, whose sums are then exact.
    """

    query: Query
    slices: tuple[SliceFinding, ...]
    mean: float

    def __call__(self, table: pl.DataFrame) -> Iterator[tuple[int, Sums]]:
        """Add up one part.

        Args:
            table: Some of the rows, with the columns asked for.

        Yields:
            0: examples of the table, then of each slice, and those of them that count. 1: for each
            slice what its test sums and `population_lanes`, cell 3i inside, 3i + 1 outside; in the
            last cell those of all rows.
        """
        encoded, last = self.query.encode(table), 3 * len(self.slices)
        part = PartRows.of(table, self.query)
        each = [int(rows_of(encoded, one.key).sum()) for one in self.slices]
        counted = [0] * (1 + len(each))
        if part is not None:
            counted = [part.rows]
            keys = np.full((1 + len(each), part.rows), last, np.int32)
            for place, one in enumerate(self.slices):
                inside = rows_of(part.encoded, one.key)
                counted.append(int(inside.sum()))
                measured = self.query.in_half(part.ids, one.half)
                for key in one.earlier:
                    measured = measured & ~rows_of(part.encoded, key)
                keys[place] = 3 * place + np.where(measured, ~inside, 2)
            own = tally_lanes(keys, last + 1, population_lanes(part.outcome.model.above, self.mean))
            yield (
                SUMS,
                Sums(np.arange(last + 1), np.concatenate([part.sums(keys, last + 1), own], axis=1)),
            )
        sizes = np.array([[table.height, *each], counted], np.float64).T
        yield SIZES, Sums(np.arange(len(sizes)), sizes)


def population_lanes(outcome: Floats, mean: float) -> Floats:
    """Compute what is summed over rows to estimate the mean of a population.

    Args:
        outcome: Shape (N, K).
        mean: What it is centred on.

    Returns:
        Four powers of the sum over members, the scatter within rows, the members.
    """
    own = outcome - mean
    x = own.sum(1)
    scatter = ((own - own.mean(1, keepdims=True)) ** 2).sum(1)
    return np.concatenate([np.stack([x, x**2, x**3, x**4, scatter], axis=1), own], axis=1)


def population_mean(
    sums: Floats, n: int, mean: float, metric: SliceMetric, level: float
) -> Estimate:
    """Estimate the metric of some rows from the sums of their `population_lanes`.

    Args:
        sums: Shape (W,).
        n: Number of the rows.
        mean: What they are centred on.
        metric: A rate or a mean.
        level: Coverage, a fraction in (0, 1).

    >>> from scotoma.slices.evidence.outcomes import SLICE_METRICS
    >>> lanes = population_lanes(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), 0.0)
    >>> shown = population_mean(lanes.sum(0), 4, 0.0, SLICE_METRICS["error"], 0.95)
    >>> shown.value, shown.n, shown.members
    (0.375, 4, 2)
    """
    members = sums[POWERS:]
    k = members.size
    value = float(sums[0] / (n * k) + mean) if n else np.nan
    variance = _variance(sums, n, k)
    if metric.kind != "rate":
        return of_variance(value, variance, n=n, members=k, level=level)
    effective_events = sums[0] ** 2 / sums[1] if sums[1] > 0 else 0.0
    count = np.asarray(n, np.int64)
    rate = RateEvidence(count, count, k, np.asarray(value), np.asarray(effective_events), variance)
    return rate.estimate((), Words("event", NOTHING[metric.risk], "the slice"), level=level)


def _variance(sums: Floats, n: int, k: int) -> Variance:
    """Compute `scotoma.numbers.crossed_variance` from sums."""
    if n < 2:
        unknown = np.asarray(np.nan)
        return combine(unknown, unknown, n, [(np.zeros(()), np.zeros(()), k)])
    first, second, third, fourth = sums[:4] / n
    spread = _nonzero(second - first**2, second)
    moment = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
    excess = max(moment / spread**2 - 1, 0.0) if spread else 0.0
    rates = sums[POWERS:] / n
    parts = (np.zeros(()), np.zeros(()), k)
    if k > 1:
        sse = _nonzero(sums[4] - n * ((rates - rates.mean()) ** 2).sum(), sums[4])
        parts = (member_variance(rates), np.asarray(sse / ((n - 1) * (k - 1) * n * k)), k)
    return combine(np.asarray(spread / k**2 / (n - 1)), np.asarray(excess), n, [parts])


def _nonzero(difference: float, of: float) -> float:
    return float(difference) if difference > ROUNDING * of else 0.0


@dataclass(frozen=True, eq=False)
class SumsView:
    """Describes the slices of a search on Beam from the sums of `Describe`.

    Attributes:
        encoded: The predicates, without rows.
        metric: The metric.
        test: The test of a slice.
        compared: Whether there is a baseline.
        members: Members of the model at hand.
        level: Coverage of the intervals.
        mean: The value that outcomes are centred on.
        slices: The slices.
        sums: What `Describe` adds up to over the table.
    """

    encoded: Encoded
    metric: SliceMetric
    test: SumsTest
    compared: bool
    members: int
    level: float
    mean: float
    slices: tuple[SliceFinding, ...]
    sums: dict[int, Sums]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.sums[SIZES].lanes[0, 0])

    @property
    def ids(self) -> npt.NDArray[np.generic]:
        """Refuse: the rows stay in the table."""
        raise _not_gathered()

    def mask(self, key: Key) -> Flags:
        """Refuse: the rows stay in the table."""
        raise _not_gathered()

    def size(self, key: Key) -> int:
        """Count the examples in a slice."""
        return int(self.sums[SIZES].lanes[1 + self._place(key), 0])

    def at_risk(self, key: Key) -> int:
        """Count the examples in a slice that count for the metric."""
        return int(self.sums[SIZES].lanes[1 + self._place(key), 1])

    def inside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric inside a slice, on the examples of its test."""
        return self._mean(self._cell(3 * self._place(finding.key)))

    def outside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric outside a slice, on the same examples."""
        return self._mean(self._cell(3 * self._place(finding.key) + 1))

    def effect(self, finding: SliceFinding) -> Estimate:
        """Estimate the difference from what a slice is compared with, on the same examples."""
        cell = 3 * self._place(finding.key)
        inside = self._cell(cell)
        return self._difference(inside, inside + self._cell(cell + 1))

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        return self._mean(self._cell(3 * len(self.slices)))

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        every = self._cell(3 * len(self.slices))
        if not self.compared:
            n, members = int(every[0]), self.test.members
            return undefined("undefined (no baseline)", n=n, members=members, level=self.level)
        return self._difference(every, every)

    def _place(self, key: Key) -> int:
        return [one.key for one in self.slices].index(key)

    def _cell(self, cell: int) -> Floats:
        return np.asarray(self.sums[SUMS].lanes[cell])

    def _mean(self, sums: Floats) -> Estimate:
        own = sums[-self._width :]
        return population_mean(own, int(sums[0]), self.mean, self.metric, self.level)

    def _difference(self, inside: Floats, whole: Floats) -> Estimate:
        first = np.zeros(1, np.int64)
        one, every = (Sums(first, sums[None, : -self._width]) for sums in (inside, whole))
        return replace(self.test, min_size=1).effect(one, every, self.level)

    @property
    def _width(self) -> int:
        return POWERS + self.members


def _not_gathered() -> DataError:
    return DataError(
        "the rows of a slice are not gathered from a table on Beam: filter the table by the "
        "slice's conditions"
    )
