"""Do compressed models lose more than dense ones on other pictures than the test set's?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.numbers import (
    Estimate,
    Units,
    Words,
    cluster_sums,
    crossed_variance,
    ratio_influence,
    undefined,
)
from scotoma.robustness.amplification import estimate_of
from scotoma.robustness.losses import SCALES, Scale, loss

__all__ = ["OtherSet", "other_set", "set_accuracy"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class OtherSet:
    """What a compressed population loses on another set, compared with the dense one.

    Attributes:
        difference: Accuracy on the set, compressed minus dense, a fraction.
        losses: By scale: what is lost from the test set to the other one, compressed minus dense;
            above 0 where the compressed models lose more. Empty where the set was selected
            against a model.
    """

    difference: Estimate
    losses: Mapping[Scale, Estimate]


def set_accuracy(
    right: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Accuracy on a set, a fraction, with its interval over examples and members.

    Args:
        right: Whether each member is right on each picture, shape (n, K).
        clusters: Id of each picture's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).

    >>> set_accuracy([[1, 1], [1, 0], [0, 1], [0, 0]]).value
    0.5
    """
    events = np.asarray(right, np.float64)
    words = Words("right answer", "pictures", "this set")
    return Units.of(len(events), clusters).mean(events).rate(words, level=level)


def other_set(
    dense: tuple[Bools, Bools],
    compressed: tuple[Bools, Bools],
    *,
    clusters: npt.ArrayLike | None = None,
    set_clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    scales: tuple[Scale, ...] = SCALES,
    level: float = 0.95,
) -> OtherSet:
    """Compare two populations on the test set and on another set of other pictures.

    The pictures of the two sets are independent; the members are the same. So the influences of
    both stand below each other, each set's weighted by what it is of the whole.

    Args:
        dense: Right answers of the dense members: to the test set, shape (n, K), and to the other
            one, shape (n', K).
        compressed: The same of the compressed members.
        clusters: Id of each test example's cluster, shape (n,); None leaves every one its own.
        set_clusters: The same of the other set, shape (n',).
        paired: Compressed member m derives from dense member m.
        scales: On which losses are compared.
        level: Coverage, a fraction in (0, 1).

    >>> test, hard = np.array([[True], [True], [True], [False]]), np.array([[True], [False]])
    >>> both = other_set((test, hard), (test, ~hard & hard))
    >>> both.difference.value, both.losses["absolute"].value
    (-0.5, 0.5)
    """
    members = min(own[1].shape[1] for own in (dense, compressed))
    rates = [(float(own[0].mean()), float(own[1].mean())) for own in (dense, compressed)]
    test, other = (
        [_influence(own[place], ids) for own in (dense, compressed)]
        for place, ids in enumerate((clusters, set_clusters))
    )
    n = len(other[0])
    variance = crossed_variance(*other, paired=paired)
    # Each set has a floor of its own: flips in one say nothing of the other's pictures.
    floors = crossed_variance(*test, paired=paired).floor, variance.floor
    changed = other[1].mean(1) - other[0].mean(1)
    difference = estimate_of(rates[1][1] - rates[0][1], variance, changed, n, members, level)
    losses = {}
    for scale in scales:
        of_each = [loss(test, other, scale) for test, other in rates]
        if reason := of_each[0].reason or of_each[1].reason:
            losses[scale] = undefined(reason, n=n, members=members, level=level)
            continue
        d, c = (
            _together(one.slopes, parts)
            for one, parts in zip(of_each, zip(test, other, strict=True), strict=True)
        )
        units = np.abs(np.multiply(of_each[0].slopes, of_each[1].slopes))
        floor = float(np.dot(units, floors))
        variance = crossed_variance(d, c, paired=paired, unit=None).floored(floor)
        value = of_each[1].value - of_each[0].value
        losses[scale] = estimate_of(value, variance, changed, n, members, level)
    return OtherSet(difference, losses)


def _influence(right: Bools, clusters: npt.ArrayLike | None) -> Floats:
    """Influence of every cluster of a set on each member's accuracy."""
    rows = cluster_sums(np.ones(len(right)), clusters)
    return ratio_influence(cluster_sums(right.astype(float), clusters), rows)


def _together(slopes: tuple[float, float], parts: tuple[Floats, Floats]) -> Floats:
    """Influence of every cluster of both sets, each weighted by what it is of the whole."""
    total = sum(map(len, parts))
    weighted = (s * total / len(part) * part for s, part in zip(slopes, parts, strict=True))
    return np.concatenate(list(weighted))
