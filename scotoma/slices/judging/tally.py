"""The one step that grows with the data: the sum of some numbers over the rows of every slice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

Keys = npt.NDArray[np.integer[Any]]
Lanes = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]
Part = tuple[Rows | None, Lanes | None]  # rows that add to a sum, and what; None: all, 1 each
Sums = tuple[Lanes, ...]  # of each cell, shape (cells,) or (cells, W); the first counts its rows


class Tallied(Protocol):
    """Cells whose rows can be summed, whichever way that is cheapest."""

    @property
    def keys(self) -> Keys:
        """Cell of each row under each of G feature subsets, shape (G, N)."""

    @property
    def number(self) -> int:
        """Cells of all subsets together."""

    def add(self, rows: Rows | None = None, lanes: Lanes | None = None) -> Lanes:
        """Sum lanes over all rows of each cell, or over some; without lanes count them."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of some feature subsets, by the cell of each row.

    >>> cells = Cells(np.array([[0, 1, 1]]), 2)
    >>> cells.add(), cells.add(np.array([1]))
    (array([1, 2]), array([0, 1]))
    """

    keys: Keys
    number: int

    def add(self, rows: Rows | None = None, lanes: Lanes | None = None) -> Lanes:
        """Sum lanes over all rows of each cell, or over some; without lanes count them."""
        keys = self.keys if rows is None else np.take(self.keys, rows, axis=1)
        if lanes is None:
            return count_keys(keys, self.number)
        return tally_lanes(keys, self.number, lanes)


def count_keys(keys: Keys, cells: int) -> Rows:
    """Count the rows in each cell.

    Args:
        keys: Cell of each row under each of G feature subsets, shape (G, N), integers below
            `cells`.
        cells: Cells of all subsets together.

    >>> count_keys(np.array([[0, 1, 1, 0], [2, 2, 3, 2]]), 4)
    array([2, 2, 3, 1])
    """
    return np.bincount(keys.ravel(), minlength=cells)


def tally_lanes(keys: Keys, cells: int, lanes: Lanes) -> Lanes:
    """Sum every lane over the rows of each cell.

    The product of a sparse matrix, cells x rows with a 1 where a row lies in a cell, with the
    lanes: one pass over the rows, whose lanes are added G times while they are at hand.

    Args:
        keys: Cell of each row under each of G feature subsets, shape (G, N).
        cells: Cells of all subsets together.
        lanes: Numbers of each row, shape (N, W). Sums of small integer types must fit the type:
            see `narrow`.

    Returns:
        Sums, shape (cells, W), of the type of the lanes.

    >>> tally_lanes(np.array([[0, 1, 1]]), 2, np.array([[1, 10], [2, 20], [3, 30]])).tolist()
    [[1, 10], [5, 50]]
    """
    subsets, rows = keys.shape
    columns = np.ascontiguousarray(keys.T, dtype=np.int32).ravel()
    starts = np.arange(0, columns.size + 1, subsets, dtype=np.int32)
    ones = _ones(columns.size, lanes.dtype)
    members = sparse.csc_array((ones, columns, starts), shape=(cells, rows))
    return np.asarray(members @ np.ascontiguousarray(lanes))


@lru_cache(maxsize=4)
def _ones(size: int, dtype: np.dtype[Any]) -> Lanes:
    """Make the sparse matrix's entries, the same for block after block."""
    return np.ones(size, dtype)


def narrow(lanes: npt.NDArray[np.int64]) -> Lanes:
    """Convert integer lanes to the smallest type that holds the sum of each, and of any slice.

    Args:
        lanes: Integers at least 0, shape (N, W).

    >>> narrow(np.array([[1, 2], [300, 4]])).dtype, narrow(np.array([[1, 2], [70_000, 4]])).dtype
    (dtype('uint16'), dtype('uint32'))
    """
    largest = int(lanes.sum(0).max(initial=0))
    for kind in (np.uint16, np.uint32):
        if largest <= np.iinfo(kind).max:
            return lanes.astype(kind)
    return lanes
