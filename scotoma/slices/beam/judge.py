"""Is a slice worse, by the sums over the parts of a table?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.inputs import Floats
from scotoma.numbers import Estimate
from scotoma.slices.beam.part import Sums
from scotoma.slices.evidence.interface import Direction, JudgedCells
from scotoma.slices.judging.bootstrap import Ratio, Replicates, metric_of, replicate_spread
from scotoma.slices.judging.crossed import CrossedReference, CrossedTest
from scotoma.slices.judging.protocols import Test
from scotoma.slices.judging.rates import judge_changes, judge_rates


@dataclass(frozen=True)
class SumsTest:
    """Which test the sums of a slice get.

    Attributes:
        test: Its name.
        reference: The rest of the examples (of the bootstrap: the whole), or the baseline.
        direction: Which side counts.
        min_size: Rows that a slice must hold to be tested.
        keep: P-values beyond this interest nobody.
        members: Members of the smaller population.
        widths: Members of each population that has several, where means are tested.
        mean: The value that the lanes of means are centred on.
    """

    test: Test
    reference: CrossedReference
    direction: Direction
    min_size: int
    keep: float
    members: int
    widths: tuple[int, ...] = ()
    mean: float = 0.0

    def judge(self, sums: Sums, whole: Sums) -> JudgedCells:
        """Test every slice of a feature set.

        Args:
            sums: Sums of the feature set.
            whole: Sums of all rows.

        >>> test = SumsTest("rate", "rest", "higher", 1, 1.0, 1)
        >>> whole = Sums(np.array([0]), np.array([[4.0, 2.0]]))
        >>> test.judge(Sums(np.array([0, 1]), np.array([[2.0, 2.0], [2.0, 0.0]])), whole).p.round(4)
        array([0.1667, 1.    ])
        """
        size, lanes = sums.lanes[:, 0].astype(np.intp), sums.lanes[:, 1:]
        if self.test == "mean":
            crossed = self._crossed(whole)
            cell = crossed.testable(size)
            n = size[cell].astype(np.float64)
            effect, p = crossed.judge(lanes[cell], n, self.direction, self.keep)
            return JudgedCells(size, cell, effect, p)
        if self.test == "bootstrap":
            parts = self._ratios(lanes)
            return self._replicates(whole).judge_sums((*parts, size), self.keep)
        events = lanes.astype(np.intp)
        if self.test == "change":
            return judge_changes(size, events[:, 0], events[:, 1], self.direction, self.min_size)
        every = int(whole.lanes[0, 1]), int(whole.lanes[0, 0])
        return judge_rates(size, events[:, 0], every, self.direction, self.min_size, self.keep)

    def effect(self, sums: Sums, whole: Sums, level: float) -> Estimate:
        """Estimate the effect of one slice from its bootstrap draws.

        Args:
            sums: Sums of the slice, one row.
            whole: Sums of all rows.
            level: Coverage, a fraction in (0, 1).
        """
        above, below, *others = self._ratios(sums.lanes[:, 1:])
        against = tuple(others) if others else tuple(self._ratios(whole.lanes[:, 1:]))
        difference = metric_of((above, below)) - metric_of((against[0], against[1]))
        return replicate_spread(difference[0], int(sums.lanes[0, 0]), level, self.members)

    def _crossed(self, whole: Sums) -> CrossedTest:
        totals = whole.lanes[0, 1:]
        rows, squares = int(whole.lanes[0, 0]), float(totals[5])
        return CrossedTest(
            self.reference,
            self.min_size,
            self.widths,
            rows,
            self.mean,
            totals,
            squares,
        )

    def _ratios(self, lanes: Floats) -> list[Floats]:
        """Split numerators and denominators of the model, then of the baseline if there is one."""
        return np.split(lanes, 4 if self.reference == "baseline" else 2, axis=1)

    def _replicates(self, whole: Sums) -> Replicates:
        above, below, *others = self._ratios(whole.lanes[:, 1:])
        compared = Ratio(others[0], others[1]) if others else None
        return Replicates(Ratio(above, below), compared, self.direction, self.min_size)
