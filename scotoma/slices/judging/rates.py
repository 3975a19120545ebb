"""The exact answers for one model's rate and for two models' rates on the same slice."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Flags
from scotoma.numbers import Estimate, few_runs, undefined
from scotoma.numbers.wilson_interval import wilson
from scotoma.slices.evidence.interface import Direction, JudgedCells
from scotoma.slices.evidence.tally import Cells, Keys, Lanes, Rows, Tallied
from scotoma.slices.judging.tails import hypergeometric_tail, sign_tail, two_sided


@dataclass(frozen=True)
class Rates:
    """One model's rate in the slice against its rate in the rest: Fisher's exact test.

    Attributes:
        events: Whether the event happened, shape (N,).
        direction: Which side counts.
        min_size: Rows that a slice must hold to be tested.

    >>> rates = Rates(np.array([True, True, False, False]), "higher", 1)
    >>> rates.judge(np.array([[0, 0, 1, 1]]), 2, 1.0).p.round(4)
    array([0.1667, 1.    ])
    """

    events: Flags
    direction: Direction
    min_size: int

    width, exact = 8, True

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.events.size

    def with_min_size(self, min_size: int) -> Rates:
        """Return the same evidence with another smallest slice."""
        return replace(self, min_size=min_size)

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows and leaves a rest."""
        return self.judge_sums(self.sums(Cells(keys, cells)), keep)

    def sums(self, cells: Tallied) -> tuple[Lanes, ...]:
        """Count the rows of every cell, and those with the event."""
        return cells.count(), cells.count(self._places)

    def judge_sums(self, sums: tuple[Lanes, ...], keep: float) -> JudgedCells:
        """Test every cell from the counts."""
        (size, events), whole = sums, (self._places.size, self.rows)
        return judge_rates(size, events, whole, self.direction, self.min_size, keep)

    @cached_property
    def _places(self) -> Rows:
        return np.flatnonzero(self.events)

    def effect(self, inside: Flags, level: float) -> Estimate:
        """Estimate the rate inside minus the rate outside, with Newcombe's interval."""
        n, k = int(inside.sum()), int(self.events[inside].sum())
        return rate_effect(k, n, (int(self.events.sum()), self.rows), level)

    def take(self, rows: Rows) -> Rates:
        """Keep some of the rows."""
        return replace(self, events=self.events[rows])

    def shuffled(self, rng: np.random.Generator) -> Rates:
        """Shuffle the outcomes."""
        return replace(self, events=rng.permutation(self.events))


@dataclass(frozen=True)
class RateChanges:
    """Two models on the same slice: McNemar's exact test of the examples on which they differ.

    Attributes:
        change: 1 where only the second model has the event, -1 where only the first has it.
        direction: Which side counts.
        min_size: Rows that a slice must hold to be tested.

    >>> changes = RateChanges(np.array([1, 1, 1, 0, -1, 0]), "higher", 1)
    >>> changes.judge(np.array([[0, 0, 0, 0, 1, 1]]), 2, 1.0).p
    array([0.125, 1.   ])
    """

    change: npt.NDArray[np.int8]
    direction: Direction
    min_size: int

    width, exact = 8, True

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.change.size

    def with_min_size(self, min_size: int) -> RateChanges:
        """Return the same evidence with another smallest slice."""
        return replace(self, min_size=min_size)

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows; without a change p is 1."""
        return self.judge_sums(self.sums(Cells(keys, cells)), keep)

    def sums(self, cells: Tallied) -> tuple[Lanes, ...]:
        """Count the rows of every cell, those that gain the event and those that lose it."""
        up, down = (np.flatnonzero(self.change == side) for side in (1, -1))
        return cells.count(), cells.count(up), cells.count(down)

    def judge_sums(self, sums: tuple[Lanes, ...], keep: float) -> JudgedCells:
        """Test every cell from the counts."""
        size, up, down = sums
        return judge_changes(size, up, down, self.direction, self.min_size)

    def take(self, rows: Rows) -> RateChanges:
        """Keep some of the rows."""
        return replace(self, change=self.change[rows])

    def shuffled(self, rng: np.random.Generator) -> RateChanges:
        """Exchange the models on a random half of the examples."""
        signs = rng.integers(0, 2, self.rows, np.int8) * np.int8(2) - np.int8(1)
        return replace(self, change=self.change * signs)


def judge_rates(
    size: Rows,
    events: Rows,
    whole: tuple[int, int],
    direction: Direction,
    min_size: int,
    keep: float,
) -> JudgedCells:
    """Test rates by Fisher's exact test from counts, wherever they were added up.

    Args:
        size: Rows of every cell, shape (cells,).
        events: Those with the event.
        whole: Events and rows of all.
        direction: Which side counts.
        min_size: Rows that a cell must hold to be tested; it must leave a rest.
        keep: P-values beyond this interest nobody.
    """
    K, N = whole
    cell = np.flatnonzero((size >= max(min_size, 1)) & (size < N))
    n, k = size[cell], events[cell]
    upper = lower = np.ones(n.shape)
    keep = keep if direction != "both" else keep / 2
    if direction != "lower":
        upper = hypergeometric_tail(k, n, K, N, keep=keep)
    if direction != "higher":
        lower = hypergeometric_tail(n - k, n, N - K, N, keep=keep)
    effect = k / n - (K - k) / (N - n)
    return JudgedCells(size, cell, effect, two_sided(upper, lower, direction))


def rate_effect(k: int, n: int, whole: tuple[int, int], level: float) -> Estimate:
    """Estimate the rate of k events in n rows minus that of the rest, with Newcombe's interval.

    Args:
        k: Events in the slice.
        n: Rows of the slice.
        whole: Events and rows of all.
        level: Coverage, a fraction in (0, 1).
    """
    j, m = whole[0] - k, whole[1] - n
    if n == 0 or m == 0:
        where = "no examples in the slice" if n == 0 else "no examples outside the slice"
        return undefined(f"undefined ({where})", n=n, members=1, level=level)
    low, high = newcombe(k, n, j, m, level)
    nan = math.nan
    return Estimate(k / n - j / m, low, high, n, 1, float(k), nan, level, note=few_runs(1))


def judge_changes(
    size: Rows, up: Rows, down: Rows, direction: Direction, min_size: int
) -> JudgedCells:
    """Test changes by McNemar's exact test from counts, wherever they were added up.

    Args:
        size: Rows of every cell, shape (cells,).
        up: Those on which only the second model has the event.
        down: Those on which only the first has it.
        direction: Which side counts.
        min_size: Rows that a cell must hold to be tested.
    """
    cell = np.flatnonzero(size >= max(min_size, 1))
    n, worse, better = size[cell], up[cell], down[cell]
    upper, lower = sign_tail(worse, worse + better), sign_tail(better, worse + better)
    return JudgedCells(size, cell, (worse - better) / n, two_sided(upper, lower, direction))


def newcombe(k: int, n: int, j: int, m: int, level: float) -> tuple[float, float]:
    """Compute the interval of the difference k/n - j/m of two independent rates.

    Args:
        k: Events among the first n rows, n at least 1.
        n: Rows of the first rate.
        j: Events among the m rows of the second.
        m: Rows of the second rate, at least 1.
        level: Coverage, a fraction in (0, 1).

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
