"""The counterfactual fliptest: what the model says of a member's likes in the other facet.

The prediction for a member of d "as a member of a" is the majority of its k nearest neighbours in
a. Where rows tie for the last seats among the k, every choice of them counts equally: the answer is
the expectation over them, exact, and does not depend on the order of the rows. Without ties it is
the count of flips.

Its interval comes from leaving out one example at a time (the jackknife). A left-out member of a
gives its seat to the next nearest row, so that each neighbourhood needs three layers: the rows
surely inside (`inner`), those that tie for the last seats (`edge`), and the next nearest (`outer`).
By the inequality of Efron and Stein (1981, Annals of Statistics 9:586-596) the jackknife errs, if
at all, towards intervals that are too wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

NEIGHBOURS = 5
FEW_ROWS = 9  # at or below as many rows in a, one neighbour is taken
_SAME = 1e-12  # relative difference of distances below which they tie
_CHUNK = 2_000_000  # distances held at once


@dataclass(frozen=True)
class Fliptest:
    """The fliptest on each member.

    Attributes:
        values: Shape (K,).
        influences: Of every example on every member, shape (N, K), times N; nan where a has a
            single row, so that leaving it out leaves nobody to compare with.
        flips: Probability that a member of d is predicted otherwise by its neighbours, shape
            (N, K); 0 for a.
    """

    values: Array
    influences: Array
    flips: Array

    def split(self, members: list[int]) -> list[Fliptest]:
        """The tests of populations of these sizes, whose members were tested together."""
        ends = np.cumsum(members)[:-1]
        parts = (np.split(own, ends, axis=-1) for own in (self.values, self.influences, self.flips))
        return [Fliptest(*own) for own in zip(*parts, strict=True)]


@dataclass(frozen=True)
class _Block:
    """Neighbourhoods of some distinct rows of d; matrices of shape (rows, distinct rows of a)."""

    rows: slice
    inner: csr_matrix
    edge: csr_matrix
    outer: csr_matrix


def fliptest(features: npt.ArrayLike, d: Bools, p: Bools) -> Fliptest:
    """Fliptest of every member of a population.

    Args:
        features: Numbers by which rows are alike, shape (N, F), in Euclidean distance as they
            stand: bring them to one scale first.
        d: Disadvantaged or not, shape (N,); both facets occur.
        p: Positive predictions, shape (N, K).

    Returns:
        Values, influences and flips. A positive value is worse for d: its likes in a are predicted
        positive more often than itself.

    References:
        Black, Yeom and Fredrikson (2020), FlipTest; k nearest neighbours as in SageMaker Clarify.

    >>> import numpy as np
    >>> d = np.array([False, False, True, True])
    >>> p = np.array([[True], [False], [False], [False]])
    >>> fliptest([[0.0], [9.0], [1.0], [8.0]], d, p).values
    array([0.5])
    """
    x = np.asarray(features, np.float64)
    rows_a, of_a, size_a = _distinct(x[~d])
    rows_d, of_d, size_d = _distinct(x[d])
    n, n_a, n_d = d.size, int((~d).sum()), int(d.sum())
    k = NEIGHBOURS if n_a > FEW_ROWS else 1
    whose = csr_matrix((np.ones(n_a), of_a, np.arange(n_a + 1)), shape=(n_a, len(rows_a)))
    positive = whose.T @ p[~d]

    expected = np.empty((len(rows_d), p.shape[1]))
    without = np.zeros((2, len(rows_a), p.shape[1]))  # by the vote of the row left out
    for block in _neighbourhoods(rows_a, size_a, rows_d, k):
        vote = _Votes(block, size_a, positive, k)
        expected[block.rows] = vote.probability()
        weight = size_d[block.rows, None]
        for left_out in (0, 1):
            inside, tied = vote.without(left_out)
            without[left_out] += block.inner.T @ (weight * (inside - expected[block.rows]))
            without[left_out] += block.edge.T @ (weight * (tied - expected[block.rows]))

    gap = expected[of_d] - p[d]
    values = gap.mean(axis=0)
    influences = np.empty(p.shape)
    influences[d] = (gap - values) * n / n_d
    moved = np.where(p[~d], without[1][of_a], without[0][of_a]) / n_d
    influences[~d] = -n * (moved - moved.mean(axis=0)) if n_a > 1 else np.nan
    flips = np.zeros(p.shape)
    flips[d] = np.abs(gap)
    return Fliptest(values, influences, flips)


def _distinct(x: Array) -> tuple[Array, Indices, Indices]:
    """Distinct rows, which of them each row is, and how often each occurs.

    Rows are told apart by one number that equal rows share: `numpy.unique` by rows takes ten times
    as long. Should other rows share a number too, all columns decide.
    """
    # Weights that no data set was made for; with no columns all rows are alike.
    key, weights = np.zeros(len(x)), np.random.default_rng(0).normal(size=(x.shape[1],))
    with np.errstate(over="ignore", invalid="ignore"):
        for place, weight in enumerate(weights):
            key += weight * x[:, place]
    # Of equal rows any will do: without `return_index` the sort need not be stable, and is faster.
    _, which, times = np.unique(key, return_inverse=True, return_counts=True)
    first = np.zeros(len(times), np.intp)
    first[which] = np.arange(len(x))
    if (x[first][which] != x).any():
        _, first, which, times = np.unique(
            x, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
    return x[first], which.ravel(), times


class _Votes:
    """The votes of a block's neighbourhoods, one column per member."""

    def __init__(self, block: _Block, size: Indices, positive: Array, k: int) -> None:
        self.need = k // 2 + 1
        self.inner, self.edge = block.inner @ positive, block.edge @ positive
        self.tied = (block.edge @ size)[:, None].astype(np.float64)
        self.seats = k - (block.inner @ size)[:, None].astype(np.float64)
        after = (block.outer @ size)[:, None].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            # A neighbourhood of all rows of a has no next row: one vote less, and none instead.
            self.next = np.where(after > 0, (block.outer @ positive) / after, 0.0)
        self.real = (self.tied > self.seats)[:, 0]  # elsewhere all of the edge has its seat

    def probability(self) -> Array:
        """Probability of a positive majority, shape (rows, K)."""
        sure = (self.inner + self.edge >= self.need).astype(np.float64)
        return self._drawn(sure)

    def without(self, vote: int) -> tuple[Array, Array]:
        """The same when a row of that vote is left out, from the inside and from the edge."""
        filled = self.inner + self.edge - vote  # no real tie: all stay, and the next row joins
        replaced = (1 - self.next) * (filled >= self.need) + self.next * (filled + 1 >= self.need)
        return self._drawn(replaced, inside=vote, seats=1), self._drawn(replaced, 1, vote)

    def _drawn(
        self, sure: Array, tied: int = 0, positive: int = 0, inside: int = 0, seats: int = 0
    ) -> Array:
        """`sure`, but where there is a real tie by drawing from the edge less the rows given."""
        real = self.real
        chance = sure.copy()
        chance[real] = _majority(
            self.need - self.inner[real] + inside,
            self.tied[real] - tied,
            self.edge[real] - positive,
            self.seats[real] + seats,
        )
        return chance


def _majority(need: Array, tied: Array, positive: Array, seats: Array) -> Array:
    """P(H >= need), H the positives among `seats` rows drawn from `tied`, `positive` of them so."""
    of_positive, of_others = _ways(positive), _ways(tied - positive)
    total = np.zeros(positive.shape)
    for drawn in range(NEIGHBOURS + 1):  # seats <= k: all that H can be
        ways = of_positive[drawn] * _chosen(of_others, np.maximum(seats - drawn, 0))
        total += np.where((drawn >= need) & (drawn <= seats), ways, 0.0)
    return np.minimum(total / np.maximum(_chosen(_ways(tied), seats), 1.0), 1.0)


def _ways(n: Array) -> Array:
    """Ways to choose 0 to k + 1 of n, shape (k + 2, *n.shape); 0 where n is less than chosen.

    As a table it takes a tenth of the time of `scipy.special.comb`, entry by entry.
    """
    ways = np.ones((NEIGHBOURS + 2, *n.shape))
    for chosen in range(NEIGHBOURS + 1):
        ways[chosen + 1] = ways[chosen] * np.maximum(n - chosen, 0.0) / (chosen + 1)
    return ways


def _chosen(ways: Array, number: Array) -> Array:
    return np.choose(number.astype(np.intp), ways)


def _neighbourhoods(rows_a: Array, size_a: Indices, rows_d: Array, k: int) -> Iterator[_Block]:
    """Layers of neighbours of each distinct row of d, a block of rows at a time."""
    tree = cKDTree(rows_a, leafsize=32, balanced_tree=False, compact_nodes=False)
    start, width = 0, min(len(rows_a), k + 3)
    while start < len(rows_d):
        stop = min(len(rows_d), start + max(1, _CHUNK // width))
        layers = _layers(tree, size_a, rows_d[start:stop], k, width)
        if layers is None:  # ties reach so far that the block is too large
            width = min(len(rows_a), 2 * width)
            continue
        yield _Block(slice(start, stop), *layers)
        start = stop


def _layers(
    tree: cKDTree, size: Indices, rows: Array, k: int, width: int
) -> tuple[csr_matrix, csr_matrix, csr_matrix] | None:
    """Inner, edge and outer neighbours; None where too many rows have ties far beyond `width`."""
    pairs_of_layer: list[list[tuple[Indices, Indices]]] = [[], [], []]
    pending, beyond = np.arange(len(rows)), width
    while pending.size:
        if beyond > width and pending.size * beyond > _CHUNK and len(rows) > 1:
            return None
        far, who = (
            np.asarray(part) for part in tree.query(rows[pending], np.arange(1, beyond + 1))
        )
        whole, *layers = _told_apart(far, size[who], k)
        if beyond == size.size:
            whole[:] = True
        for pairs, layer in zip(pairs_of_layer, layers, strict=True):
            at, rank = np.nonzero(layer & whole[:, None])
            pairs.append((pending[at], who[at, rank]))
        pending, beyond = pending[~whole], min(size.size, 2 * beyond)
    inner, edge, outer = (_matrix(pairs, (len(rows), size.size)) for pairs in pairs_of_layer)
    return inner, edge, outer


def _matrix(pairs: list[tuple[Indices, Indices]], shape: tuple[int, int]) -> csr_matrix:
    """Ones at (row, column), from runs of rows in ascending order."""
    at, column = (np.concatenate(part) for part in zip(*pairs, strict=True))
    if len(pairs) > 1:
        order = np.argsort(at, kind="stable")
        at, column = at[order], column[order]
    starts = np.searchsorted(at, np.arange(shape[0] + 1))
    return csr_matrix((np.ones(len(at)), column, starts), shape=shape)


def _told_apart(far: Array, size: Indices, k: int) -> tuple[Bools, Bools, Bools, Bools]:
    """Whether a row's layers end within the neighbours given, and which are in each layer."""
    rank, width = np.arange(len(far)), far.shape[1]
    last = np.minimum((np.cumsum(size, axis=1) < k).sum(axis=1), width - 1)  # holds the k-th row
    kth = far[rank, last][:, None]
    edge = np.abs(far - kth) <= _SAME * kth
    after = far > kth * (1 + _SAME)
    following = np.where(after.any(axis=1), far[rank, after.argmax(axis=1)], np.inf)[:, None]
    outer = after & (far <= following * (1 + _SAME))
    whole = far[:, -1] > following[:, 0] * (1 + _SAME)
    return whole, ~edge & ~after, edge, outer
