"""Which error rates can thresholds reach: the upper hull of one group's ROC curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.numbers.inputs import Array, Floats

__all__ = ["RocHull", "roc_hull"]


@dataclass(frozen=True)
class RocHull:
    """Corners of the hull from (0, 0) to (1, 1).

    Attributes:
        false_positive_rate: Ascending, shape (V,).
        true_positive_rate: Ascending, shape (V,).
        threshold: A score above it is predicted positive, descending from infinity, shape (V,).
    """

    false_positive_rate: Floats
    true_positive_rate: Floats
    threshold: Floats

    def lowest_false_positive_rate(self, true_positive_rate: Array) -> Floats:
        """The lowest rate of false positives at these rates of true positives."""
        last = int(np.argmax(self.true_positive_rate >= 1)) + 1
        rates = self.true_positive_rate[:last], self.false_positive_rate[:last]
        return np.asarray(np.interp(true_positive_rate, *rates))

    def highest_true_positive_rate(self, false_positive_rate: Array) -> Floats:
        """The highest rate of true positives at these rates of false positives."""
        first = int(np.flatnonzero(self.false_positive_rate <= 0)[-1])
        rates = self.false_positive_rate[first:], self.true_positive_rate[first:]
        return np.asarray(np.interp(false_positive_rate, *rates))

    def mixture(
        self, false_positive_rate: float, true_positive_rate: float
    ) -> tuple[tuple[float, float], float]:
        """Two thresholds and the share of the second that reach a point of the hull."""
        along = self.false_positive_rate + self.true_positive_rate  # strictly ascending
        at = false_positive_rate + true_positive_rate
        right = int(np.clip(np.searchsorted(along, at), 1, len(along) - 1))
        share = float((at - along[right - 1]) / (along[right] - along[right - 1]))
        pair = float(self.threshold[right - 1]), float(self.threshold[right])
        return pair, min(1.0, max(0.0, share))


def roc_hull(scores: Floats, labels: Array) -> RocHull:
    """Compute the hull of one group's ROC curve.

    Args:
        scores: The higher, the more positive, shape (N,).
        labels: 0 or 1, both present, shape (N,).

    References:
        Hardt, Price, Srebro (2016), "Equality of Opportunity in Supervised Learning", section 4.

    >>> hull = roc_hull(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> hull.false_positive_rate, hull.true_positive_rate
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]))
    """
    values, where = np.unique(-scores, return_inverse=True)  # the highest score first
    positives = np.bincount(where, labels == 1).cumsum()
    negatives = np.bincount(where, labels == 0).cumsum()
    x = np.concatenate([[0], negatives])
    y = np.concatenate([[0], positives])
    cuts = -np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]])
    hull: list[int] = []
    for at in range(len(x)):
        # in whole counts, so that collinear corners leave exactly
        while len(hull) > 1 and _left_of(x, y, hull[-2], hull[-1], at) >= 0:
            hull.pop()
        hull.append(at)
    return RocHull(x[hull] / x[-1], y[hull] / y[-1], cuts[hull])


def _left_of(x: Array, y: Array, a: int, b: int, c: int) -> float:
    """Whether c lies left of the line from a to b (> 0), on it (0) or right of it."""
    return float((x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]))
