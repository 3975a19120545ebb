"""What a search asks of an outcome, and the exact answers for one model's or two models' rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from scotoma.slices.tails import hypergeometric_tail, sign_tail
from scotoma.slices.tally import Keys, count

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Direction = Literal["higher", "lower", "both"]


@dataclass(frozen=True)
class Judged:
    """What became of the cells of a block.

    Attributes:
        size: Rows of every cell, shape (cells,).
        cell: The cells that were tested, ascending, shape (T,).
        effect: Their metric minus what it is compared with, shape (T,).
        p: Their p-values, shape (T,); those certain to exceed the search's `keep` may be 1.
    """

    size: npt.NDArray[np.intp]
    cell: Rows
    effect: Floats
    p: Floats


class Evidence(Protocol):
    """An outcome of every row, and the test that a slice's rows are judged by."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def least(self) -> int:
        """Rows that a slice must hold to be tested."""

    def judge(self, keys: Keys, cells: int, keep: float) -> Judged:
        """Test every cell.

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            cells: Cells of all subsets together.
            keep: P-values beyond this interest nobody.
        """

    def take(self, rows: Rows) -> Self:
        """The same evidence on some of the rows."""

    def shuffled(self, rng: np.random.Generator) -> Self:
        """The outcome as it might be if no slice meant anything."""


def two_sided(upper: Floats, lower: Floats, direction: Direction) -> Floats:
    """The p-value in the direction asked: twice the smaller tail for both.

    >>> two_sided(np.array([0.01]), np.array([0.995]), "both")
    array([0.02])
    """
    if direction == "higher":
        return upper
    return lower if direction == "lower" else np.minimum(2.0 * np.minimum(upper, lower), 1.0)


@dataclass(frozen=True)
class Rates:
    """One model's rate in the slice against its rate in the rest: Fisher's exact test.

    Attributes:
        events: Whether the event happened, shape (N,).
        direction: Which side counts as found.
        least: Rows that a slice must hold to be tested.

    >>> rates = Rates(np.array([True, True, False, False]), "higher", 1)
    >>> rates.judge(np.array([[0, 0, 1, 1]]), 2, 1.0).p.round(4)
    array([0.1667, 1.    ])
    """

    events: Flags
    direction: Direction
    least: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.events.size

    def judge(self, keys: Keys, cells: int, keep: float) -> Judged:
        """Test every cell that holds enough rows and leaves a rest."""
        size = count(keys, cells)
        hits = count(np.take(keys, np.flatnonzero(self.events), axis=1), cells)
        cell = np.flatnonzero((size >= max(self.least, 1)) & (size < self.rows))
        n, k, K, N = size[cell], hits[cell], int(self.events.sum()), self.rows
        effect = k / n - (K - k) / (N - n)
        upper = lower = np.ones(n.shape)
        keep = keep if self.direction != "both" else keep / 2
        if self.direction != "lower":
            upper = hypergeometric_tail(k, n, K, N, keep=keep)
        if self.direction != "higher":
            lower = hypergeometric_tail(n - k, n, N - K, N, keep=keep)
        return Judged(size, cell, effect, two_sided(upper, lower, self.direction))

    def take(self, rows: Rows) -> Rates:
        """The same evidence on some of the rows."""
        return replace(self, events=self.events[rows])

    def shuffled(self, rng: np.random.Generator) -> Rates:
        """The outcomes in random order."""
        return replace(self, events=rng.permutation(self.events))


@dataclass(frozen=True)
class Changes:
    """Two models on the same slice: McNemar's exact test of the examples on which they differ.

    Attributes:
        change: 1 where only the second model has the event, -1 where only the first has it.
        direction: Which side counts as found.
        least: Rows that a slice must hold to be tested.

    >>> changes = Changes(np.array([1, 1, 1, 0, -1, 0]), "higher", 1)
    >>> changes.judge(np.array([[0, 0, 0, 0, 1, 1]]), 2, 1.0).p
    array([0.125, 1.   ])
    """

    change: npt.NDArray[np.int8]
    direction: Direction
    least: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.change.size

    def judge(self, keys: Keys, cells: int, keep: float) -> Judged:
        """Test every cell that holds enough rows; without a change p is 1."""
        size = count(keys, cells)
        up = count(np.take(keys, np.flatnonzero(self.change > 0), axis=1), cells)
        down = count(np.take(keys, np.flatnonzero(self.change < 0), axis=1), cells)
        cell = np.flatnonzero(size >= max(self.least, 1))
        n, worse, better = size[cell], up[cell], down[cell]
        upper, lower = sign_tail(worse, worse + better), sign_tail(better, worse + better)
        p = two_sided(upper, lower, self.direction)
        return Judged(size, cell, (worse - better) / n, p)

    def take(self, rows: Rows) -> Changes:
        """The same evidence on some of the rows."""
        return replace(self, change=self.change[rows])

    def shuffled(self, rng: np.random.Generator) -> Changes:
        """The models exchanged on a random half of the examples."""
        signs = rng.integers(0, 2, self.rows, np.int8) * np.int8(2) - np.int8(1)
        return replace(self, change=self.change * signs)
