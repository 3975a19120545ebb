"""Is the mean of a slice worse? The crossed t from sums alone, wherever they were added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr

from scotoma.inputs import Floats
from scotoma.slices.evidence.clusters import ClusterVariance
from scotoma.slices.evidence.interface import Direction
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.tails import two_sided

CrossedReference = Literal["rest", "baseline"]
MIN_EFFECTIVE_EVENTS = 10  # with fewer, the t interval does not hold its level
ROUNDING = 1e-9  # means over three models add up to 10 events or to a last bit less, as rows lie
EXAMPLES = 6  # lanes before the scatter within examples and the members' sums


@dataclass(frozen=True)
class Centre:
    """Values that the lanes of a mean are centred on, which changes nothing but rounding.

    Attributes:
        mean: The mean of psi.
        inverted: Whether the examples without the event count as events, as for means near 1.
        members: The mean of each population that has several members.
    """

    mean: float
    inverted: bool
    members: tuple[float, ...]


def counts_nonevents(psi: Floats, mean: float, compared: bool) -> bool:
    """Say whether a rate is so near 1 that the examples without the event are the rare events.

    Args:
        psi: The mean over members of every row.
        mean: The mean of psi.
        compared: Whether psi is a difference from a baseline, which is no rate.

    >>> counts_nonevents(np.array([1.0, 1.0, 0.0]), 2 / 3, False)
    True
    """
    return not compared and 0.5 < mean <= 1 and bool(np.abs(psi).max() <= 1)


def lanes_of(psi: Floats, scatter: list[Floats], several: list[Floats], centre: Centre) -> Floats:
    """Compute what is summed over the rows of a slice, a row of lanes for each.

    Args:
        psi: The mean over members (minus the baseline's, where there is one), shape (N,).
        scatter: Squares about psi within each row, for each population that has several members.
        several: The scores of those populations, shape (N, K) each.
        centre: What they are centred on.

    Returns:
        Four powers of psi, its events and their square, the scatter, the members.
    """
    centred, events = psi - centre.mean, np.abs(psi)
    if centre.inverted:
        events = 1.0 - events
    columns = [centred, centred**2, centred**3, centred**4, events, events**2, *scatter]
    first = len(columns)
    lanes = np.empty((psi.size, first + sum(own.shape[1] for own in several)))
    lanes[:, :first] = np.stack(columns, axis=1)
    for own, mean in zip(several, centre.members, strict=True):
        np.subtract(own, mean, out=lanes[:, first : first + own.shape[1]])
        first += own.shape[1]
    return lanes


@dataclass(frozen=True, eq=False)
class CrossedTest:
    """The test of a slice's mean from the sums of its lanes.

    Attributes:
        reference: The rest of the rows, or the baseline on the same slice.
        min_size: Rows that a slice must hold to be tested.
        widths: Members of each population that has several.
        rows: Rows of the whole.
        mean: What psi is centred on.
        totals: Sums of the lanes over all rows, shape (W,).
        squares: Sum of the squared events over all rows, or over all clusters.
    """

    reference: CrossedReference
    min_size: int
    widths: tuple[int, ...]
    rows: int
    mean: float
    totals: Floats
    squares: float

    def testable(self, size: Rows) -> Rows:
        """List the cells that hold enough rows and leave a rest, ascending."""
        wanted = size >= max(self.min_size, 2)
        if self.reference == "rest":
            wanted &= self.rows - size >= 2
        return np.flatnonzero(wanted)

    def judge(
        self,
        sums: Floats,
        n: Floats,
        direction: Direction,
        keep: float,
        over: ClusterVariance | None = None,
    ) -> tuple[Floats, Floats]:
        """Compute effects and p-values; with too few effective events p is 1.

        Args:
            sums: Sums of the lanes of each slice, shape (T, W).
            n: Rows of each, shape (T,).
            direction: Which side counts.
            keep: P-values beyond this interest nobody.
            over: The variance over clusters, where rows share them.
        """
        effect, p = self.effect(sums, n), np.ones(n.shape)
        enough = np.flatnonzero(self._has_enough_events(sums, n, over))
        variance, df = self.variance(sums[enough], n[enough], over and over.take(enough))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(variance > 0, effect[enough] / np.sqrt(variance), 0.0)
        plausible = np.abs(t) >= (ndtri(1 - keep) if keep < 0.5 else 0.0)  # t has the heavier tails
        upper, lower = stdtr(df[plausible], -t[plausible]), stdtr(df[plausible], t[plausible])
        p[enough[plausible]] = two_sided(upper, lower, direction)
        return effect, p

    def _has_enough_events(
        self, sums: Floats, n: Floats, over: ClusterVariance | None
    ) -> npt.NDArray[np.bool_]:
        squares = sums[:, 5] if over is None else over.event_squares
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.nan_to_num(sums[:, 4] ** 2 / squares)
            whole = np.nan_to_num(self.totals[4] ** 2 / self.squares)
        events = np.maximum(own, n / max(self.rows, 1) * whole)
        return np.asarray(events >= MIN_EFFECTIVE_EVENTS * (1 - ROUNDING))

    def effect(self, sums: Floats, n: Floats) -> Floats:
        """Compute the effects of slices, shape (T,)."""
        mean = sums[:, 0] / n
        if self.reference == "baseline":
            return np.asarray(mean + self.mean)
        return np.asarray(mean - (self.totals[0] - sums[:, 0]) / (self.rows - n))

    def variance(
        self, sums: Floats, n: Floats, over: ClusterVariance | None = None
    ) -> tuple[Floats, Floats]:
        """Estimate the variance of the effect and its degrees of freedom."""
        variance, excess = _spread(sums, n)
        if self.reference == "rest":
            others, m = self.totals - sums, self.rows - n
            other_variance, other_excess = _spread(others, m)
            excess = np.where(variance >= other_variance, excess, other_excess * n / m)
            parts = [
                (np.maximum(variance, other_variance) / n, 2 * n / np.maximum(excess, 1e-12)),
                (other_variance / m, 2 * m / np.maximum(other_excess, 1e-12)),
            ]
        else:
            square = sums[:, 1] / n + 2 * self.mean * sums[:, 0] / n + self.mean**2
            parts = [(np.maximum(variance, square) / n, 2 * n / np.maximum(excess, 1e-12))]
        examples = np.sum([part for part, _ in parts], axis=0)
        spread = np.sum([part**2 / f for part, f in parts], axis=0)
        if over is not None:
            larger = over.variance > examples
            spread = np.where(larger, over.variance**2 / over.df, spread)
            examples = np.where(larger, over.variance, examples)
        members = residual = np.zeros(n.shape)
        first = EXAMPLES + len(self.widths)
        for place, k in enumerate(self.widths):
            inside = sums[:, first : first + k]
            rates = inside / n[:, None]
            own_residual = _residual(sums[:, EXAMPLES + place], inside, n)
            if self.reference == "rest":
                outside = others[:, first : first + k]
                rates = rates - outside / m[:, None]
                own_residual = own_residual + _residual(others[:, EXAMPLES + place], outside, m)
            own_members = rates.var(1, ddof=1) / k
            members, residual = members + own_members, residual + own_residual
            spread = spread + own_members**2 / (k - 1)
            first += k
        total = np.maximum(np.maximum(examples + members - residual, examples), members)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(spread > 0, total**2 / spread, np.inf)
        return total, np.maximum(df, 1.0)


def _spread(sums: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Estimate the variance (ddof 1) of psi over examples, and its kurtosis minus 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums[:, 0] / n
        second = np.maximum(sums[:, 1] / n - mean**2, 0.0)
        fourth = sums[:, 3] / n - mean * (4 * sums[:, 2] / n - mean * (6 * sums[:, 1] / n))
        fourth = fourth - 3 * mean**4
        excess = np.where(second > 0, fourth / second**2 - 1.0, 0.0)
    return second * n / (n - 1), np.maximum(excess, 0.0)


def _residual(scatter: Floats, members: Floats, n: Floats) -> Floats:
    """Estimate V_res of one population: squares without those of examples and members."""
    k = members.shape[1]
    means = members / n[:, None]
    sse = scatter - n * ((means - means.mean(1, keepdims=True)) ** 2).sum(1)
    return np.asarray(np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k))
