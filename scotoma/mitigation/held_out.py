"""Which examples fit a rule, and which judge it? Two halves, clusters whole, drawn by a seed."""

from __future__ import annotations

import numpy as np

from scotoma.errors import DataError
from scotoma.numbers.inputs import Array, Flags, Ints

STREAM = 2_000_003  # of the seed: which clusters judge


def judged_half(strata: Array, clusters: Ints | None, seed: int) -> Flags:
    """Draw the examples that judge; the others fit.

    Within each stratum, that of a cluster's first example, every second cluster of a seeded
    shuffle judges, and strata of odd size take turns.

    Args:
        strata: Integers, such as class and group in one, shape (N,).
        clusters: Cluster ids, shape (N,); None where every example is its own.
        seed: Seed of the shuffle.

    Returns:
        Whether each example judges, shape (N,).

    Raises:
        DataError: There are fewer than two clusters.

    >>> judged_half(np.array([0, 0, 1, 1]), None, seed=0).sum()
    np.int64(2)
    """
    own = np.arange(len(strata)) if clusters is None else clusters
    ids, first = np.unique(own, return_index=True)
    if len(ids) < 2:
        raise DataError(f"half of the clusters must judge what the others fit, got {len(ids)}")
    random = np.random.Generator(np.random.Philox(key=[seed, STREAM]))
    shuffled = random.permutation(len(ids))
    ordered = shuffled[np.argsort(strata[first][shuffled], kind="stable")]
    judging = np.zeros(len(ids), dtype=bool)
    judging[ordered[1::2]] = True
    return np.asarray(judging[np.searchsorted(ids, own)])
