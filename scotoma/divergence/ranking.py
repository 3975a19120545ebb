"""The examples that diverge most: thresholds and weights that no row order can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scotoma.divergence.scoring import DivergenceScores
from scotoma.errors import DataError
from scotoma.numbers.inputs import Floats


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
