"""The examples that diverge most: thresholds, weights and lists that no row order can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.divergence.scoring import DivergenceScores
from scotoma.errors import DataError
from scotoma.hashing import hash_ids
from scotoma.inputs import Floats, array, coded


@dataclass(frozen=True)
class Threshold:
    """The taxicab distance at a percentile of the examples.

    Attributes:
        percentile: The one requested; 90 stands for the tenth of the examples that diverge most.
        value: Distance at the threshold; nan with a reason where it would be 0.
        wanted: Examples in the subset: (100 - percentile)% of all, rounded, at least 1.
        above: Examples beyond the threshold.
        tied: Examples at the threshold, of which wanted - above belong to the subset.
        seed: Decides which, in `rank_subset`; weights and counts are the same for every seed.
        reason: Why there is no threshold, as a sentence to print; empty otherwise.
    """

    percentile: float
    value: float
    wanted: int
    above: int
    tied: int
    seed: int = 0
    reason: str = ""


def threshold(scores: DivergenceScores, percentile: float, seed: int | None = None) -> Threshold:
    """Taxicab distance that a percentile of the examples reaches.

    Args:
        scores: From `score`.
        percentile: In (0, 100): 90 for the tenth that diverges most.
        seed: Breaks ties when the subset is listed; `scores.seed` by default.

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
    share, chosen = 100 - percentile, scores.seed if seed is None else seed
    wanted = max(1, round(scores.n * share / 100))
    value = float(np.partition(scores.taxicab, scores.n - wanted)[scores.n - wanted])
    above = int((scores.taxicab > value).sum())
    if value == 0:
        reason = f"fewer than {round(share, 6):g}% of examples differ"
        return Threshold(percentile, math.nan, wanted, above, 0, chosen, reason)
    tied = int((scores.taxicab == value).sum())
    return Threshold(percentile, value, wanted, above, tied, chosen)


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
    at = threshold(scores, percentile)
    if at.reason:
        return np.full(scores.n, np.nan)
    share = (at.wanted - at.above) / at.tied
    return np.where(scores.taxicab == at.value, share, scores.taxicab > at.value)


def rank_subset(
    scores: DivergenceScores, example_ids: npt.ArrayLike, percentile: float, seed: int | None = None
) -> npt.NDArray[np.intp]:
    """Rows of the examples that diverge most, the most divergent first.

    Ties are broken by a hash of (seed, example id): the same examples in any order of rows, on any
    machine. An example on which nothing differs is never listed, so the list is shorter than the
    percentile asks where `threshold` has a reason.

    Args:
        scores: From `score`.
        example_ids: Unique integers or strings, shape (N,).
        percentile: In (0, 100): 90 for the tenth that diverges most.
        seed: Another seed breaks ties otherwise; `scores.seed` by default.

    Returns:
        Row numbers, at most `Threshold.wanted`.

    Raises:
        DataError: Ids that repeat, are not one per row, or are neither integers nor strings.

    >>> from scotoma.divergence import score
    >>> scores = score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2)
    >>> rank_subset(scores, ["a", "b", "c", "d"], 50).tolist()
    [0, 2]
    """
    ids = array(example_ids, "example_ids")
    if ids.shape != (scores.n,):
        raise DataError(
            f"example_ids must give one id per row, got shape {ids.shape} for {scores.n:,} rows: "
            "pass the ids of the scored examples in their order"
        )
    values, codes = coded(ids, "example_ids", scores.n)
    counts = np.bincount(codes)
    if values.size < ids.size:
        raise DataError(
            f"example_ids must be unique, got {str(values[counts > 1][0])!r} "
            f"{counts[counts > 1][0]} times: give every row an id of its own"
        )
    at = threshold(scores, percentile, seed)
    order = np.lexsort((ids, hash_ids(ids, at.seed), -scores.taxicab))
    return order[: min(at.wanted, int((scores.taxicab > 0).sum()))]
