"""How many members agree with each member on each example?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scotoma.divergence.scoring import NARROW, label_ranks
from scotoma.numbers.inputs import Labels
from scotoma.predictions import label_counts

CHUNK = 2**15  # rows whose labels are counted at once


class Agreement(NamedTuple):
    """Members that give the label of each member, by example.

    Attributes:
        dense_dense: Dense members with the label of each dense member, itself included, (N, K).
        dense_compressed: Compressed members with the label of each dense member, (N, K).
        compressed_dense: Dense members with the label of each compressed member, (N, K').
    """

    dense_dense: Labels
    dense_compressed: Labels
    compressed_dense: Labels


def agreement(dense: Labels, compressed: Labels) -> Agreement:
    """Count for each member the members of its own and of the other population that agree with it.

    Args:
        dense: Class ids, shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').

    >>> same = agreement(np.array([[0, 0, 7]]), np.array([[7, 0]]))
    >>> [part.tolist() for part in same]
    [[[2, 2, 1]], [[1, 1, 1]], [[1, 2]]]
    """
    n, k, other = len(dense), dense.shape[1], compressed.shape[1]
    counts = np.min_scalar_type(max(k, other))
    same = Agreement(*(np.empty((n, size), counts) for size in (k, k, other)))
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        labels = np.concatenate([dense[rows], compressed[rows]], axis=1)
        if labels.max() >= NARROW:
            labels = row_labels(labels)
        width = int(labels.max()) + 1
        d, c = labels[:, :k].astype(np.int64), labels[:, k:].astype(np.int64)
        b, v = label_counts(d, width), label_counts(c, width)
        same.dense_dense[rows] = np.take_along_axis(b, d, axis=1)
        same.dense_compressed[rows] = np.take_along_axis(v, d, axis=1)
        same.compressed_dense[rows] = np.take_along_axis(b, c, axis=1)
    return same


def row_labels(ids: Labels) -> Labels:
    """Renumber each row's labels from 0 in ascending order.

    >>> row_labels(np.array([[7, 3, 7]])).tolist()
    [[1, 0, 1]]
    """
    order = np.argsort(ids, axis=1)
    ranks = label_ranks(np.take_along_axis(ids, order, axis=1))
    local = np.empty_like(ranks)
    np.put_along_axis(local, order, ranks, axis=1)
    return local
