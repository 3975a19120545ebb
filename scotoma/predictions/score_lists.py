"""What score does a model give each class, by a column of lists in a table of predictions?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


SCORES = "scores"  # the column
SMALLEST = 1e-7  # of probabilities: their logarithms must be finite
SUM_TO_ONE = 1e-3


def read_score_lists(
    frame: pl.DataFrame, codes: NDArray[np.int64], classes: int, place: str
) -> NDArray[np.float32]:
    """Read the scores of each row, float32, shape (n, C).

    Args:
        frame: `scores`, a list in Parquet and a JSON list in CSV; `example_id` names the rows.
        codes: Class ids of the predicted classes, shape (n,). Each must have the highest score:
            scores in another order of classes would say something else.
        classes: C.
        place: The file, for errors.

    Raises:
        DataError: A row with another number of scores, one that is no finite number, or a higher
            score than that of the predicted class.

    >>> frame = pl.DataFrame({"example_id": ["a"], "scores": [[0.25, 0.75]]})
    >>> read_score_lists(frame, np.array([1]), 2, "preds.parquet").tolist()
    [[0.25, 0.75]]
    """
    found = np.full((frame.height, classes), np.nan, np.float32)
    whole, values = read_lists(frame[SCORES], classes, pl.Float64())
    found[whole] = values.to_numpy().reshape(-1, classes)
    highest = found[np.arange(len(found)), codes]
    fits = np.isfinite(found).all(axis=1) & (highest >= found.max(axis=1, initial=-np.inf))
    if not fits.all():
        first = frame.row(int(np.argmin(fits)), named=True)
        raise DataError(
            printable(
                f"{SCORES} in {place} must list {classes} finite numbers in the order of "
                f"source.classes, the highest that of the predicted class, got "
                f"{str(first[SCORES])[:80]} of example {first['example_id']!r} "
                f"({int((~fits).sum()):,} such rows); correct them, or set keep_scores: false"
            )
        )
    return found


def read_lists(
    lists: pl.Series, length: int, kind: pl.DataType
) -> tuple[NDArray[np.bool_], pl.Series]:
    """Which rows hold a list of some length, in CSV a JSON list; and the values of these lists."""
    try:
        if lists.dtype == pl.String:
            lists = lists.str.json_decode(pl.List(kind))
        lists = lists.cast(pl.List(kind))
    except pl.exceptions.PolarsError:
        return np.zeros(len(lists), np.bool_), pl.Series(dtype=kind)
    whole = (lists.list.len() == length).fill_null(False)
    return whole.to_numpy(), lists.filter(whole).explode()


def as_logits(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Take probabilities for their logarithms, and other scores as they are.

    Args:
        scores: Of one model, shape (N, C).

    >>> as_logits(np.float32([[0.25, 0.75]])).round(2).tolist()
    [[-1.3899999856948853, -0.28999999165534973]]
    """
    sums = scores.sum(axis=1, dtype=np.float64)
    if (scores < 0).any() or (abs(sums - 1) > SUM_TO_ONE).any():
        return scores
    return np.log(np.maximum(scores, SMALLEST))


def predicted_probabilities(
    logits: NDArray[np.float32], codes: NDArray[np.int64]
) -> NDArray[np.float16]:
    """The softmax probability of the predicted class, float16, shape (N,).

    >>> predicted_probabilities(np.float32([[0, 0]]), np.array([1])).tolist()
    [0.5]
    """
    from scipy.special import log_softmax

    likely = log_softmax(logits.astype(np.float64), axis=1)
    return np.exp(likely[np.arange(len(codes)), codes]).astype(np.float16)
