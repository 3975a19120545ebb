"""Which class names stand beside an image, so that they do not give its arm away?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rule = Literal["pooled", "paper", "true"]


@dataclass(frozen=True, eq=False)
class ShownLabels:
    """Class ids beside every image, and how they were found.

    Attributes:
        ids: Labels 1, 2 and 3 (of two classes 1 and 2, of the rule `true` 1), shape (N, 3, 2 or 1).
        rules: Of each image what named its other classes: `votes`, `scores`, `confusions`,
            `chance`, `modal`, `other class` or `none`.
    """

    ids: Ints
    rules: tuple[str, ...]


def pooled_labels(
    true: Ints,
    shares: Floats,
    confused: Ints,
    *,
    seed: int | Sequence[int],
    scores: Floats | None = None,
) -> ShownLabels:
    """Show the true class and, in random order, the two classes with most votes of all members.

    The rule is one for all arms. Where all members of both populations agree, votes name one class
    only: the second is that of the next highest mean score, else the one that dense members
    confuse most with the first.

    Args:
        true: True class ids, shape (N,).
        shares: Share of dense votes plus share of compressed votes, shape (N, C), C >= 3.
        confused: From `most_confused`, shape (C,).
        seed: Of ties and of the order of labels 2 and 3.
        scores: Mean score of each class, shape (N, C); None where none are kept.

    >>> shown = pooled_labels(
    ...     np.array([0, 1]), np.array([[1.5, 0.5, 0], [0, 2, 0]]), np.array([2, 2, 0]), seed=0
    ... )
    >>> [sorted(row) for row in shown.ids[:, 1:].tolist()], shown.rules
    ([[0, 1], [1, 2]], ('votes', 'confusions'))
    """
    rng = np.random.default_rng(seed)
    lots = rng.random(shares.shape)
    order = np.lexsort((lots, -shares), axis=1)
    first, second = order[:, 0].copy(), order[:, 1].copy()
    rules = ["votes"] * len(true)
    for row in np.flatnonzero((shares > 0).sum(axis=1) < 2):
        top = first[row]
        if scores is not None:
            rest = np.where(np.arange(shares.shape[1]) == top, -np.inf, scores[row])
            second[row], rules[row] = int(rest.argmax()), "scores"
        elif confused[top] >= 0:
            second[row], rules[row] = confused[top], "confusions"
        else:
            rules[row] = "chance"  # no vote: the order of `lots` has named it
    swapped = rng.random(len(true)) < 0.5
    pair = np.where(swapped[:, None], np.stack([second, first], 1), np.stack([first, second], 1))
    return ShownLabels(np.concatenate([true[:, None], pair], axis=1), tuple(rules))


def named_labels(ids: Sequence[npt.NDArray[np.integer]], rule: str) -> ShownLabels:
    """Show labels as they are, such as those of the paper: true, dense and compressed modal.

    The paper's last two are equal exactly where an example is no CIE, so that they tell the arms.

    Args:
        ids: Class ids of label 1, 2 and so on, each of shape (N,).
        rule: What names them.

    >>> named_labels([np.array([0, 1]), np.array([1, 0])], "other class").ids.tolist()
    [[0, 1], [1, 0]]
    """
    return ShownLabels(np.stack(ids, axis=1).astype(np.int64), (rule,) * len(ids[0]))


def most_confused(true: Ints, predicted: npt.NDArray[np.integer], classes: int) -> Ints:
    """For each class the one that members confuse most with it, in either direction.

    Args:
        true: True class ids, shape (N,).
        predicted: Class ids of every member, shape (N, K).
        classes: Number of classes C.

    Returns:
        Class ids, shape (C,); -1 for a class that is never confused.

    >>> most_confused(np.array([0, 1, 2]), np.array([[1], [1], [2]]), 3).tolist()
    [1, 0, -1]
    """
    pairs = np.zeros(classes * classes, np.int64)
    for member in predicted.T:
        pairs += np.bincount(true * classes + member, minlength=classes * classes)
    table = pairs.reshape(classes, classes)
    table = table + table.T
    np.fill_diagonal(table, 0)
    return np.where(table.max(axis=1) > 0, table.argmax(axis=1), -1)
