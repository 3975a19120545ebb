"""What a search asks of an outcome and of the test that judges its slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.slices.evidence.tally import Keys, Lanes, Rows, Tallied

Direction = Literal["higher", "lower", "both"]


@dataclass(frozen=True)
class JudgedCells:
    """The results of testing the cells of a block.

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
    def min_size(self) -> int:
        """Rows that a slice must hold to be tested."""

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs, which bounds the cells of a block."""

    def with_min_size(self, min_size: int) -> Self:
        """Return the same evidence with another smallest slice."""

    def judge(self, keys: Keys, cells: int, keep: float) -> JudgedCells:
        """Test every cell.

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            cells: Cells of all subsets together.
            keep: P-values beyond this interest nobody.
        """

    def take(self, rows: Rows) -> Self:
        """Keep some of the rows."""

    def shuffled(self, rng: np.random.Generator) -> Self:
        """Shuffle the outcome, so that no slice means anything."""


@runtime_checkable
class Additive(Evidence, Protocol):
    """Evidence whose test asks for nothing but sums over a slice's rows."""

    @property
    def exact(self) -> bool:
        """Whether sums of sums are the sums to the last digit: they are of whole numbers."""

    def sums(self, cells: Tallied) -> tuple[Lanes, ...]:
        """Sum over the rows of every cell, arrays of shape (cells,) or (cells, W)."""

    def judge_sums(self, sums: tuple[Lanes, ...], keep: float) -> JudgedCells:
        """Test every cell from its sums, wherever they were added up."""
