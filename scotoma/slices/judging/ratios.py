"""Precision and F1: ratios of sums over rows, tested as means of what each row adds to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scotoma.inputs import Floats
from scotoma.slices.evidence.clusters import shuffle
from scotoma.slices.evidence.interface import JudgedCells
from scotoma.slices.evidence.outcomes import Scored
from scotoma.slices.evidence.tally import Keys, Rows
from scotoma.slices.judging.means import Means


@dataclass(frozen=True)
class LinearRatio:
    """A ratio of sums as a mean: what each row adds to the ratio, by the whole's own value.

    With R the ratio of all rows, row x adds (u_x - R v_x) / mean(v): the slices' means of it differ
    where their ratios do.

    Attributes:
        model: Numerators and denominators of the population at hand.
        baseline: The same of the other population; None for nothing.
        means: The settings of the test, whose scores are replaced.
    """

    model: Scored
    baseline: Scored | None
    means: Means

    @classmethod
    def of(cls, model: Scored, baseline: Scored | None, means: Means) -> LinearRatio:
        """Compute the linear parts of a ratio from its rows."""
        other = None if baseline is None else linear(baseline)
        return cls(model, baseline, replace(means, outcome=linear(model), baseline=other))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.means.rows

    @property
    def min_size(self) -> int:
        """Rows that a slice must hold to be tested."""
        return self.means.min_size

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs."""
        return self.means.width

    def with_min_size(self, min_size: int) -> LinearRatio:
        """Return the same evidence with another smallest slice."""
        return replace(self, means=self.means.with_min_size(min_size))

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell, as the mean."""
        return self.means.judge(keys, cells, keep)

    def take(self, rows: Rows) -> LinearRatio:
        """Keep some of the rows, linearised at their own ratio."""
        other = None if self.baseline is None else self.baseline.take(rows)
        return LinearRatio.of(self.model.take(rows), other, self.means.take(rows))

    def shuffled(self, rng: np.random.Generator) -> LinearRatio:
        """Shuffle the outcomes."""
        clusters = self.means.clusters
        moved = self.take(shuffle(self.rows, clusters, rng))
        return replace(moved, means=replace(moved.means, clusters=clusters))


def linear(scored: Scored) -> Floats:
    """Compute what each row adds to a population's ratio, (u - R v) / mean(v), shape (n, K).

    >>> linear(Scored(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))).ravel().tolist()
    [0.5, -0.5]
    """
    above, below = scored.above, scored.below
    if below is None:
        return above
    total = below.sum()
    if total == 0:
        return np.zeros_like(above)
    return np.asarray((above - above.sum() / total * below) / below.mean())
