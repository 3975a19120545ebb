"""How many examples lie at each taxicab distance? Additive counts, for any threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.divergence.scoring import DivergenceScores
from scotoma.errors import DataError
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


@dataclass(frozen=True)
class Threshold:
    """The taxicab distance at a percentile of the examples.

    Attributes:
        percentile: The one requested; 90 stands for the tenth of the examples that diverge most.
        value: Distance at the threshold; nan with a reason where it would be 0.
        wanted: Examples in the subset: (100 - percentile)% of all, rounded, at least 1.
        above: Examples beyond the threshold.
        tied: Examples at the threshold, of which wanted - above belong to the subset.
        seed: Decides which are listed; weights and counts are the same for every seed.
        reason: Why there is no threshold, as a sentence to print; empty otherwise.
    """

    percentile: float
    value: float
    wanted: int
    above: int
    tied: int
    seed: int = 0
    reason: str = ""


def threshold(scores: DivergenceScores, percentile: float) -> Threshold:
    """Taxicab distance that a percentile of the examples reaches.

    Args:
        scores: From `score`.
        percentile: In (0, 100): 90 for the tenth that diverges most.

    Returns:
        The threshold and how many examples tie there. Where examples of distance 0 would have to
        belong to the subset there is none.

    Raises:
        DataError: The percentile is out of range.

    >>> from scotoma.divergence import score
    >>> threshold(score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2), 50)
    Threshold(percentile=50, value=2.0, wanted=2, above=1, tied=2, seed=0, reason='')
    """
    if not 0 < percentile < 100:
        raise DataError(
            f"percentile must lie between 0 and 100, got {percentile:g}: write 90 for the tenth of "
            "the examples that diverges most"
        )
    share = 100 - percentile
    wanted = max(1, round(scores.n * share / 100))
    value = float(np.partition(scores.taxicab, scores.n - wanted)[scores.n - wanted])
    above = int((scores.taxicab > value).sum())
    if value == 0:
        reason = f"fewer than {round(share, 6):g}% of examples differ"
        return Threshold(percentile, math.nan, wanted, above, 0, scores.seed, reason)
    tied = int((scores.taxicab == value).sum())
    return Threshold(percentile, value, wanted, above, tied, scores.seed)


def percentile_weights(scores: DivergenceScores, percentile: float) -> Floats:
    """Chance of each example to be in the subset when ties are broken at random.

    Means weighted so are the expectation over all ways to break the ties: exact, without a seed.

    Args:
        scores: From `score`.
        percentile: In (0, 100).

    Returns:
        1 above the threshold, the same fraction for each example tied there, 0 below, shape (N,);
        they sum to `Threshold.wanted`. All nan where there is no threshold.

    >>> from scotoma.divergence import score
    >>> percentile_weights(score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2), 50).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    if threshold(scores, percentile).reason:
        return np.full(scores.n, np.nan)
    return subset_weights(scores.taxicab, percentile)


def subset_weights(distance: Floats, percentile: float) -> Floats:
    """Chance of each example to be among the most divergent when ties are broken at random.

    As in the papers, ties at distance 0 too: `percentile_weights` refuses a subset of these.

    Args:
        distance: Taxicab distances, shape (N,).
        percentile: In [0, 100): 80 for the fifth that diverges most, at least one example.

    Returns:
        Shape (N,); they sum to the size of the subset.

    >>> subset_weights(np.array([0.0, 2.0, 2.0, 4.0, 0.0]), 60).tolist()
    [0.0, 0.5, 0.5, 1.0, 0.0]
    """
    n = len(distance)
    wanted = max(1, round(n * (100 - percentile) / 100))
    cut = np.partition(distance, n - wanted)[n - wanted]
    tied, above = distance == cut, distance > cut
    return np.asarray(np.where(tied, (wanted - above.sum()) / tied.sum(), above), np.float64)
