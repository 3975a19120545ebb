"""Do compressed models lose more than dense ones on other pictures than the test set's?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.robustness.amplification import estimate_of
from scotoma.robustness.losses import SCALES, Scale, loss
from scotoma.uncertainty import (
    Estimate,
    RateEvidence,
    Words,
    cluster_sums,
    crossed_variance,
    ratio_influence,
    undefined,
)

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
    rows = cluster_sums(np.ones(len(events)), clusters)
    evidence = RateEvidence.of_clusters(cluster_sums(events, clusters), rows)
    return evidence.estimate((), Words("right answer", "pictures", "this set"), level=level)


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
    rows = cluster_sums(np.ones(len(dense[1])), set_clusters)
    n = len(rows)
    rates = [(float(own[0].mean()), float(own[1].mean())) for own in (dense, compressed)]
    psi = [
        ratio_influence(cluster_sums(own[1].astype(float), set_clusters), rows)
        for own in (dense, compressed)
    ]
    variance = crossed_variance(*psi, paired=paired)
    value = rates[1][1] - rates[0][1]
    difference = estimate_of(value, variance, psi[1].mean(1) - psi[0].mean(1), n, members, level)
    losses = {}
    for scale in scales:
        of_each = [loss(test, other, scale) for test, other in rates]
        if reason := of_each[0].reason or of_each[1].reason:
            losses[scale] = undefined(reason, n=n, members=members, level=level)
            continue
        parts = [
            _influences(own, one.slopes, clusters, set_clusters)
            for own, one in zip((dense, compressed), of_each, strict=True)
        ]
        units = np.sqrt(np.abs(np.multiply(of_each[0].slopes, of_each[1].slopes)))
        d, c = (_together(own) for own in parts)
        # Each set has a floor of its own: flips in one say nothing of the other's pictures.
        floor = sum(
            crossed_variance(own, other, paired=paired, unit=float(unit)).floor
            for own, other, unit in zip(*parts, units, strict=True)
        )
        variance = crossed_variance(d, c, paired=paired, unit=None).floored(floor)
        value = of_each[1].value - of_each[0].value
        changed = parts[1][1].mean(1) - parts[0][1].mean(1)
        losses[scale] = estimate_of(value, variance, changed, n, members, level)
    return OtherSet(difference, losses)


def _influences(
    own: tuple[Bools, Bools],
    slopes: tuple[float, float],
    clusters: npt.ArrayLike | None,
    set_clusters: npt.ArrayLike | None,
) -> tuple[Floats, Floats]:
    """Influence of every cluster of the test set, and of every one of the other set."""
    rows = cluster_sums(np.ones(len(own[0])), clusters)
    test = ratio_influence(cluster_sums(own[0].astype(float), clusters), rows)
    rows = cluster_sums(np.ones(len(own[1])), set_clusters)
    other = ratio_influence(cluster_sums(own[1].astype(float), set_clusters), rows)
    return slopes[0] * test, slopes[1] * other


def _together(parts: tuple[Floats, Floats]) -> Floats:
    """Influences on the sum of two means, each set's weighted by what it is of the whole."""
    total = sum(map(len, parts))
    return np.concatenate([total / len(part) * part for part in parts])
