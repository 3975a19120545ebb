"""Do events fall into a slice, or change in it, more often than chance has it? Exact tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln

from scotoma.numbers import Estimate, few_runs
from scotoma.numbers.inputs import Floats, Ints
from scotoma.numbers.wilson_interval import wilson
from scotoma.slices.judging.evidence import CellRows, Direction, JudgedCells, Lane, two_sided
from scotoma.slices.judging.tally import Part, Sums
from scotoma.slices.outcomes import Outcome


@dataclass(frozen=True)
class RateLane(Lane):
    """One model's rate in the slice against its rate in the rest: Fisher's exact test.

    Its sums are the rows and the events of a slice.
    """

    direction: Direction
    widths = (1, 1)

    def adds(self, outcome: Outcome) -> list[Part]:
        """Count rows, and rows with the event."""
        return [(None, None), (np.flatnonzero(outcome.model.above[:, 0]), None)]

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows and leaves a rest.

        >>> sums = np.array([2, 2]), np.array([2, 0])
        >>> whole = np.array([4]), np.array([2])
        >>> RateLane("higher").judge(sums, whole, 1, 1.0).p.round(4)
        array([0.1667, 1.    ])
        """
        size, events = sums
        N, K = (int(own[0]) for own in whole)
        cell = np.flatnonzero((size >= max(least, 1)) & (size < N))
        n, k = size[cell], events[cell]
        upper = lower = np.ones(n.shape)
        keep = keep if self.direction != "both" else keep / 2
        if self.direction != "lower":
            upper = hypergeometric_tail(k, n, K, N, keep=keep)
        if self.direction != "higher":
            lower = hypergeometric_tail(n - k, n, N - K, N, keep=keep)
        effect = k / n - (K - k) / (N - n)
        return JudgedCells(size, cell, effect, two_sided(upper, lower, self.direction))

    def effect(
        self, sums: Sums, whole: Sums, level: float, rows: CellRows | None = None
    ) -> Estimate:
        """Estimate the rate inside minus the rate outside, with Newcombe's interval."""
        (n, k), (N, K) = ([int(own[0]) for own in each] for each in (sums, whole))
        j, m = K - k, N - n
        low, high = newcombe(k, n, j, m, level)
        nan = math.nan
        return Estimate(k / n - j / m, low, high, n, 1, float(k), nan, level, note=few_runs(1))


@dataclass(frozen=True)
class ChangeLane(Lane):
    """Two models on the same slice: McNemar's exact test of the examples on which they differ.

    Its sums are the rows of a slice, those on which only the second model has the event, and those
    on which only the first has it.
    """

    direction: Direction
    widths = (1, 1, 1)
    exchanges = True  # half of the changes are for the better if no slice means anything

    def adds(self, outcome: Outcome) -> list[Part]:
        """Count rows, and those that change either way."""
        model, baseline = (own.above[:, 0] for own in outcome.populations)
        return [
            (None, None),
            (np.flatnonzero(model > baseline), None),
            (np.flatnonzero(model < baseline), None),
        ]

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows.

        >>> sums = np.array([4, 2]), np.array([3, 0]), np.array([0, 1])
        >>> ChangeLane("higher").judge(sums, (), 1, 1.0).p
        array([0.125, 1.   ])
        """
        size, up, down = sums
        cell = np.flatnonzero(size >= max(least, 1))
        n, worse, better = size[cell], up[cell], down[cell]
        upper, lower = sign_tail(worse, worse + better), sign_tail(better, worse + better)
        p = two_sided(upper, lower, self.direction)
        return JudgedCells(size, cell, (worse - better) / n, p)


def newcombe(k: int, n: int, j: int, m: int, level: float) -> tuple[float, float]:
    """Compute the interval of the difference k/n - j/m of two independent rates.

    References:
        Newcombe (1998), Statistics in Medicine 17:873-890, method 10.

    >>> [round(end, 4) for end in newcombe(56, 70, 48, 80, 0.95)]  # his table II, example (a)
    [0.0524, 0.3339]
    """
    (low1, high1), (low2, high2) = wilson(k, n, level), wilson(j, m, level)
    p, q = k / n, j / m
    below = math.sqrt((p - low1) ** 2 + (high2 - q) ** 2)
    above = math.sqrt((high1 - p) ** 2 + (q - low2) ** 2)
    return p - q - below, p - q + above


BLOCK = 1 << 15  # cells whose tails are summed together: their columns stay in the cache
NEGLIGIBLE = 1e-17  # next to a sum of 1 in double precision


def hypergeometric_tail(
    events: npt.ArrayLike, size: npt.ArrayLike, all_events: int, rows: int, *, keep: float = 1.0
) -> Floats:
    """Compute the chance that a random slice of this size holds at least this many events.

    The events of all rows are fixed; a slice that has nothing to do with them is a draw of `size`
    rows without replacement. This is Fisher's exact test of the slice against the rest.

    Args:
        events: Events in each slice, shape (M,), integers.
        size: Rows of each slice, shape (M,), integers with events <= size <= rows.
        all_events: Events among all rows.
        rows: All rows.
        keep: P-values that are certain to exceed this may be returned as 1, unsummed.

    Returns:
        Upper tail probabilities, fractions in [0, 1], shape (M,); relative error about 1e-10.

    References:
        Fisher (1935), The design of experiments, section 11.

    >>> round(float(hypergeometric_tail([8], [30], 50, 1000)[0]), 7)
    5.58e-05
    """
    k, n = np.broadcast_arrays(np.asarray(events, np.int64), np.asarray(size, np.int64))
    tails, many = np.ones(k.shape), k * rows > n * all_events
    above = np.flatnonzero(many)
    for first in range(0, above.size, BLOCK):
        places = above[first : first + BLOCK]
        mass = _mass(k[places], n[places], all_events, rows)
        summed = mass <= keep  # the tail is at least its first term
        places, mass = places[summed], mass[summed]
        x, draws = k[places].astype(np.float64), n[places].astype(np.float64)
        tails[places] = np.minimum(mass * _series(x, draws, float(all_events), float(rows)), 1.0)
    if keep >= 0.1 and not many.all():  # below the mean the tail is near one half or more
        below = np.flatnonzero(~many & (k > 0) & (k - 1 >= n + all_events - rows))
        # Fewer events in the slice are more among the rows without the event.
        others = (n - k + 1)[below]
        fewer = hypergeometric_tail(others, n[below], rows - all_events, rows)
        tails[below] = np.clip(1.0 - fewer, 0.0, 1.0)
    return tails


@lru_cache(maxsize=4)
def _log_factorials(rows: int) -> Floats:
    """log((i - 1)!) at place i: every count of rows + 1 is asked for, block after block."""
    return np.asarray(gammaln(np.arange(rows + 2, dtype=np.float64)))


def _mass(k: Ints, n: Ints, K: int, N: int) -> Floats:
    logs = _log_factorials(N)

    def ways(of: int | Ints, chosen: Ints) -> Floats:
        return np.asarray(logs[of + 1] - logs[chosen + 1] - logs[of - chosen + 1])

    return np.exp(ways(K, k) + ways(N - K, n - k) - ways(N, n))


def _series(x: Floats, n: Floats, K: float, N: float) -> Floats:
    """Sum the probabilities from x upwards, as multiples of the first."""
    total = np.ones(x.shape)
    places, x = np.arange(x.size), x.copy()
    sums, term = np.ones(x.shape), np.ones(x.shape)
    while places.size:
        term *= (K - x) * (n - x) / ((x + 1.0) * (N - K - n + x + 1.0))
        sums += term
        x += 1.0
        going = term > NEGLIGIBLE * sums
        if np.count_nonzero(going) < 0.75 * places.size:
            total[places[~going]] = sums[~going]
            places, sums, term = places[going], sums[going], term[going]
            x, n = x[going], n[going]
    return total


def sign_tail(worse: npt.ArrayLike, changed: npt.ArrayLike) -> Floats:
    """Compute the chance of so many changes for the worse if each could go either way.

    McNemar's exact test: of the examples on which two models differ, half should favour each.

    Args:
        worse: Changes for the worse, shape (M,), integers.
        changed: All changes, shape (M,), integers, at least `worse`.

    Returns:
        Upper tail probabilities of Binomial(changed, 1/2), shape (M,).

    References:
        McNemar (1947), Psychometrika 12:153-157.

    >>> sign_tail([5, 0], [5, 5])
    array([0.03125, 1.     ])
    """
    x, n = np.asarray(worse, np.float64), np.asarray(changed, np.float64)
    return np.where(x > 0, betainc(np.maximum(x, 1.0), n - x + 1.0, 0.5), 1.0)
