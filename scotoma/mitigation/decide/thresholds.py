"""Which thresholds give each group the same rates: post-processing of a binary model.

Hardt, Price, Srebro (2016), "Equality of Opportunity in Supervised Learning". Rates are equal in
expectation over the rule's random draws, on the examples that it was fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from scotoma.errors import DataError
from scotoma.mitigation.decide.rule import Needs, Rule, cell_counts, check_groups
from scotoma.numbers.inputs import Array, Floats, Ints

Equal = Literal["true positive rate", "odds"]
Share = Annotated[float, Field(ge=0, le=1)]
TIE = 1e-12  # objectives this near are equal, and the lowest rate is taken


class GroupThresholds(BaseModel):
    """One group's chance of a positive: ignored * constant + (1 - ignored) * (either threshold)."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")
    thresholds: tuple[float, float]
    second: Share
    ignored: Share = 0.0
    constant: Share = 0.0

    def probability(self, scores: Floats) -> Floats:
        """The chance of a positive, shape (N,)."""
        above = [(scores > threshold).astype(np.float64) for threshold in self.thresholds]
        drawn = (1 - self.second) * above[0] + self.second * above[1]
        return np.asarray(self.ignored * self.constant + (1 - self.ignored) * drawn)


class Thresholds(Rule):
    """Randomised thresholds of a binary model, two a group."""

    rule: Literal["thresholds"] = "thresholds"
    needs: ClassVar[Needs] = Needs("each example")
    equal: Equal
    groups: tuple[GroupThresholds, ...] = Field(min_length=1)
    seed: NonNegativeInt = 0

    @classmethod
    def fit(
        cls,
        scores: Array,
        labels: Array,
        attributes: Array | None = None,
        *,
        equal: Equal = "true positive rate",
        seed: int = 0,
    ) -> Self:
        """Fit the thresholds of highest accuracy among those that give each group equal rates.

        Args:
            scores: Shape (N,), (N, 1) or (N, 2).
            labels: 0 or 1, shape (N,); every group needs both.
            attributes: Group ids, shape (N,).
            equal: Only the true positive rate, or the false positive rate too (equalized odds).
            seed: Seed of the draws.

        Raises:
            DataError: More than two classes, or a group without one of the labels.

        >>> scores = np.array([0.2, 0.6, 0.9, 0.1, 0.3, 0.4])
        >>> groups = np.array([0, 0, 0, 1, 1, 1])
        >>> rule = Thresholds.fit(scores, np.array([0, 1, 1, 0, 1, 1]), groups)
        >>> rule(scores, groups)
        array([0, 1, 1, 0, 1, 1])
        """
        margin = margins(np.asarray(scores, np.float64))
        labels = np.asarray(labels)
        groups = 1 + int(np.max(attributes, initial=0)) if attributes is not None else 1
        counts = cell_counts(labels, attributes, 2, groups, "thresholds")
        group = np.asarray(attributes)
        hulls = [roc_hull(margin[group == g], labels[group == g]) for g in range(groups)]
        fitted = _equal_odds(hulls, counts) if equal == "odds" else _equal_rate(hulls, counts)
        return cls(equal=equal, groups=fitted, seed=seed)

    def probability(self, scores: Array, attributes: Array | None) -> Floats:
        """The chance that each example is predicted positive, shape (N,)."""
        margin = margins(np.asarray(scores, np.float64))
        group = check_groups(attributes, len(margin), len(self.groups))
        chance = np.zeros(len(margin))
        for number, thresholds in enumerate(self.groups):
            rows = group == number
            chance[rows] = thresholds.probability(margin[rows])
        return chance

    def decide(self, scores: Floats, attributes: Array | None) -> Ints:
        """See `Rule.decide`; the same seed and the same order of examples, the same draws."""
        chance = self.probability(scores, attributes)
        drawn = np.random.default_rng(self.seed).random(len(chance))
        return (drawn < chance).astype(np.int64)


def margins(scores: Floats) -> Floats:
    """How far class 1 leads, shape (N,), from scores of shape (N,), (N, 1) or (N, 2).

    Raises:
        DataError: There are more than two classes.

    >>> margins(np.array([[1.0, 3.0], [2.0, 0.5]]))
    array([ 2. , -1.5])
    """
    if scores.ndim == 1:
        return scores
    if scores.ndim != 2 or scores.shape[1] > 2:
        raise DataError(
            f"thresholds decide between two classes, got scores of shape {scores.shape}; "
            "take offsets for more classes"
        )
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]


def _equal_rate(hulls: list[RocHull], counts: Ints) -> tuple[GroupThresholds, ...]:
    """Equal true positive rates: accuracy is concave between corners, so one of them is best."""
    rates = np.unique(np.concatenate([hull.true_positive_rate for hull in hulls]))
    false = np.stack([hull.lowest_false_positive_rate(rates) for hull in hulls])
    right = counts[:, 1].sum() * rates + counts[:, 0] @ (1 - false)
    best = _first_of_the_highest(right / counts.sum())
    fitted = []
    for hull, lowest in zip(hulls, false[:, best], strict=True):
        pair, second = hull.mixture(float(lowest), float(rates[best]))
        fitted.append(GroupThresholds(thresholds=pair, second=second))
    return tuple(fitted)


def _equal_odds(hulls: list[RocHull], counts: Ints) -> tuple[GroupThresholds, ...]:
    """Equal rates of both kinds: the best point under every group's hull."""
    corners = np.unique(np.concatenate([hull.false_positive_rate for hull in hulls]))
    rates = np.unique(np.concatenate([corners, _crossings(hulls, corners)]))
    true = np.stack([hull.highest_true_positive_rate(rates) for hull in hulls])
    lowest = true.min(axis=0)
    right = counts[:, 1].sum() * lowest + counts[:, 0].sum() * (1 - rates)
    best = _first_of_the_highest(right / counts.sum())
    x, y = float(rates[best]), float(lowest[best])
    fitted = []
    for hull, own in zip(hulls, true[:, best], strict=True):
        pair, second = hull.mixture(x, float(own))
        ignored = 0.0 if own <= x else min(1.0, (float(own) - y) / (float(own) - x))
        fitted.append(GroupThresholds(thresholds=pair, second=second, ignored=ignored, constant=x))
    return tuple(fitted)


def _crossings(hulls: list[RocHull], corners: Floats) -> Floats:
    """Where two hulls cross between corners, rates of false positives."""
    true = np.stack([hull.highest_true_positive_rate(corners) for hull in hulls])
    crossings = [np.zeros(0)]
    for one, other in combinations(true, 2):
        gap = one - other
        between = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        share = gap[between] / (gap[between] - gap[between + 1])
        crossings.append(corners[between] + share * (corners[between + 1] - corners[between]))
    return np.concatenate(crossings)


def _first_of_the_highest(accuracy: Floats) -> int:
    return int(np.argmax(accuracy >= accuracy.max() - TIE))


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
