"""AUC: no sum over rows, so every slice is ranked anew in every bootstrap draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from scotoma.errors import DataError
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Flags, Floats, Ints
from scotoma.slices.judging.bootstrap import member_draws, replicate_spread, student_p
from scotoma.slices.judging.evidence import Direction, JudgedCells, on_side
from scotoma.slices.judging.tally import Keys, Rows, Tallied
from scotoma.slices.outcomes import Outcome, Scored

FEWEST = 10  # positives and negatives that a slice must hold
TOGETHER = 24  # draws ranked at once: their sums stay in the cache


@dataclass(frozen=True, eq=False)
class Ranks:
    """The AUC of a slice against that of the whole, or against a baseline's on the same slice.

    The variance is that of the bootstrap draws, examples by Poisson weights and members, where
    there are several, by multinomial ones. The sound test takes it no smaller than that of as many
    positives and negatives of the whole (Hanley and McNeil), for a slice without an inversion has
    no variance of its own. p is from Student's t with B - 1 degrees of freedom.

    Cost: rows x feature subsets x members, some 200 ns each, and as much again for every ten draws
    of the cells that could be significant: on 3,918 rows of 14 features about half a second.

    Attributes:
        outcome: Places of the scores, labels and weights.
        members: Times each member of each population is drawn in each draw, shape (K, B).
        direction: Which side counts.
        sound: False for the published test, which knows no lower bound on the variance.

    References:
        Hanley and McNeil (1982), Radiology 143:29-36; Liu et al. 2022, section 3.
    """

    outcome: Outcome
    members: tuple[Ints, ...]
    direction: Direction
    sound: bool = True

    exact = False

    @classmethod
    def of(cls, outcome: Outcome, direction: Direction, seed: int, *, sound: bool) -> Ranks:
        """Rank the scores of an outcome that has weights."""
        labels, weights = outcome.labels, outcome.weights
        if labels is None or weights is None or labels.all() or not labels.any():
            raise DataError(
                "metric 'auc' needs positives and negatives, got labels of one class only: pass "
                "labels in which both occur"
            )
        ranked = outcome.having([Scored(places(own.above)) for own in outcome.populations])
        members = tuple(own.members for own in outcome.populations)
        drawn = member_draws(members, weights.shape[1], seed, paired=outcome.paired)
        return cls(ranked, drawn, direction, sound)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.outcome.rows.size

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs."""
        return 2 * (self._draws + 1)

    def judge(self, cells: Tallied, least: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows, positives and negatives."""
        size, positives = cells.add(), cells.add(np.flatnonzero(self._labels))
        fewest = FEWEST if self.sound else 1
        enough = (size >= max(least, 1)) & (positives >= fewest)
        enough &= size - positives >= fewest
        cell = np.flatnonzero(enough)
        effect = self._differences(cells.keys, enough, cell, draws=0)[:, 0]
        plausible = self._worth_drawing(effect, size[cell], positives[cell], keep)
        p = np.ones(cell.shape)
        if plausible.size:
            chosen = np.zeros(size.shape, np.bool_)
            chosen[cell[plausible]] = True
            values = self._differences(cells.keys, chosen, cell[plausible], draws=self._draws)
            lower: Floats | float = 0.0
            if self.sound:
                lower = self._least_variance(size[cell[plausible]], positives[cell[plausible]])
            known = ~np.isnan(values[:, 1:].T)
            draws = np.where(known, values[:, 1:].T, 0.0)
            p[plausible] = student_p(values[:, 0], draws, known, self.direction, 1.0, lower)
        return JudgedCells(size, cell, effect, p)

    def effect(self, inside: Flags, level: float) -> Estimate:
        """Estimate AUC minus the whole's or the baseline's, with the t interval of the draws."""
        replicates = self._differences(*_alone(inside), self._draws)[0]
        size, positives = (np.array([part.sum()]) for part in (inside, self._labels[inside]))
        least = 0.0
        if self.sound and 0 < positives[0] < size[0]:
            least = float(self._least_variance(size, positives)[0])
        members = self.outcome.model.members
        return replicate_spread(replicates, int(size[0]), level, members, least)

    def inside(self, inside: Flags, level: float) -> Estimate:
        """Estimate AUC inside, with the t interval of the draws."""
        replicates = self._mean_auc(0, *_alone(inside), self._draws)[0]
        return replicate_spread(replicates, int(inside.sum()), level, self.outcome.model.members)

    def take(self, rows: Rows) -> Ranks:
        """Keep some of the rows."""
        return replace(self, outcome=self.outcome.take(rows))

    def shuffled(self, rng: np.random.Generator) -> Ranks:
        """Shuffle scores with their labels; against a baseline exchange the two models."""
        return replace(self, outcome=self.outcome.shuffled(rng, exchange=True))

    def _differences(self, keys: Keys, enough: Flags, cell: Rows, draws: int) -> Floats:
        """Compute AUC minus the whole's or the baseline's, itself and in draws, (T, draws + 1)."""
        values = self._mean_auc(0, keys, enough, cell, draws)
        if self.outcome.baseline is None:
            return np.asarray(values - self._whole[:, : draws + 1])
        return np.asarray(values - self._mean_auc(1, keys, enough, cell, draws))

    def _worth_drawing(self, effect: Floats, size: Rows, positives: Rows, keep: float) -> Rows:
        """List cells whose p-value could be as small as `keep`: most need no draw."""
        if keep >= 0.5:
            return np.arange(effect.size)
        side = on_side(effect, self.direction)
        if self.sound:  # no variance is smaller than this one
            sd = np.sqrt(self._least_variance(size, positives))
            side &= np.abs(effect) >= stdtrit(self._draws - 1.0, 1.0 - keep) * sd
        return np.flatnonzero(side)

    @property
    def _labels(self) -> Flags:
        assert self.outcome.labels is not None
        return self.outcome.labels

    @property
    def _draws(self) -> int:
        return int(self.members[0].shape[1])

    @cached_property
    def _whole(self) -> Floats:
        return self._mean_auc(0, *_alone(np.ones(self.rows, np.bool_)), self._draws)

    def _mean_auc(self, of: int, keys: Keys, enough: Flags, cell: Rows, draws: int) -> Floats:
        """Compute a population's AUC in some cells, itself and in draws, over members drawn."""
        scores = self.outcome.populations[of].above
        k = scores.shape[1]
        drawn = np.ones((k, draws + 1), np.int64)
        drawn[:, 1:] = self.members[of][:, :draws]
        place = np.full(enough.size, -1, np.int64)
        place[cell] = np.arange(cell.size)
        total = np.zeros((cell.size, draws + 1))
        for member in range(k):
            order = np.argsort(scores[:, member], kind="stable")
            for own in keys:
                rows = order[enough[own[order]]]
                if rows.size:
                    at = place[own[rows]]
                    by_cell = np.argsort(at, kind="stable")
                    rows, at = rows[by_cell], at[by_cell]
                    self._add(total, scores[rows, member], rows, at, drawn[member])
        return np.asarray(total / k)

    def _add(self, total: Floats, scores: Ints, rows: Rows, at: Rows, drawn: Ints) -> None:
        labels = self._labels[rows]
        for first in range(0, drawn.size, TOGETHER):
            part = slice(first, min(first + TOGETHER, drawn.size))
            weights = self._weights[rows, part]
            total[np.unique(at), part] += auc(scores, labels, at, weights) * drawn[part]

    @cached_property
    def _weights(self) -> Ints:
        assert self.outcome.weights is not None
        ones = np.ones((self.rows, 1), np.int64)
        return np.concatenate([ones, self.outcome.weights], axis=1, dtype=np.int64)

    def _least_variance(self, size: Rows, positives: Rows) -> Floats:
        p, n = positives.astype(np.float64), (size - positives).astype(np.float64)
        if self.outcome.baseline is not None:  # half an example changes its side
            return np.asarray((0.5 / np.minimum(p, n)) ** 2)
        a = float(self._whole[0, 0])
        first, second = a / (2 - a) - a**2, 2 * a**2 / (1 + a) - a**2
        return np.asarray((a * (1 - a) + (p - 1) * first + (n - 1) * second) / (p * n))


def _alone(inside: Flags) -> tuple[Keys, Flags, Rows]:
    """One cell of some rows: the keys, which cells are wanted, and their places."""
    return np.where(inside, 0, 1)[None], np.array([True, False]), np.zeros(1, np.intp)


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
