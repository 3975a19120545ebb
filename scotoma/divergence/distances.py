"""How many examples lie at each taxicab distance? Additive counts, for any threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.divergence.scoring import DivergenceScores
from scotoma.numbers.inputs import Floats, Ints, booleans, populations, true_labels


@dataclass(frozen=True, kw_only=True)
class GroupByDistance:
    """The examples of one group at each distance.

    Attributes:
        group: Its name.
        examples: How many of its examples lie at each distance, shape (D,).
    """

    group: str
    examples: Ints


@dataclass(frozen=True, kw_only=True)
class ByDistance:
    """Counts at each distance; those at or above a threshold are sums of the last ones.

    Attributes:
        distance: The distances that occur, ascending, shape (D,).
        examples: Examples at each, shape (D,).
        dense_right: Predictions of dense members that are right, over those examples, shape (D,);
            None without labels.
        compressed_right: The same of the compressed members, shape (D,).
        groups: The examples of each group.
        n: All examples.
    """

    distance: Floats
    examples: Ints
    dense_right: Ints | None
    compressed_right: Ints | None
    groups: list[GroupByDistance]
    n: int


def by_distance(
    scores: DivergenceScores,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    labels: npt.ArrayLike | None,
    groups: Mapping[str, npt.ArrayLike],
) -> ByDistance:
    """Count examples, right predictions and members of groups at each taxicab distance.

    Args:
        scores: From `score`, of the same examples.
        dense: Class ids, shape (N, K).
        compressed: Class ids, shape (N, K').
        labels: True class ids, shape (N,); None where they are not known.
        groups: For each name which examples belong to it, bool, shape (N,).

    Raises:
        DataError: As `score`, or inputs of different examples.

    >>> from scotoma.divergence import score
    >>> dense, compressed = [[0, 0], [1, 1], [0, 1]], [[0, 0], [1, 0], [0, 0]]
    >>> counts = by_distance(score(dense, compressed, 2), dense, compressed, [0, 1, 0],
    ...                     {"old": [False, True, True]})
    >>> counts.distance.tolist(), counts.examples.tolist(), counts.groups[0].examples.tolist()
    ([0.0, 2.0], [1, 2], [0, 2])
    >>> counts.dense_right.tolist(), counts.compressed_right.tolist()
    ([2, 3], [2, 3])
    """
    d, c = populations(dense, compressed, scores.n_classes)
    y = None if labels is None else true_labels(labels, scores.n, scores.n_classes)[:, None]
    distance, at = np.unique(scores.taxicab, return_inverse=True)

    def counted(times: npt.ArrayLike) -> Ints:
        return np.bincount(at, weights=times, minlength=len(distance)).astype(np.int64)

    return ByDistance(
        distance=distance,
        examples=counted(np.ones(scores.n)),
        dense_right=None if y is None else counted((d == y).sum(axis=1)),
        compressed_right=None if y is None else counted((c == y).sum(axis=1)),
        groups=[
            GroupByDistance(group=name, examples=counted(booleans(mask, name, (scores.n,))))
            for name, mask in groups.items()
        ],
        n=scores.n,
    )
