"""The published test: the spread of a slice's metric over Poisson bootstrap replicates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from scotoma.inputs import Codes, Flags, Floats
from scotoma.numbers import Estimate, undefined
from scotoma.slices.evidence.clusters import shuffle
from scotoma.slices.evidence.interface import Direction, JudgedCells
from scotoma.slices.evidence.tally import Cells, Keys, Lanes, Rows, Tallied, narrow
from scotoma.slices.judging.tails import two_sided

LanePair = tuple[Lanes, Lanes]
FIRST = 6  # replicates that most cells need to show that they are not significant
ROUNDING = 1 - 1e-9  # so that it rules no slice out


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of sums over rows, in every replicate.

    Attributes:
        above: Weighted numerators, shape (N, B + 1): column 0 without weights, then the draws.
        below: Weighted denominators, of the same shape.
    """

    above: Lanes
    below: Lanes

    @property
    def draws(self) -> int:
        """Bootstrap draws B."""
        return int(self.above.shape[1]) - 1

    @classmethod
    def of(cls, above: npt.ArrayLike, below: npt.ArrayLike, weights: npt.ArrayLike) -> Ratio:
        """Weight every row of a numerator and a denominator.

        Args:
            above: Numerators, shape (N,) or, where members are drawn too, (N, B + 1).
            below: Denominators, of the same shape.
            weights: Weight of each row in each draw, shape (N, B).

        >>> Ratio.of([0, 1], [1, 1], [[2], [3]]).above.tolist()
        [[0, 0], [1, 3]]
        """
        w = np.asarray(weights)
        w = np.concatenate([np.ones((len(w), 1), w.dtype), w], axis=1)
        return cls(_weighted(np.asarray(above), w), _weighted(np.asarray(below), w))

    def sums(self, cells: Tallied) -> LanePair:
        """Sum numerators and denominators of every cell, shape (cells, B + 1) each."""
        above, below = (cells.tally(lanes, rows) for rows, lanes in self._nonzero)
        return above, below

    def take(self, rows: Rows) -> Ratio:
        """Keep some of the rows."""
        return Ratio(self.above[rows], self.below[rows])

    @cached_property
    def _nonzero(self) -> tuple[tuple[Rows | None, Lanes], tuple[Rows | None, Lanes]]:
        """Numerators and denominators on the rows that add to them; None for all rows."""
        return _adding(self.above), _adding(self.below)


@dataclass(frozen=True)
class Replicates:
    """A metric in the slice against the whole, or against a baseline on the same slice.

    With D_0 the difference and D_1..D_B its replicates, t = D_0 / sd(D_1..D_B), and p is from
    Student's t with B - 1 degrees of freedom; replicates in which the metric has no denominator do
    not count. One row that is always wrong has hardly any spread: that is how the published
    defaults find slices in noise.

    Attributes:
        model: The metric of the model at hand.
        baseline: The metric of the model it is compared with on the same slice; None: with the
            whole.
        direction: Which side counts.
        min_size: Rows that a slice must hold to be reported.
        fewest: What the denominators of a slice must add up to.
        members: Members of the smaller population.
        clusters: Code of each row's cluster, shape (N,), for the shuffle; the weights of rows that
            share a cluster are equal already. None: every row is its own.

    References:
        Liu et al. 2022, section 3.
    """

    model: Ratio
    baseline: Ratio | None
    direction: Direction
    min_size: int
    fewest: float = 0.0
    members: int = 1
    clusters: Codes | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.model.above)

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs."""
        return 6 * int(self.model.above.shape[1]) * (1 if self.baseline is None else 2)

    def with_min_size(self, min_size: int) -> Replicates:
        """Return the same evidence with another smallest slice."""
        return replace(self, min_size=min_size)

    @property
    def exact(self) -> bool:
        """Whether all sums are of whole numbers."""
        ratios = [self.model] if self.baseline is None else [self.model, self.baseline]
        return all(lanes.dtype.kind in "iu" for one in ratios for lanes in (one.above, one.below))

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows and has the metric."""
        return self.judge_sums(self.sums(Cells(keys, cells)), keep)

    def sums(self, cells: Tallied) -> tuple[Lanes, ...]:
        """Numerators, denominators, those of the baseline, and rows where nothing counts them."""
        ratios = [self.model] if self.baseline is None else [self.model, self.baseline]
        sums = chain.from_iterable(one.sums(cells) for one in ratios)
        return *sums, *(() if self.counts_rows else (cells.count(),))

    def judge_sums(self, sums: tuple[Lanes, ...], keep: float) -> JudgedCells:
        """Test every cell from the sums alone, wherever they were added up.

        Args:
            sums: Numerators and denominators of every cell, shape (cells, B + 1), after them
                those of the baseline, then its rows, shape (cells,).
            keep: P-values beyond this interest nobody.
        """
        ratios = (
            [(sums[0], sums[1])]
            if self.baseline is None
            else [(sums[0], sums[1]), (sums[2], sums[3])]
        )
        size = (sums[1][:, 0] if self.counts_rows else sums[-1]).astype(np.intp)
        cell, effect, plausible = self._look(ratios, size, keep)
        every = self._draws(ratios, cell[plausible], slice(1, 1 + self.model.draws))
        p = np.ones(cell.shape)
        p[plausible] = _student(effect[plausible], *every, self.direction, keep)
        return JudgedCells(size, cell, effect, p)

    def _look(self, ratios: list[LanePair], size: Rows, keep: float) -> tuple[Rows, Floats, Rows]:
        """List cells that have the metric, its effects, and which of them may be significant."""
        defined = size >= max(self.min_size, 1)
        for _, below in ratios:
            defined &= (below[:, 0] > 0) & (below[:, 0] >= self.fewest)
        cell = np.flatnonzero(defined)
        effect = _metric(ratios[0], cell)
        effect -= self.whole[0] if len(ratios) == 1 else _metric(ratios[1], cell)
        # The tail of an effect to the other side is at least one half.
        side = {"higher": effect > 0, "lower": effect < 0, "both": effect != 0}[self.direction]
        plausible = np.flatnonzero(side if keep < 0.5 else np.isfinite(effect))
        if keep < 0.5:
            some = self._draws(ratios, cell[plausible], slice(1, 1 + FIRST))
            plausible = plausible[_may_reach(effect[plausible], *some, self.model.draws, keep)]
        return cell, effect, plausible

    def _draws(self, ratios: list[LanePair], cell: Rows, wanted: slice) -> tuple[Floats, Flags]:
        """Compute the difference in some replicates, 0 where undefined; flag the defined."""
        values, drawn = _quotients(ratios[0], cell, wanted)
        if len(ratios) == 1:
            values -= self.whole[wanted, None]
        else:
            base, also = _quotients(ratios[1], cell, wanted)
            values, drawn = values - base, drawn & also
        if not drawn.all():
            values[~drawn] = 0.0
        return values, drawn

    def effect(self, inside: Flags, level: float) -> Estimate:
        """Estimate the metric minus the whole's or the baseline's, with its t interval."""
        cells = Cells(np.where(inside, 0, 1)[None], 2)
        against = self.whole
        if self.baseline is not None:
            against = metric_of(self.baseline.sums(cells))[0]
        replicates = metric_of(self.model.sums(cells))[0] - against
        return replicate_spread(replicates, int(inside.sum()), level, self.members)

    @cached_property
    def counts_rows(self) -> bool:
        """Whether the denominator counts rows."""
        return bool((self.model.below[:, 0] == 1).all())

    @cached_property
    def whole(self) -> Floats:
        """The metric of all rows in every replicate, shape (B + 1,)."""
        above, below = (part.sum(0, np.float64) for part in (self.model.above, self.model.below))
        return np.asarray(above / below)

    def take(self, rows: Rows) -> Replicates:
        """Keep some of the rows."""
        other = self.baseline.take(rows) if self.baseline else None
        own = None if self.clusters is None else self.clusters[rows]
        return replace(self, model=self.model.take(rows), baseline=other, clusters=own)

    def shuffled(self, rng: np.random.Generator) -> Replicates:
        """Shuffle the outcomes, and with them their weights."""
        moved = self.take(shuffle(self.rows, self.clusters, rng))
        return replace(moved, clusters=self.clusters)


def _may_reach(effect: Floats, draws: Floats, drawn: Flags, most: int, keep: float) -> Flags:
    """Say whether p could be as small as `keep`, by the scatter of some replicates.

    The squares about the mean of all replicates are no fewer than those of some.
    """
    squares, _ = _scatter(draws, drawn)
    return effect**2 * (most - 1) >= stdtrit(most - 1.0, 1.0 - keep) ** 2 * squares * ROUNDING


def _student(
    effect: Floats, draws: Floats, drawn: Flags, direction: Direction, keep: float
) -> Floats:
    """Compute p-values from the spread of replicates, which are 0 where not drawn."""
    most = len(draws)
    squares, b = _scatter(draws, drawn)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = effect / np.sqrt(squares / (b - 1))
    t = np.where((b >= 2) & (effect != 0), t, 0.0)
    p = np.ones(t.shape)
    # Fewer replicates ask for a larger t still.
    plausible = np.abs(t) >= (stdtrit(most - 1.0, 1.0 - keep) if keep < 0.5 else 0.0)
    t, df = t[plausible], b[plausible] - 1.0
    p[plausible] = two_sided(stdtr(df, -t), stdtr(df, t), direction)
    return p


def _scatter(draws: Floats, drawn: Flags) -> tuple[Floats, Floats]:
    """Sum the squares about the mean of each cell's replicates, and count the replicates."""
    b = np.full(draws.shape[1], float(len(draws)))
    if not drawn.all():
        b = drawn.sum(0, dtype=np.float64)
    total, squares = np.zeros(b.shape), np.zeros(b.shape)
    for one in draws:  # one after the other, so that p has the same last bit in any company
        total += one
        squares += one * one
    return np.maximum(squares - total**2 / np.maximum(b, 1.0), 0.0), b


def replicate_spread(
    replicates: Floats, n: int, level: float, members: int = 1, least_variance: float = 0.0
) -> Estimate:
    """Estimate a difference with the t interval of its bootstrap replicates.

    Args:
        replicates: The difference itself, then its draws, shape (B + 1,); nan where undefined.
        n: Rows of the slice.
        level: Coverage, a fraction in (0, 1).
        members: Members of the smaller population.
        least_variance: What the variance is at least.

    >>> replicate_spread(np.array([0.1, 0.05, 0.15]), 40, 0.95).df
    1.0
    """
    drawn = replicates[1:][np.isfinite(replicates[1:])]
    if not np.isfinite(replicates[0]):
        reason = "undefined (nothing to divide by)"
        return undefined(reason, n=n, members=members, level=level)
    if drawn.size < 2 or (np.ptp(drawn) == 0 and not least_variance > 0):
        reason = "interval not estimable (the bootstrap draws do not vary)"
        return undefined(reason, value=float(replicates[0]), n=n, members=members, level=level)
    se = math.sqrt(max(float(drawn.var(ddof=1)), least_variance))
    df = float(drawn.size - 1)
    return Estimate.on_scale(float(replicates[0]), se, df, n=n, members=members, level=level)


def metric_of(sums: LanePair) -> Floats:
    """Compute the metric of every cell in every replicate, nan where it has no denominator.

    >>> metric_of((np.array([[1, 0]]), np.array([[2, 0]])))
    array([[0.5, nan]])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.divide(*sums, dtype=np.float64)
    return np.where(sums[1] > 0, ratio, np.nan)


def _metric(sums: LanePair, cell: Rows) -> Floats:
    """Compute the metric of some cells, which have a denominator."""
    above, below = (part[:, 0][cell] for part in sums)
    return np.divide(above, below, dtype=np.float64)


def _quotients(sums: LanePair, cell: Rows, wanted: slice) -> tuple[Floats, Flags]:
    """Compute the metric of some cells in some replicates; flag where it has a denominator."""
    above, below = (np.take(part, cell, axis=0)[:, wanted].T for part in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.divide(above, below, out=np.empty(above.shape), dtype=np.float64)
    return ratio, below > 0


def _weighted(part: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Lanes:
    columns = part[:, None] if part.ndim == 1 else part
    if columns.dtype.kind not in "biu":
        return np.asarray(columns * weights)
    return narrow(columns.astype(np.int64) * weights)


def _adding(lanes: Lanes) -> tuple[Rows | None, Lanes]:
    rows = np.flatnonzero(lanes[:, 0])
    if rows.size < len(lanes) // 2:  # errors are few: most rows add nothing
        return rows, np.ascontiguousarray(lanes[rows])
    return None, np.ascontiguousarray(lanes)
