"""How much do effects vary over clusters, and how are the outcomes of clusters shuffled?"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Codes, Floats
from scotoma.slices.evidence.tally import Keys


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

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            clusters: Code of each row's cluster, shape (N,), at least 0.
            values: Numbers of each row, shape (N, W).

        >>> values = np.array([[1.0], [2.0], [4.0]])
        >>> pairs = ClusterSums.of(np.array([[0, 0, 1]]), np.array([4, 4, 4]), values)
        >>> pairs.cell.tolist(), pairs.rows.tolist(), pairs.sums.ravel().tolist()
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
    """All rows outside each slice, which it is compared with.

    Attributes:
        whole: The clusters of all rows.
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
        event_squares: Sums over clusters of their squared events.
        clusters: Clusters that have rows in the slice.
    """

    variance: Floats
    df: Floats
    event_squares: Floats
    clusters: Floats

    def take(self, chosen: npt.NDArray[np.bool_ | np.intp]) -> ClusterVariance:
        """Keep some of the slices."""
        return ClusterVariance(
            self.variance[chosen],
            self.df[chosen],
            self.event_squares[chosen],
            self.clusters[chosen],
        )

    @classmethod
    def of(
        cls, pairs: ClusterSums, cells: int, cell: Codes, n: Floats, compared: Rest | None
    ) -> ClusterVariance:
        """Add up the influences of the clusters.

        With S the sum over a cluster's m rows in the slice, n rows in all, the influence is S / n
        against nothing, and (S - m mean) / n - (S' - m' rest) / n' against the rest, where the
        cluster has m' rows with sum S'. The sum of squares is multiplied by C / (C - 1).

        Args:
            pairs: Sums of values and of their events, two columns.
            cells: Number of cells.
            cell: The cells asked for, ascending, shape (T,).
            n: Their rows.
            compared: The rest; None against nothing.
        """

        def add(values: Floats) -> Floats:
            return np.asarray(np.bincount(pairs.cell, values, cells)[cell], np.float64)

        size = np.ones(cells)
        size[cell] = n
        own = pairs.sums[:, 0] / size[pairs.cell]
        clusters = add(np.ones(pairs.rows.size))
        counted = clusters
        second, fourth = np.zeros(n.size), np.zeros(n.size)
        if compared is not None:
            whole, rest = compared.whole, compared.rest
            others = whole.rows.sum() - size
            centred = pairs.sums[:, 0] - pairs.rows * compared.mean[pairs.cell]
            at = np.searchsorted(whole.cluster, pairs.cluster)
            there = whole.sums[at, 0] - whole.rows[at] * rest[pairs.cell]
            here = pairs.sums[:, 0] - pairs.rows * rest[pairs.cell]
            own = centred / size[pairs.cell] - (there - here) / others[pairs.cell]
            away = there / others[pairs.cell]
            second = _power(whole, rest[cell], 2) / others[cell] ** 2 - add(away**2)
            fourth = _power(whole, rest[cell], 4) / others[cell] ** 4 - add(away**4)
            counted = np.full(n.size, float(whole.rows.size))
        second, fourth = second + add(own**2), fourth + add(own**4)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(second > 0, counted * fourth / second**2 - 1.0, 0.0)
        return cls(
            second * counted / np.maximum(counted - 1, 1),
            2 * counted / np.maximum(excess, 1e-12),
            add(pairs.sums[:, 1] ** 2),
            clusters,
        )


def _power(whole: ClusterSums, mean: Floats, power: int) -> Floats:
    """Add up over clusters (S - m mean)^power for each of some means, by the binomial formula."""
    s, m = whole.sums[:, 0], whole.rows
    terms = [
        comb(power, i) * (s ** (power - i) * m**i).sum() * (-mean) ** i for i in range(power + 1)
    ]
    return np.asarray(np.sum(terms, axis=0))


def shuffle(rows: int, clusters: Codes | None, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Draw the row whose outcome each row gets; outcomes of a cluster stay together.

    The outcomes of a cluster go to another cluster as a whole, in random order within; where
    clusters differ in size, the next ones share what remains.

    Args:
        rows: Number of rows.
        clusters: Code of each row's cluster, shape (N,); None where every row is its own.
        rng: The generator.

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
    """Toss a coin for each row, the same for rows of one cluster, shape (N,)."""
    many = rows if clusters is None else int(clusters.max(initial=0)) + 1
    coins = rng.integers(0, 2, many).astype(np.bool_)
    return coins if clusters is None else np.asarray(coins[clusters])
