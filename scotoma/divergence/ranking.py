"""The examples that diverge most: thresholds, weights and lists that no row order can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.divergence.scoring import Scores
from scotoma.errors import DataError
from scotoma.inputs import Floats

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Threshold:
    """Where a percentile of the taxicab distance falls.

    Attributes:
        percentile: As asked; 90 stands for the tenth of the examples that diverge most.
        value: Distance at the threshold; nan with a reason where it would be 0.
        wanted: Examples in the subset: (100 - percentile)% of all, rounded, at least 1.
        above: Examples beyond the threshold.
        tied: Examples at the threshold, of which wanted - above belong to the subset.
        reason: Why there is no threshold, as a sentence to print; empty otherwise.
    """

    percentile: float
    value: float
    wanted: int
    above: int
    tied: int
    reason: str = ""


def threshold(scores: Scores, percentile: float) -> Threshold:
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
    Threshold(percentile=50, value=2.0, wanted=2, above=1, tied=2, reason='')
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
        return Threshold(percentile, math.nan, wanted, above, 0, reason)
    tied = int((scores.taxicab == value).sum())
    return Threshold(percentile, value, wanted, above, tied)


def percentile_weights(scores: Scores, percentile: float) -> Floats:
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
    scores: Scores, example_ids: npt.ArrayLike, percentile: float, seed: int | None = None
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
        DataError: Ids that repeat, are not one a row, or are neither integers nor strings.

    >>> from scotoma.divergence import score
    >>> scores = score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2)
    >>> rank_subset(scores, ["a", "b", "c", "d"], 50).tolist()
    [0, 2]
    """
    ids = np.asarray(example_ids)
    if ids.shape != (scores.n,):
        raise DataError(
            f"example_ids must give one id a row, got shape {ids.shape} for {scores.n:,} rows: "
            "pass the ids of the scored examples in their order"
        )
    values, counts = np.unique(ids, return_counts=True)
    if values.size < ids.size:
        raise DataError(
            f"example_ids must be unique, got {str(values[counts > 1][0])!r} "
            f"{counts[counts > 1][0]} times: give every row an id of its own"
        )
    wanted = threshold(scores, percentile).wanted
    keys = hash_ids(ids, scores.seed if seed is None else seed)
    order = np.lexsort((ids, keys, -scores.taxicab))
    return order[: min(wanted, int((scores.taxicab > 0).sum()))]


def hash_ids(ids: npt.ArrayLike, seed: int) -> Hashes:
    """A 64-bit number for each id, as good as random and the same everywhere.

    Args:
        ids: Integers or strings, shape (N,). An id's hash depends on nothing but itself and the
            seed: not on its row, its dtype or the length of other ids.
        seed: Any integer.

    Raises:
        DataError: Neither integers nor strings.

    References:
        Steele, Lea and Flood (2014), OOPSLA, 453-472: the finaliser of SplitMix64.

    >>> bool(hash_ids(["a"], 0)[0] == hash_ids(["bcd", "a"], 0)[1])
    True
    """
    values = np.asarray(ids)
    start = _mix(np.array([seed % 2**64], np.uint64))
    if values.dtype.kind in "iu":
        return _mix(np.bitwise_xor(values.astype(np.uint64), start))
    if values.dtype.kind != "U":
        raise DataError(
            f"example_ids must be integers or strings, got values of type {values.dtype}: "
            "convert them to strings"
        )
    # Fixed-width strings are tables of code points padded with 0: the padding must not count.
    letters = np.ascontiguousarray(values).view(np.uint32).reshape(values.size, -1)
    state = np.full(values.size, start[0])
    for column in letters.T:
        state = np.where(column != 0, _mix(np.bitwise_xor(state, column.astype(np.uint64))), state)
    return state


def _mix(x: Hashes) -> Hashes:
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
