"""AUC: no sum over rows, so every slice is ranked anew in every bootstrap draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Flags, Floats, Ints
from scotoma.slices.judging.bootstrap import bootstrap_p, replicate_spread
from scotoma.slices.judging.evidence import (
    CellRows,
    Direction,
    Evidence,
    JudgedCells,
    Lane,
    on_side,
)
from scotoma.slices.judging.tally import Part, Rows, Sums
from scotoma.slices.outcomes import Outcome

FEWEST = 10  # positives and negatives that a slice must hold
TOGETHER = 24  # draws ranked at once: their sums stay in the cache


@dataclass(frozen=True, eq=False)
class AucLane(Lane):
    """The AUC of a slice against that of the whole, or against a baseline's on the same slice.

    The variance is that of the bootstrap draws, examples by Poisson weights and members, where
    there are several, by multinomial ones. The sound test takes it no smaller than that of as many
    positives and negatives of the whole (Hanley and McNeil), for a slice without an inversion has
    no variance of its own. p is from Student's t with B - 1 degrees of freedom.

    Cost: rows x feature subsets x members, some 200 ns each, and as much again for every ten draws
    of the cells that could be significant: on 3,918 rows of 14 features about half a second.

    Its sums count the rows and the positives of a slice; scores are places.

    Attributes:
        direction: Which side counts.
        members: Times each member of each population is drawn, as it is and in each draw, shape
            (K, B + 1).
        sound: False for the published test, which knows no lower bound on the variance.

    References:
        Hanley and McNeil (1982), Radiology 143:29-36; Liu et al. 2022, section 3.
    """

    direction: Direction
    members: tuple[Ints, ...]
    sound: bool = True

    additive = False
    widths = (1, 1)

    @property
    def exchanges(self) -> bool:
        """Against a baseline the two populations are exchanged."""
        return len(self.members) > 1

    @property
    def draws(self) -> int:
        """Bootstrap draws B."""
        return int(self.members[0].shape[1]) - 1

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs."""
        return 2 * (self.draws + 1)

    def adds(self, outcome: Outcome) -> list[Part]:
        """Count rows, and positives."""
        assert outcome.labels is not None
        return [(None, None), (np.flatnonzero(outcome.labels), None)]

    def total(self, evidence: Evidence) -> Sums:
        """Count the rows and the positives, and compute AUC of all rows, itself and in draws."""
        rows = CellRows(np.zeros((1, evidence.rows), np.intp), evidence)
        draws = 0 if self.exchanges else self.draws
        return *super().total(evidence), self._mean_auc(0, rows, *CELL_0, draws)[0]

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows, positives and negatives."""
        assert rows is not None
        size, positives = sums
        fewest = FEWEST if self.sound else 1
        enough = (size >= max(least, 1)) & (positives >= fewest) & (size - positives >= fewest)
        cell = np.flatnonzero(enough)
        every = whole[2]
        effect = self._differences(rows, every, enough, cell, 0)[:, 0]
        lower = self._least_variance(every[0], size[cell], positives[cell])
        plausible = np.arange(effect.size)
        if keep < 0.5:  # most cells need no draw: no variance is smaller than this one
            reached = np.abs(effect) >= stdtrit(self.draws - 1.0, 1.0 - keep) * np.sqrt(lower)
            plausible = np.flatnonzero(on_side(effect, self.direction) & reached)
        p = np.ones(cell.shape)
        if plausible.size:
            chosen = np.zeros(size.shape, np.bool_)
            chosen[cell[plausible]] = True
            values = self._differences(rows, every, chosen, cell[plausible], self.draws).T
            p[plausible] = bootstrap_p(values[0], values[1:], self.direction, 1.0, lower[plausible])
        return JudgedCells(size, cell, effect, p)

    def effect(
        self, sums: Sums, whole: Sums, level: float, rows: CellRows | None = None
    ) -> Estimate:
        """Estimate AUC minus the whole's or the baseline's, with the t interval of the draws."""
        assert rows is not None
        size, positives = sums
        least = float(self._least_variance(whole[2][0], size, positives)[0])
        replicates = self._differences(rows, whole[2], *CELL_0, self.draws)[0]
        return replicate_spread(replicates, int(size[0]), level, len(self.members[0]), least)

    def inside(self, level: float, rows: CellRows) -> Estimate:
        """Estimate AUC inside, with the t interval of the draws."""
        replicates = self._mean_auc(0, rows, *CELL_0, self.draws)[0]
        size = int(np.count_nonzero(rows.keys == 0))
        return replicate_spread(replicates, size, level, len(self.members[0]))

    def _differences(
        self, rows: CellRows, whole: Floats, enough: Flags, cell: Rows, draws: int
    ) -> Floats:
        """Compute AUC minus the whole's or the baseline's, itself and in draws, (T, draws + 1)."""
        values = self._mean_auc(0, rows, enough, cell, draws)
        if not self.exchanges:
            return np.asarray(values - whole[: draws + 1])
        return np.asarray(values - self._mean_auc(1, rows, enough, cell, draws))

    def _mean_auc(self, of: int, rows: CellRows, enough: Flags, cell: Rows, draws: int) -> Floats:
        """Compute a population's AUC in some cells, itself and in draws, over members drawn."""
        known, drawn = rows.evidence.known, self.members[of][:, : draws + 1]
        place = np.full(enough.size, -1, np.int64)
        place[cell] = np.arange(cell.size)
        total = np.zeros((cell.size, draws + 1))
        for scores, times in zip(known.populations[of].above.T, drawn, strict=True):
            order = np.argsort(scores, kind="stable")
            for keys in rows.keys:
                own = order[enough[keys[order]]]
                if own.size:
                    at = place[keys[own]]
                    by_cell = np.argsort(at, kind="stable")
                    own, at = own[by_cell], at[by_cell]
                    _add(total, known, scores[own], own, at, times)
        return np.asarray(total / len(drawn))

    def _least_variance(self, auc: float, size: Rows, positives: Rows) -> Floats:
        """The variance that the sound test takes at least; 0 for the published one."""
        if not self.sound:
            return np.zeros(size.shape)
        p, n = positives.astype(np.float64), (size - positives).astype(np.float64)
        if self.exchanges:  # half an example changes its side
            return np.asarray((0.5 / np.minimum(p, n)) ** 2)
        first, second = auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2
        return np.asarray((auc * (1 - auc) + (p - 1) * first + (n - 1) * second) / (p * n))


CELL_0 = np.array([True, False]), np.zeros(1, np.intp)  # cell 0 of two: wanted, and its place


def _add(total: Floats, known: Outcome, scores: Ints, rows: Rows, at: Rows, drawn: Ints) -> None:
    """Add the AUC of a member in the cells of its rows, as often as each draw holds it."""
    assert known.labels is not None
    assert known.weights is not None
    labels = known.labels[rows]
    for first in range(0, drawn.size, TOGETHER):
        part = slice(first, min(first + TOGETHER, drawn.size))
        weights = known.weights[rows, part].astype(np.int64)
        total[np.unique(at), part] += auc(scores, labels, at, weights) * drawn[part]


def auc(scores: Ints, labels: Flags, cell: Rows, weights: Ints) -> Floats:
    """Compute the weighted AUC of each cell: a positive above a negative counts 1, a tie 1/2.

    Args:
        scores: SliceScores of the rows, ascending within each cell, shape (N,).
        labels: Whether a row is a positive, shape (N,).
        cell: Cell of each row, ascending, shape (N,).
        weights: Integer weights, shape (N, B).

    Returns:
        One row a cell that occurs, shape (cells, B); nan without a positive or a negative.

    >>> auc([1, 2, 2, 3], [False, True, False, True], [0, 0, 0, 0], np.ones((4, 1), int))
    array([[0.875]])
    """
    s, c, positive = np.asarray(scores), np.asarray(cell), np.asarray(labels, np.bool_)
    new_cell = np.concatenate([[True], c[1:] != c[:-1]])
    starts = np.flatnonzero(new_cell | np.concatenate([[True], s[1:] != s[:-1]]))
    # Sums over tied rows first: ties in a cell share their place.
    above = np.add.reduceat(np.where(positive[:, None], weights, 0), starts, axis=0)
    under = np.add.reduceat(np.where(positive[:, None], 0, weights), starts, axis=0)
    before = np.cumsum(under, axis=0) - under
    cells = np.flatnonzero(new_cell[starts])
    pairs = np.add.reduceat(above * (2 * before + under), cells, axis=0)
    p, n = np.add.reduceat(above, cells, axis=0), np.add.reduceat(under, cells, axis=0)
    pairs = pairs - 2 * before[cells] * p
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(pairs / (2.0 * p * n))


def places(scores: npt.ArrayLike) -> Ints:
    """Rank scores in ascending order, equal for equal scores, column by column.

    >>> places([[0.5], [0.1], [0.5]]).ravel().tolist()
    [1, 0, 1]
    """
    values = np.asarray(scores, np.float64)
    columns = [np.unique(column, return_inverse=True)[1] for column in values.T]
    return np.stack(columns, axis=1).astype(np.int64)
