"""Means over examples and members, crossed: a slice against the rest, or two populations on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr

from scotoma.slices.evidence.clusters import Codes, Rest, Sources, Units, shuffle, signs
from scotoma.slices.evidence.interface import Direction, Flags, Floats, Judged, Rows
from scotoma.slices.evidence.tally import Keys, count, tally
from scotoma.slices.judging.tails import two_sided
from scotoma.uncertainty import Estimate, Variance, of_variance, undefined

Reference = Literal["rest", "baseline"]
CARRIERS = 10  # examples that must carry a mean before the t interval holds its level
EXAMPLES, MEMBERS = 6, 7  # first lane of the scatter within examples, of the members' sums


@dataclass(frozen=True)
class Means:
    """The mean of a score over a slice, members and examples both drawn at random.

    With psi the mean over members (of the model at hand minus the baseline, where there is one),
    the variance of its mean over the slice is V = max(V_ex + V_mod - V_res, V_ex, V_mod), the terms
    and degrees of freedom those of `scotoma.uncertainty.crossed_variance`. Two amendments serve the
    tails that a search looks into:

    - under the hypothesis a slice is a sample of the rest, so the variance over its examples is
      taken no smaller than that of as many of the rest (against a baseline: than its mean square),
      for a slice in which nothing happened has no variance of its own;
    - at least 10 examples must carry the mean, in the slice or as expected from the whole; a slice
      that lacks them counts as tested all the same, for a family chosen by the events themselves
      would be corrected for too few.

    Attributes:
        outcome: Scores of the model at hand, shape (N, K); of a part, those of the whole.
        baseline: Scores of the model it is compared with on the same rows, shape (N, K').
        reference: The rest of the rows, or the baseline on the same slice.
        paired: Member m of both derives from the same training run.
        direction: Which side counts as found.
        least: Rows that a slice must hold to be tested, at least 2.
        clusters: Code of each row's source, shape (N,): the variance over examples is then no
            smaller than that over sources, and sources carry a mean; None: every row is its own.
        part_of: The same evidence on more rows, and which of them these are. Sums are made of its
            numbers: the mean that those are centred on moves roundings alone.
        swapped: The evidence whose two populations changed places here, and on which rows.
    """

    outcome: Floats
    baseline: Floats | None
    reference: Reference
    paired: bool
    direction: Direction
    least: int
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

    def at_least(self, rows: int) -> Means:
        """The same evidence with another smallest slice."""
        return replace(self, least=rows)

    def judge(self, keys: Keys, cells: int, keep: float) -> Judged:
        """Test every cell that holds enough rows; without enough that carry it p is 1."""
        size = count(keys, cells)
        wanted = size >= max(self.least, 2)
        if self.reference == "rest":
            wanted &= self.rows - size >= 2
        cell = np.flatnonzero(wanted)
        sums = tally(keys, cells, self._lanes)[cell]
        n = size[cell].astype(np.float64)
        over = self._over_sources(keys, cells, cell, sums, n)
        if over is not None:
            many = over.met >= CARRIERS
            cell, sums, n, over = cell[many], sums[many], n[many], over.take(many)
        effect, p = self._effect(sums, n), np.ones(cell.shape)
        carried = np.flatnonzero(self._carried(sums, n, over))
        variance, df = self._crossed(sums[carried], n[carried], over and over.take(carried))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(variance > 0, effect[carried] / np.sqrt(variance), 0.0)
        looked = np.abs(t) >= (ndtri(1 - keep) if keep < 0.5 else 0.0)  # t has the heavier tails
        upper, lower = stdtr(df[looked], -t[looked]), stdtr(df[looked], t[looked])
        p[carried[looked]] = two_sided(upper, lower, self.direction)
        return Judged(size, cell, effect, p)

    def effect(self, inside: Flags, level: float) -> Estimate:
        """Mean inside minus outside, or minus the baseline's inside, with the t interval.

        Its n counts examples, or sources where rows share them.
        """
        n = int(inside.sum())
        members = self.outcome.shape[1]
        if self.baseline is not None:
            members = min(members, self.baseline.shape[1])
        if n < 2 or (self.reference == "rest" and self.rows - n < 2):
            return undefined("undefined (fewer than two examples)", n=n, members=members)
        sums, size = self._lanes[inside].sum(0)[None], np.array([float(n)])
        keys, one = np.where(inside, 0, 1)[None], np.zeros(1, np.intp)
        over = self._over_sources(keys, 2, one, sums, size)
        effect = float(self._effect(sums, size)[0])
        variance, df = (float(part[0]) for part in self._crossed(sums, size, over))
        parts = Variance(variance, math.nan, math.nan, math.nan, df)
        units = n if self.clusters is None else np.unique(self.clusters[inside]).size
        return of_variance(effect, parts, n=units, members=members, level=level)

    def take(self, rows: Rows) -> Means:
        """The same evidence on some of the rows."""
        own = None if self.clusters is None else self.clusters[rows]
        if self.part_of is None:
            return replace(self, clusters=own, part_of=(self, rows))
        whole, part = self.part_of
        return replace(self, clusters=own, part_of=(whole, part[rows]))

    def shuffled(self, rng: np.random.Generator) -> Means:
        """Scores in random order; against a baseline the two exchanged at random instead.

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

    @property
    def _widths(self) -> list[int]:
        """Members of each population that has several."""
        widths = [self.outcome.shape[1]]
        if self.baseline is not None and not self.paired:
            widths.append(self.baseline.shape[1])
        return [width for width in widths if width > 1]

    @cached_property
    def _mean(self) -> float:
        if self.part_of is not None:
            return self.part_of[0]._mean
        return float(self._psi.mean()) if self.rows else 0.0

    @cached_property
    def _psi(self) -> Floats:
        if self.swapped is not None:
            before, swap = self.swapped
            return np.where(swap, -before._psi, before._psi)
        psi = self.outcome.mean(1)
        return np.asarray(psi if self.baseline is None else psi - self.baseline.mean(1))

    @cached_property
    def _lanes(self) -> Floats:
        """Powers of psi, what carries it, the scatter within examples, the members."""
        if self.part_of is not None:
            whole, rows = self.part_of
            return np.asarray(whole._lanes[rows])
        centred = self._psi - self._mean
        carrier = np.abs(self._psi)
        if self.baseline is None and 0.5 < self._mean <= 1 and carrier.max() <= 1:
            carrier = 1.0 - carrier  # a rate near 1 is carried by those that lack the event
        columns = [centred, centred**2, centred**3, centred**4, carrier, carrier**2]
        columns += self._scatter
        first = len(columns)
        lanes = np.empty((self.rows, first + sum(self._widths)))
        lanes[:, :first] = np.stack(columns, axis=1)
        for own in self._several():
            np.subtract(own, own.mean(), out=lanes[:, first : first + own.shape[1]])
            first += own.shape[1]
        return lanes

    @cached_property
    def _scatter(self) -> list[Floats]:
        """Scatter of the members about each row's mean, of each population that has several."""
        if self.swapped is None:
            return [((p - p.mean(1, keepdims=True)) ** 2).sum(1) for p in self._several()]
        before, swap = self.swapped
        return _exchanged(swap, *before._scatter)

    def _several(self) -> list[Floats]:
        return [own for own in self._populations() if own.shape[1] > 1]

    def _populations(self) -> list[Floats]:
        if self.baseline is None:
            return [self.outcome]
        return [self.outcome - self.baseline] if self.paired else [self.outcome, self.baseline]

    @cached_property
    def _totals(self) -> Floats:
        return np.asarray(self._lanes.sum(0))

    def _carried(self, sums: Floats, n: Floats, over: Sources | None) -> npt.NDArray[np.bool_]:
        squares, total = sums[:, 5], self._totals[5]
        if over is not None:
            squares, total = over.carried, (self._sources.sums[:, 1] ** 2).sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.nan_to_num(sums[:, 4] ** 2 / squares)
            whole = np.nan_to_num(self._totals[4] ** 2 / total)
        return np.asarray(np.maximum(own, n / max(self.rows, 1) * whole) >= CARRIERS)

    @cached_property
    def _sources(self) -> Units:
        """The sources of all rows: sums of psi and of what carries it."""
        clusters = np.zeros(self.rows, np.intp) if self.clusters is None else self.clusters
        return Units.of(np.zeros((1, self.rows), np.int64), clusters, self._lanes[:, [0, 4]])

    def _over_sources(
        self, keys: Keys, cells: int, cell: Rows, sums: Floats, n: Floats
    ) -> Sources | None:
        """The variance of the effect over sources, of the cells that are wanted."""
        if self.clusters is None:
            return None
        values = self._lanes[:, [0, 4]]
        if self.reference == "baseline":
            values[:, 0] += self._mean  # psi itself, against 0: nothing changed
            return Sources.of(Units.of(keys, self.clusters, values), cells, cell, n, None)
        mean, rest = np.zeros(cells), np.zeros(cells)
        mean[cell] = sums[:, 0] / n
        rest[cell] = (self._totals[0] - sums[:, 0]) / (self.rows - n)
        units = Units.of(keys, self.clusters, values)
        return Sources.of(units, cells, cell, n, Rest(self._sources, mean, rest))

    def _effect(self, sums: Floats, n: Floats) -> Floats:
        mean = sums[:, 0] / n
        if self.reference == "baseline":
            return np.asarray(mean + self._mean)
        return np.asarray(mean - (self._totals[0] - sums[:, 0]) / (self.rows - n))

    def _crossed(
        self, sums: Floats, n: Floats, over: Sources | None = None
    ) -> tuple[Floats, Floats]:
        """Variance of the effect and its degrees of freedom."""
        variance, excess = _spread(sums, n)
        if self.reference == "rest":
            others, m = self._totals - sums, self.rows - n
            other_variance, other_excess = _spread(others, m)
            excess = np.where(variance >= other_variance, excess, other_excess * n / m)
            parts = [
                (np.maximum(variance, other_variance) / n, 2 * n / np.maximum(excess, 1e-12)),
                (other_variance / m, 2 * m / np.maximum(other_excess, 1e-12)),
            ]
        else:
            square = sums[:, 1] / n + 2 * self._mean * sums[:, 0] / n + self._mean**2
            parts = [(np.maximum(variance, square) / n, 2 * n / np.maximum(excess, 1e-12))]
        examples = np.sum([part for part, _ in parts], axis=0)
        spread = np.sum([part**2 / f for part, f in parts], axis=0)
        if over is not None:
            larger = over.variance > examples
            spread = np.where(larger, over.variance**2 / over.df, spread)
            examples = np.where(larger, over.variance, examples)
        members = residual = np.zeros(n.shape)
        first = EXAMPLES + len(self._widths)
        for place, k in enumerate(self._widths):
            mine = sums[:, first : first + k]
            rates, left = mine / n[:, None], _residual(sums[:, EXAMPLES + place], mine, n)
            if self.reference == "rest":
                theirs = others[:, first : first + k]
                rates = rates - theirs / m[:, None]
                left = left + _residual(others[:, EXAMPLES + place], theirs, m)
            own_members = rates.var(1, ddof=1) / k
            members, residual = members + own_members, residual + left
            spread = spread + own_members**2 / (k - 1)
            first += k
        total = np.maximum(np.maximum(examples + members - residual, examples), members)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(spread > 0, total**2 / spread, np.inf)
        return total, np.maximum(df, 1.0)


def _spread(sums: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Variance (ddof 1) of psi over examples, and its kurtosis minus 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums[:, 0] / n
        second = np.maximum(sums[:, 1] / n - mean**2, 0.0)
        fourth = sums[:, 3] / n - mean * (4 * sums[:, 2] / n - mean * (6 * sums[:, 1] / n))
        fourth = fourth - 3 * mean**4
        excess = np.where(second > 0, fourth / second**2 - 1.0, 0.0)
    return second * n / (n - 1), np.maximum(excess, 0.0)


def _residual(scatter: Floats, members: Floats, n: Floats) -> Floats:
    """V_res of one population: sum of squares without those of examples and of members."""
    k = members.shape[1]
    means = members / n[:, None]
    sse = scatter - n * ((means - means.mean(1, keepdims=True)) ** 2).sum(1)
    return np.asarray(np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k))


def _exchanged(swap: Flags, *populations: Floats) -> list[Floats]:
    """Numbers of two populations that changed places on some rows; those of one stay."""
    pairs = zip(populations, reversed(populations), strict=True)
    return [np.where(swap, other, own) for own, other in pairs]
