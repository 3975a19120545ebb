"""The test of a slice from its sums alone, wherever they were added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.slices.beam.part import Sums
from scotoma.slices.evidence.interface import Direction, Judged
from scotoma.slices.judging.bootstrap import Ratio, Replicates, metric_of, spread
from scotoma.slices.judging.bootstrap import Sums as RatioSums
from scotoma.slices.judging.rates import judge_changes, judge_rates, rate_effect
from scotoma.uncertainty import Estimate, single_mean


@dataclass(frozen=True)
class SumsTest:
    """Which test the sums of a slice get.

    Attributes:
        draws: Bootstrap draws; 0 for the exact tests: Fisher's of a rate against the rest,
            McNemar's of two models on the same slice.
        baseline: Whether there is one.
        members: Members of the smaller population.
        direction: Which side counts as found.
        least: Rows that a slice must hold to be tested.
        fewest: What the denominators of a slice must add up to.
        keep: P-values beyond this interest nobody.
    """

    draws: int
    baseline: bool
    members: int
    direction: Direction
    least: int
    fewest: float
    keep: float

    def judge(self, sums: Sums, whole: Sums) -> Judged:
        """Test every slice of a feature set.

        Args:
            sums: Of the feature set.
            whole: Of all rows.

        >>> test = SumsTest(0, False, 1, "higher", 1, 0.0, 1.0)
        >>> whole = Sums(np.array([0]), np.array([[4, 2, 4]]))
        >>> test.judge(Sums(np.array([0, 1]), np.array([[2, 2, 2], [2, 0, 2]])), whole).p.round(4)
        array([0.1667, 1.    ])
        """
        size = sums.lanes[:, 0].astype(np.intp)
        model, other = self._parts(sums)
        if self.draws:
            return self._replicates(whole).judge_sums((*model, *(other or ()), size), self.keep)
        events = model[0][:, 0]
        if other is not None:
            return judge_changes(size, events, other[0][:, 0], self.direction, self.least)
        found = int(whole.lanes[0, 1]), int(whole.lanes[0, 0])
        return judge_rates(size, events, found, self.direction, self.least, self.keep)

    def effect(self, sums: Sums, whole: Sums, level: float) -> Estimate:
        """The effect of one slice with its interval.

        Args:
            sums: Of the slice, one row.
            whole: Of all rows.
            level: Coverage, a fraction in (0, 1).
        """
        n = int(sums.lanes[0, 0])
        model, other = self._parts(sums)
        if self.draws:
            against = self._parts(whole)[0] if other is None else other
            return spread((metric_of(model) - metric_of(against))[0], n, level, self.members)
        events = int(model[0][0, 0])
        if other is None:
            return rate_effect(events, n, (int(whole.lanes[0, 1]), int(whole.lanes[0, 0])), level)
        down = int(other[0][0, 0])
        change = np.repeat([1, -1, 0], [events, down, n - events - down])
        return single_mean(change[:, None], level=level)

    def _parts(self, sums: Sums) -> tuple[RatioSums, RatioSums | None]:
        """Numerators and denominators of the model, and of the baseline."""
        lanes = np.split(sums.lanes[:, 1:], 4 if self.baseline else 2, axis=1)
        return (lanes[0], lanes[1]), (lanes[2], lanes[3]) if self.baseline else None

    def _replicates(self, whole: Sums) -> Replicates:
        model, other = self._parts(whole)
        compared = None if other is None else Ratio(*other)
        return Replicates(Ratio(*model), compared, self.direction, self.least, self.fewest)
