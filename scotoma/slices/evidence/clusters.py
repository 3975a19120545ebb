"""Rows of one cluster are one unit of the variance, of the shuffle and of the halves."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Codes, Floats
from scotoma.slices.evidence.tally import Keys


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """What the clusters add to the slices of a block: one unit a slice and cluster that meet.

    Attributes:
        cell: The slice of each unit, shape (U,).
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

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            clusters: Code of each row's cluster, shape (N,), at least 0.
            values: Numbers of each row, shape (N, W).

        >>> values = np.array([[1.0], [2.0], [4.0]])
        >>> units = ClusterSums.of(np.array([[0, 0, 1]]), np.array([4, 4, 4]), values)
        >>> units.cell.tolist(), units.rows.tolist(), units.sums.ravel().tolist()
        ([0, 1], [2.0, 1.0], [3.0, 4.0])
        """
        many = int(clusters.max(initial=0)) + 1
        met = (keys.astype(np.int64) * many + clusters).ravel()
        order = np.argsort(met)
        met = met[order]
        starts = np.flatnonzero(np.concatenate([[True], met[1:] != met[:-1]]))
        rows = np.diff(starts, append=met.size).astype(np.float64)
        sums = np.add.reduceat(values[order % len(values)], starts, axis=0)
        cell, cluster = np.divmod(met[starts], many)
        return cls(cell, cluster, rows, sums)


@dataclass(frozen=True, eq=False)
class Rest:
    """What slices are compared with: all rows but theirs.

    Attributes:
        whole: The clusters of all rows, one unit each.
        mean: Mean of the first value in each cell, shape (cells,).
        rest: Mean of it outside each cell.
    """

    whole: ClusterSums
    mean: Floats
    rest: Floats


@dataclass(frozen=True, eq=False)
class ClusterVariance:
    """The variance of slices' effects over clusters, shape (T,) each.

    Attributes:
        variance: V_ex: the sum over clusters of their squared influence on the effect.
        df: Its degrees of freedom, 2 C / (kurtosis of the influence - 1) over C clusters.
        carried: Sums over clusters of the squared carriers.
        met: Clusters that have rows in the slice.
    """

    variance: Floats
    df: Floats
    carried: Floats
    met: Floats

    def take(self, chosen: npt.NDArray[np.bool_ | np.intp]) -> ClusterVariance:
        """The same of some of the slices."""
        return ClusterVariance(
            self.variance[chosen], self.df[chosen], self.carried[chosen], self.met[chosen]
        )

    @classmethod
    def of(
        cls, units: ClusterSums, cells: int, cell: Codes, n: Floats, compared: Rest | None
    ) -> ClusterVariance:
        """Add up the influences of the clusters.

        With S the sum over a cluster's m rows in the slice, n rows in all, the influence is S / n
        against nothing, and (S - m mean) / n - (S' - m' rest) / n' against the rest, where the
        cluster has m' rows with sum S'. The sum of squares is multiplied by C / (C - 1).

        Args:
            units: Sums of values and carriers, two columns.
            cells: Number of cells.
            cell: The cells asked for, ascending, shape (T,).
            n: Their rows.
            compared: The rest; None against nothing.
        """

        def add(values: Floats) -> Floats:
            return np.asarray(np.bincount(units.cell, values, cells)[cell], np.float64)

        size = np.ones(cells)
        size[cell] = n
        own = units.sums[:, 0] / size[units.cell]
        met = add(np.ones(units.rows.size))
        counted = met
        second, fourth = np.zeros(n.size), np.zeros(n.size)
        if compared is not None:
            whole, rest = compared.whole, compared.rest
            others = whole.rows.sum() - size
            centred = units.sums[:, 0] - units.rows * compared.mean[units.cell]
            at = np.searchsorted(whole.cluster, units.cluster)
            there = whole.sums[at, 0] - whole.rows[at] * rest[units.cell]
            here = units.sums[:, 0] - units.rows * rest[units.cell]
            own = centred / size[units.cell] - (there - here) / others[units.cell]
            away = there / others[units.cell]
            second = _power(whole, rest[cell], 2) / others[cell] ** 2 - add(away**2)
            fourth = _power(whole, rest[cell], 4) / others[cell] ** 4 - add(away**4)
            counted = np.full(n.size, float(whole.rows.size))
        second, fourth = second + add(own**2), fourth + add(own**4)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(second > 0, counted * fourth / second**2 - 1.0, 0.0)
        return cls(
            second * counted / np.maximum(counted - 1, 1),
            2 * counted / np.maximum(excess, 1e-12),
            add(units.sums[:, 1] ** 2),
            met,
        )


def _power(whole: ClusterSums, mean: Floats, power: int) -> Floats:
    """Sum over clusters of (S - m mean)^power for each of some means, by the binomial formula."""
    s, m = whole.sums[:, 0], whole.rows
    terms = [
        comb(power, i) * (s ** (power - i) * m**i).sum() * (-mean) ** i for i in range(power + 1)
    ]
    return np.asarray(np.sum(terms, axis=0))


def shuffle(rows: int, clusters: Codes | None, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Which row's outcome each row gets, so that outcomes mean nothing but stay together.

    The outcomes of a cluster go to another cluster as a whole, in random order within; where
    clusters differ in size, the next ones share what remains.

    Args:
        rows: Number of rows.
        clusters: Code of each row's cluster, shape (N,); None where every row is its own.
        rng: What is random.

    >>> moved = shuffle(4, np.array([0, 1, 0, 1]), np.random.default_rng(0))
    >>> len({m % 2 for m in moved[[0, 2]].tolist()})
    1
    """
    if clusters is None:
        return rng.permutation(rows)
    new = np.empty(rows, np.intp)
    lots = [rng.permutation(int(clusters.max(initial=0)) + 1)[clusters] for _ in range(2)]
    there, here = (np.lexsort((rng.random(rows), lot)) for lot in lots)
    new[there] = here
    return new


def signs(rows: int, clusters: Codes | None, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """A coin for each row, the same for rows of one cluster, shape (N,)."""
    many = rows if clusters is None else int(clusters.max(initial=0)) + 1
    coins = rng.integers(0, 2, many).astype(np.bool_)
    return coins if clusters is None else np.asarray(coins[clusters])
