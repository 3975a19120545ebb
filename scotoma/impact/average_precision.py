"""How well do scores rank the examples of each label? Average precision, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from scotoma.numbers import DENSE, Estimate, Number, Units, cluster_sums, undefined
from scotoma.numbers.inputs import Floats


def average_precision(present: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[float, Floats]:
    """Average precision of one label, and how each example moves it.

    AP is the mean over the positives of the precision among all that score at least as much.
    Examples of one score count together, so that their order decides nothing.

    Args:
        present: Which examples have the label, bool, shape (N,).
        scores: The higher, the likelier; shape (N,).

    Returns:
        AP in (0, 1], and its derivative by the weight of every example, shape (N,), which sums to
        0; nan and zeros where no example has the label.

    References:
        Everingham et al. (2010), "The Pascal Visual Object Classes Challenge", section 4.2, without
        interpolation.

    >>> average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])[0].__round__(3)
    0.833
    """
    y, s = np.asarray(present, bool), np.asarray(scores, np.float64)
    positives = int(y.sum())
    if not positives:
        return np.nan, np.zeros(len(y))
    levels, place = np.unique(-s, return_inverse=True)  # the highest score first
    true = np.bincount(place, y, len(levels))
    above, true_above = np.cumsum(np.bincount(place, minlength=len(levels))), np.cumsum(true)
    precision = true_above / above
    value = float((true * precision).sum() / positives)
    # Of positives that score no more than an example, whose precision this example is part of.
    gain = np.cumsum((true / above)[::-1])[::-1]
    loss = np.cumsum((true * precision / above)[::-1])[::-1]
    moves = y * (precision[place] - value) + y * gain[place] - loss[place]
    return value, moves / positives


def label_precisions(
    present: npt.ArrayLike,
    scores: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    axis: str = DENSE,
) -> list[Number]:
    """Average precision of every label, mean over the members; nan where no example has it.

    Args:
        present: Which examples have which label, bool, shape (N, L).
        scores: Shape (N, L, M).
        clusters: Id of each example's cluster, shape (N,); None where each is its own.
        axis: The members' axis; those on one axis derive from each other, one by one.

    >>> label_precisions([[1], [0]], [[[0.9, 0.2]], [[0.1, 0.8]]])[0].value
    0.75
    """
    y, s = np.asarray(present, bool), np.asarray(scores)
    numbers = []
    for label in range(y.shape[1]):
        own = [average_precision(y[:, label], s[:, label, m]) for m in range(s.shape[2])]
        values = np.array([value for value, _ in own])
        moves = cluster_sums(np.stack([move for _, move in own], axis=1), clusters)
        # Their means are the values, so that they are influences on these.
        pseudo = np.nan_to_num(values) + len(moves) * moves
        mean = Units(len(moves)).mean(pseudo, axis=axis, flip=None)
        numbers.append(replace(mean, value=float(values.mean())))
    return numbers


def mean_precision(numbers: Sequence[Number]) -> Number:
    """Mean over the labels that some example has; nan where none has one.

    >>> mean_precision(label_precisions([[1, 0], [0, 0]], np.ones((2, 2, 1)))).value
    0.5
    """
    ranked = [one for one in numbers if not np.isnan(one.value)]
    if not ranked:
        return numbers[0]
    return reduce(add, ranked) / len(ranked)


def precision_estimate(number: Number) -> Estimate:
    """The precision with its interval on the logit scale, or why there is none."""
    reason = "undefined (no positives)"
    if number.value != 1:
        return number.estimate("logit", reason=reason)
    reason = "interval not estimable (every positive ranks above every negative)"
    return undefined(reason, value=1.0, n=number.n, members=number.members)
