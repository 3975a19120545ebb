"""The one step that grows with the data: the sum of some numbers over the rows of every slice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from scotoma.numbers.inputs import Codes, Flags, Floats

Keys = npt.NDArray[np.integer[Any]]
Lanes = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]
Part = tuple[Rows | None, Lanes | None]  # rows that add to a sum, and what; None: all, 1 each
Sums = tuple[Lanes, ...]  # of each cell, shape (cells,) or (cells, W); the first counts its rows


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of some feature subsets, whose rows can be summed.

    Attributes:
        keys: Cell of each row under each of G feature subsets, shape (G, N).
        number: Cells of all subsets together.

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
            return np.bincount(keys.ravel(), minlength=self.number)
        return tally_lanes(keys, self.number, lanes)


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


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums over the rows of each cluster in each slice of a block, for each pair that shares rows.

    Attributes:
        cell: The slice of each pair, shape (U,).
        cluster: Its cluster.
        rows: Rows of the cluster in the slice.
        sums: Their sum of every value, shape (U, W).
    """

    cell: npt.NDArray[np.intp]
    cluster: Codes
    rows: Floats
    sums: Floats

    @classmethod
    def of(cls, keys: Keys, clusters: Codes, values: Floats) -> ClusterSums:
        """Sum the rows of each cluster in each slice.

        >>> values = np.array([[1.0], [2.0], [4.0]])
        >>> pairs = ClusterSums.of(np.array([[0, 0, 1]]), np.array([4, 4, 4]), values)
        >>> pairs.cell.tolist(), pairs.rows.tolist(), pairs.sums.ravel().tolist()
        ([0, 1], [2.0, 1.0], [3.0, 4.0])
        """
        many = int(clusters.max(initial=0)) + 1
        met = (keys.astype(np.int64) * many + clusters).ravel()
        order = np.argsort(met)
        met = met[order]
        starts = np.flatnonzero(np.diff(met, prepend=-1))  # none of no rows: a half may be empty
        rows = np.diff(starts, append=met.size).astype(np.float64)
        sums = np.add.reduceat(values[order % len(values)], starts, axis=0)
        cell, cluster = np.divmod(met[starts], many)
        return cls(cell, cluster, rows, sums)


class ClusterVariance(NamedTuple):
    """The variance of slices' effects over clusters, shape (T,) each.

    Attributes:
        variance: V_ex: the sum over clusters of their squared influence on the effect.
        df: Its degrees of freedom, 2 C / (kurtosis of the influence - 1) over C clusters.
        event_squares: Sums over clusters of their squared events.
        clusters: Clusters that have rows in the slice.
    """

    variance: Floats
    df: Floats
    event_squares: Floats
    clusters: Floats

    def take(self, chosen: Flags | Rows) -> ClusterVariance:
        """Keep some of the slices."""
        return ClusterVariance(*(own[chosen] for own in self))

    @classmethod
    def of(
        cls, pairs: ClusterSums, size: Rows, cell: Rows, whole: ClusterSums | None
    ) -> ClusterVariance:
        """Add up the influences of the clusters.

        With S the sum over a cluster's m rows in the slice, n rows in all, the influence is S / n
        against nothing, and (S - m mean) / n - (S' - m' rest) / n' against the rest, where the
        cluster has m' rows with sum S'. The sum of squares is multiplied by C / (C - 1).

        Args:
            pairs: What each cluster has in each slice.
            size: Rows of every slice.
            cell: The slices that are asked for.
            whole: What each cluster has in all rows; None against nothing.
        """

        def add(values: Floats) -> Floats:
            return np.asarray(np.bincount(pairs.cell, values, size.size), np.float64)

        with np.errstate(divide="ignore", invalid="ignore"):
            sums, rows, n = pairs.sums[:, 0], pairs.rows, size[pairs.cell]
            own = sums / n
            clusters = counted = add(np.ones(rows.size))
            second = fourth = np.zeros(size.size)
            if whole is not None:
                inside, outside = add(sums), whole.rows.sum() - size
                rest = (whole.sums[:, 0].sum() - inside) / outside
                at = np.searchsorted(whole.cluster, pairs.cluster)
                there = whole.sums[at, 0] - whole.rows[at] * rest[pairs.cell]
                here = sums - rows * rest[pairs.cell]
                far = outside[pairs.cell]
                own = (sums - rows * (inside / size)[pairs.cell]) / n - (there - here) / far
                second = _power(whole, rest, 2) / outside**2 - add((there / far) ** 2)
                fourth = _power(whole, rest, 4) / outside**4 - add((there / far) ** 4)
                counted = np.full(size.size, float(whole.rows.size))
            second, fourth = second + add(own**2), fourth + add(own**4)
            excess = np.where(second > 0, counted * fourth / second**2 - 1.0, 0.0)
        variance = cls(
            second * counted / np.maximum(counted - 1, 1),
            2 * counted / np.maximum(excess, 1e-12),
            add(pairs.sums[:, 1] ** 2),
            clusters,
        )
        return variance.take(cell)


def _power(whole: ClusterSums, mean: Floats, power: int) -> Floats:
    """Add up over clusters (S - m mean)^power for each of some means, by the binomial formula."""
    s, m = whole.sums[:, 0], whole.rows
    terms = [
        comb(power, i) * (s ** (power - i) * m**i).sum() * (-mean) ** i for i in range(power + 1)
    ]
    return np.asarray(np.sum(terms, axis=0))
