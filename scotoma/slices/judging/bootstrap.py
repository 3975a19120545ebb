"""The published test: the spread of a slice's metric over Poisson bootstrap replicates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import Flags, Floats, Ints
from scotoma.slices.hashing import poisson_weights
from scotoma.slices.judging.evidence import (
    CellRows,
    Direction,
    JudgedCells,
    Lane,
    on_side,
    student_p,
)
from scotoma.slices.judging.tally import Lanes, Part, Rows, Sums, narrow
from scotoma.slices.outcomes import Outcome

LanePair = tuple[Lanes, Lanes]
FIRST = 6  # replicates that most cells need to show that they are not significant
ROUNDING = 1 - 1e-9  # so that it rules no slice out


def member_draws(
    members: tuple[int, ...], draws: int, seed: int, *, paired: bool
) -> tuple[Ints, ...]:
    """Count each member of each population once, then as often as each draw holds it, (K, B + 1).

    >>> member_draws((2,), 3, 0, paired=False)[0].sum(0).tolist()
    [2, 2, 2, 2]
    """
    rng = np.random.default_rng([seed % 2**63, 1])
    drawn: list[Ints] = []
    for k in members:
        again = drawn and paired
        drawn.append(drawn[0] if again else _once(rng.multinomial(k, np.full(k, 1 / k), draws).T))
    return tuple(drawn)


def row_draws(ids: npt.ArrayLike, draws: int, seed: int) -> npt.NDArray[np.uint8]:
    """Count each row once, then as often as each draw holds it, shape (N, B + 1)."""
    return _once(poisson_weights(ids, draws, seed))


def _once(draws: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.pad(draws, ((0, 0), (1, 0)), constant_values=1)


@dataclass(frozen=True)
class BootstrapLane(Lane):
    """A metric in the slice against the whole, or against a baseline on the same slice.

    With D_0 the difference and D_1..D_B its replicates, t = D_0 / sd(D_1..D_B), and p is from
    Student's t with B - 1 degrees of freedom; replicates in which the metric has no denominator do
    not count. One row that is always wrong has hardly any spread: that is how the published
    defaults find slices in noise.

    Its sums are, beside the rows, numerators and denominators of the metric of each population:
    without weights, then in each draw of rows and members.

    Attributes:
        direction: Which side counts.
        members: From `member_draws`.
        fewest: What the denominators of a slice must add up to.

    References:
        Liu et al. 2022, section 3.
    """

    direction: Direction
    members: tuple[Ints, ...]
    fewest: float = 0.0

    @property
    def draws(self) -> int:
        """Bootstrap draws B."""
        return int(self.members[0].shape[1]) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers in each of the sums."""
        return 1, *[self.draws + 1] * 2 * len(self.members)

    def adds(self, outcome: Outcome) -> list[Part]:
        """Weighted numerators and denominators of every row."""
        assert outcome.weights is not None
        parts: list[Part] = [(None, None)]
        for own, drawn in zip(outcome.populations, self.members, strict=True):
            below = np.ones(own.above.shape) if own.below is None else own.below
            parts += [_adding(_weighted(one, drawn, outcome.weights)) for one in (own.above, below)]
        return parts

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows and has the metric."""
        size, ratios = sums[0], _ratios(sums)
        of_whole = _replicates(_ratios(whole)[0])
        defined = size >= max(least, 1)
        for _, below in ratios:
            defined &= (below[:, 0] > 0) & (below[:, 0] >= self.fewest)
        cell = np.flatnonzero(defined)
        effect = _draws(ratios, of_whole, cell, slice(0, 1))[0]
        # The tail of an effect to the other side is at least one half.
        side = on_side(effect, self.direction)
        plausible = np.flatnonzero(side if keep < 0.5 else np.isfinite(effect))
        if keep < 0.5:
            some = _draws(ratios, of_whole, cell[plausible], slice(1, 1 + FIRST))
            plausible = plausible[_may_reach(effect[plausible], some, self.draws, keep)]
        every = _draws(ratios, of_whole, cell[plausible], slice(1, 1 + self.draws))
        p = np.ones(cell.shape)
        p[plausible] = bootstrap_p(effect[plausible], every, self.direction, keep)
        return JudgedCells(size, cell, effect, p)

    def effect(
        self, sums: Sums, whole: Sums, level: float, rows: CellRows | None = None
    ) -> Estimate:
        """Estimate the metric minus the whole's or the baseline's, with its t interval."""
        own, *other = _ratios(sums)
        against = other[0] if other else _ratios(whole)[0]
        smaller = min(len(own) for own in self.members)
        difference = _replicates(own) - _replicates(against)
        return replicate_spread(difference, int(sums[0][0]), level, smaller)


def _ratios(sums: Sums) -> list[LanePair]:
    return list(zip(sums[1::2], sums[2::2], strict=True))


def _draws(ratios: list[LanePair], of_whole: Floats, cell: Rows, wanted: slice) -> Floats:
    """Compute the difference in some replicates, nan where it has no denominator."""
    values = _quotients(ratios[0], cell, wanted)
    values -= of_whole[wanted, None] if len(ratios) == 1 else _quotients(ratios[1], cell, wanted)
    return values


def _may_reach(effect: Floats, draws: Floats, most: int, keep: float) -> Flags:
    """Say whether p could be as small as `keep`, by the scatter of some replicates.

    The squares about the mean of all replicates are no fewer than those of some.
    """
    squares, _ = _scatter(draws)
    return effect**2 * (most - 1) >= stdtrit(most - 1.0, 1.0 - keep) ** 2 * squares * ROUNDING


def bootstrap_p(
    effect: Floats,
    draws: Floats,
    direction: Direction,
    keep: float,
    least_variance: Floats | float = 0.0,
) -> Floats:
    """Compute p-values from the spread of replicates, shape (B, T), nan where not drawn."""
    squares, b = _scatter(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = effect / np.sqrt(np.maximum(squares / (b - 1), least_variance))
    t[effect == 0], t[b < 2] = 0.0, np.nan
    # Fewer replicates ask for a larger t still.
    return student_p(t, b - 1.0, direction, keep, len(draws) - 1.0)


def _scatter(draws: Floats) -> tuple[Floats, Floats]:
    """Sum the squares about the mean of each cell's replicates, and count the replicates."""
    drawn = ~np.isnan(draws)
    b = np.full(draws.shape[1], float(len(draws)))
    if not drawn.all():
        b, draws = drawn.sum(0, dtype=np.float64), np.where(drawn, draws, 0.0)
    total, squares = np.zeros(b.shape), np.zeros(b.shape)
    for one in draws:  # one after the other, so that p has the same last bit in any company
        total += one
        squares += one * one
    return np.maximum(squares - total**2 / np.maximum(b, 1.0), 0.0), b


def replicate_spread(
    replicates: Floats, n: int, level: float, members: int = 1, least_variance: float = 0.0
) -> Estimate:
    """Estimate a difference with the t interval of its bootstrap replicates.

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


def _replicates(ratio: LanePair) -> Floats:
    """Compute the metric of one cell in every replicate, nan where it has no denominator.

    >>> _replicates((np.array([[1, 0]]), np.array([[2, 0]])))
    array([0.5, nan])
    """
    return np.asarray(_quotients(ratio, np.zeros(1, np.intp), slice(None))[:, 0])


def _quotients(sums: LanePair, cell: Rows, wanted: slice) -> Floats:
    """Compute the metric of some cells in some replicates, nan where it has no denominator."""
    above, below = (np.take(part, cell, axis=0)[:, wanted].T for part in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.divide(above, below, out=np.empty(above.shape), dtype=np.float64)
    return np.asarray(ratio)


def _weighted(part: Floats, drawn: Ints, weights: npt.NDArray[np.uint8]) -> Lanes:
    """Weight what members add to a sum, shape (N, K): as it is, then in every draw, (N, B + 1)."""
    columns = part if len(drawn) == 1 else part @ drawn
    whole = columns.astype(np.int64)
    if (whole == columns).all() and (whole >= 0).all():
        return narrow(whole * weights)
    return np.asarray(columns * weights)


def _adding(lanes: Lanes) -> Part:
    """Keep the rows that add to a sum, where they are few: errors are."""
    rows = np.flatnonzero(lanes[:, 0])
    if rows.size < len(lanes) // 2:
        return rows, np.ascontiguousarray(lanes[rows])
    return None, np.ascontiguousarray(lanes)
