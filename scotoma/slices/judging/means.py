"""Is the mean of a score over a slice worse than that of the rest, or of a baseline?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scotoma.inputs import Codes, Flags, Floats
from scotoma.slices.evidence.clusters import (
    ClusterSums,
    ClusterVariance,
    Rest,
    shuffle,
    signs,
)
from scotoma.slices.evidence.interface import Direction, JudgedCells
from scotoma.slices.evidence.tally import Keys, Rows, count_keys, tally_lanes
from scotoma.slices.judging.crossed import (
    MIN_EFFECTIVE_EVENTS,
    Centre,
    CrossedReference,
    CrossedTest,
    counts_nonevents,
    lanes_of,
)


@dataclass(frozen=True)
class Means:
    """The mean of a score over a slice, members and examples both drawn at random.

    With psi the mean over members (of the model at hand minus the baseline, where there is one),
    the variance of its mean over the slice is V = max(V_ex + V_mod - V_res, V_ex, V_mod), the terms
    and degrees of freedom those of `scotoma.numbers.crossed_variance`. Two amendments serve the
    tails that a search looks into:

    - under the hypothesis a slice is a sample of the rest, so the variance over its examples is
      taken no smaller than that of as many of the rest (against a baseline: than its mean square),
      for a slice in which nothing happened has no variance of its own;
    - the mean must rest on at least 10 effective events, in the slice or as expected from the
      whole; a slice with fewer counts as tested all the same, because a family chosen by its events
      would be corrected for too few.

    Attributes:
        outcome: Scores of the model at hand, shape (N, K); of a part, those of the whole.
        baseline: Scores of the model it is compared with on the same rows, shape (N, K').
        reference: The rest of the rows, or the baseline on the same slice.
        paired: Member m of both derives from the same training run.
        direction: Which side counts.
        min_size: Rows that a slice must hold to be tested, at least 2.
        clusters: Code of each row's cluster, shape (N,): the variance over examples is then no
            smaller than that over clusters, and events are those of clusters; None: every row is
            its own.
        part_of: The same evidence on more rows, and which of them these are. Sums are of its
            numbers: the mean that those are centred on changes nothing but rounding.
        swapped: The evidence whose two populations changed places here, and on which rows.
    """

    outcome: Floats
    baseline: Floats | None
    reference: CrossedReference
    paired: bool
    direction: Direction
    min_size: int
    clusters: Codes | None = None
    part_of: tuple[Means, Rows] | None = None
    swapped: tuple[Means, Flags] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.outcome if self.part_of is None else self.part_of[1])

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs."""
        return 4 * int(self._lanes.shape[1])

    def with_min_size(self, min_size: int) -> Means:
        """Return the same evidence with another smallest slice."""
        return replace(self, min_size=min_size)

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows; with too few effective events p is 1."""
        size = count_keys(keys, cells)
        cell = self.test.testable(size)
        sums = tally_lanes(keys, cells, self._lanes)[cell]
        n = size[cell].astype(np.float64)
        over = self._over_clusters(keys, cells, cell, sums, n)
        if over is not None:
            enough = over.clusters >= MIN_EFFECTIVE_EVENTS
            cell, sums, n, over = cell[enough], sums[enough], n[enough], over.take(enough)
        effect, p = self.test.judge(sums, n, self.direction, keep, over)
        return JudgedCells(size, cell, effect, p)

    def take(self, rows: Rows) -> Means:
        """Keep some of the rows."""
        own = None if self.clusters is None else self.clusters[rows]
        if self.part_of is None:
            return replace(self, clusters=own, part_of=(self, rows))
        whole, part = self.part_of
        return replace(self, clusters=own, part_of=(whole, part[rows]))

    def shuffled(self, rng: np.random.Generator) -> Means:
        """Shuffle the scores; against a baseline exchange the two at random instead.

        Where both have as many members they are exchanged on a random half of the examples,
        otherwise all members are dealt out anew.
        """
        if self.reference == "rest" or self.baseline is None:
            moved = self.take(shuffle(self.rows, self.clusters, rng))
            return replace(moved, clusters=self.clusters)
        if self.part_of is not None:
            rows = self.part_of[1]
            outcome, baseline = self.outcome[rows], self.baseline[rows]
            return replace(self, outcome=outcome, baseline=baseline, part_of=None).shuffled(rng)
        own, other = self.outcome.shape[1], self.baseline.shape[1]
        if own == other:
            swap = signs(self.rows, self.clusters, rng)
            outcome, baseline = _exchanged(swap[:, None], self.outcome, self.baseline)
            return replace(self, outcome=outcome, baseline=baseline, swapped=(self, swap))
        members = np.concatenate([self.outcome, self.baseline], axis=1)
        members = members[:, rng.permutation(own + other)]
        return replace(self, outcome=members[:, :own], baseline=members[:, own:], swapped=None)

    @cached_property
    def test(self) -> CrossedTest:
        """The test of the sums of a slice."""
        totals = np.asarray(self._lanes.sum(0))
        squares = totals[5]
        if self.clusters is not None:
            squares = (self._cluster_sums.sums[:, 1] ** 2).sum()
        sizes = [own.shape[1] for own in (self.outcome, self.baseline) if own is not None]
        several = sizes[:1] if self.paired else sizes
        return CrossedTest(
            self.reference,
            self.min_size,
            tuple(size for size in several if size > 1),
            self.rows,
            self._mean,
            totals,
            float(squares),
        )

    @cached_property
    def _mean(self) -> float:
        if self.part_of is not None:
            return self.part_of[0]._mean
        return float(self.psi.mean()) if self.rows else 0.0

    @cached_property
    def psi(self) -> Floats:
        """The mean over members of every row, minus the baseline's where there is one."""
        if self.swapped is not None:
            before, swap = self.swapped
            return np.where(swap, -before.psi, before.psi)
        psi = self.outcome.mean(1)
        return np.asarray(psi if self.baseline is None else psi - self.baseline.mean(1))

    @cached_property
    def _lanes(self) -> Floats:
        """Powers of psi, its events, the scatter within examples, the members."""
        if self.part_of is not None:
            whole, rows = self.part_of
            return np.asarray(whole._lanes[rows])
        inverted = counts_nonevents(self.psi, self._mean, self.baseline is not None)
        members = tuple(float(own.mean()) for own in self.several())
        return self.lanes(Centre(self._mean, inverted, members))

    def lanes(self, centre: Centre) -> Floats:
        """Compute what is summed over the rows of a slice, as `lanes_of` does."""
        return lanes_of(self.psi, self._scatter, self.several(), centre)

    @cached_property
    def _scatter(self) -> list[Floats]:
        """Scatter of the members about each row's mean, of each population that has several."""
        if self.swapped is None:
            return [((p - p.mean(1, keepdims=True)) ** 2).sum(1) for p in self.several()]
        before, swap = self.swapped
        return _exchanged(swap, *before._scatter)

    def several(self) -> list[Floats]:
        """List the scores of each population with several members; paired ones as differences."""
        return [own for own in self._populations() if own.shape[1] > 1]

    def _populations(self) -> list[Floats]:
        if self.baseline is None:
            return [self.outcome]
        return [self.outcome - self.baseline] if self.paired else [self.outcome, self.baseline]

    @cached_property
    def _cluster_sums(self) -> ClusterSums:
        """The clusters of all rows: sums of psi and of its events."""
        clusters = np.zeros(self.rows, np.intp) if self.clusters is None else self.clusters
        return ClusterSums.of(np.zeros((1, self.rows), np.int64), clusters, self._lanes[:, [0, 4]])

    def _over_clusters(
        self, keys: Keys, cells: int, cell: Rows, sums: Floats, n: Floats
    ) -> ClusterVariance | None:
        """Estimate the variance of the effect over clusters, in some cells."""
        if self.clusters is None:
            return None
        values = self._lanes[:, [0, 4]]
        if self.reference == "baseline":
            values[:, 0] += self._mean  # psi itself, against 0: nothing changed
            return ClusterVariance.of(
                ClusterSums.of(keys, self.clusters, values), cells, cell, n, None
            )
        mean, rest = np.zeros(cells), np.zeros(cells)
        mean[cell] = sums[:, 0] / n
        rest[cell] = (self.test.totals[0] - sums[:, 0]) / (self.rows - n)
        pairs = ClusterSums.of(keys, self.clusters, values)
        return ClusterVariance.of(pairs, cells, cell, n, Rest(self._cluster_sums, mean, rest))


def _exchanged(swap: Flags, *populations: Floats) -> list[Floats]:
    """Exchange the numbers of two populations on some rows; those of one stay."""
    pairs = zip(populations, reversed(populations), strict=True)
    return [np.where(swap, other, own) for own, other in pairs]
