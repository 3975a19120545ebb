"""Corruption error: a population's error under each corruption beside the dense population's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.numbers import Estimate, crossed_variance, of_variance, undefined
from scotoma.robustness.right_answers import Answered, RightAnswers

__all__ = ["CorruptionErrors", "corruption_errors", "errors_over"]

CORRUPTED, DIFFERENCE = (0.0, -1.0), (1.0, -1.0)  # slopes of the error and of its rise


@dataclass(frozen=True)
class CorruptionErrors:
    """Corruption errors of one compressed population; 1 is as much as the dense one.

    Attributes:
        ce: One a corruption: error under it, summed over severities, over that of dense.
        relative_ce: The same of what each adds to its clean error.
        mce: Mean of `ce`.
    """

    ce: tuple[Estimate, ...]
    relative_ce: tuple[Estimate, ...]
    mce: Estimate


def corruption_errors(
    dense: RightAnswers,
    compressed: RightAnswers,
    corruptions: Sequence[int],
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> CorruptionErrors:
    """Compute CE and relative CE of each corruption, and mCE, with the dense population below.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        corruptions: Places of the corruptions that count.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Compressed member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    Returns:
        Ratios (papers print 100 times as much), their intervals on the log scale. Relative CE is a
        plain ratio of differences: undefined where the interval of the dense one reaches 0.

    References:
        Hendrycks and Dietterich (2019), section 4.

    >>> labels = np.zeros(40)
    >>> dense = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 8, labels)
    >>> both = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 16, labels)
    >>> round(corruption_errors(dense, both, [0]).ce[0].value, 12)
    2.0
    """
    pairs = [(dense.under([k]), compressed.under([k])) for k in corruptions]
    everyone = np.ones(len(dense.clean), np.bool_)
    members = min(dense.members, compressed.members)
    n = len(dense.clean) if clusters is None else len(np.unique(np.asarray(clusters)))
    errors = [tuple(1 - own.accuracies(everyone)[1] for own in pair) for pair in pairs]

    def ratio(weights: Sequence[float], value: float) -> Estimate:
        """A weighted mean of CEs, its interval on the log scale."""
        d, c = np.zeros((n, dense.members)), np.zeros((n, compressed.members))
        for weight, (of_dense, of_compressed), (e_d, e_c) in zip(
            weights, pairs, errors, strict=True
        ):
            if weight:
                slope = weight / (e_d * value)
                d += of_dense.influence(CORRUPTED, everyone, clusters) * slope * e_c / e_d
                c += of_compressed.influence(CORRUPTED, everyone, clusters) * slope
        own = [each for weight, each in zip(weights, errors, strict=True) if weight]
        unit = 1 / math.sqrt(np.prod(np.mean(own, axis=0)))
        variance = crossed_variance(d, c, paired=paired, unit=unit)
        return of_variance(value, variance, n=n, members=members, level=level, scale="ratio")

    def ce(place: int) -> Estimate:
        e_d, e_c = errors[place]
        if not e_d or not e_c:
            who = "dense" if not e_d else "compressed"
            reason = f"undefined (the {who} models make no error under it)"
            return undefined(reason, n=n, members=members, level=level)
        return ratio([float(k == place) for k in range(len(pairs))], e_c / e_d)

    each = tuple(ce(place) for place in range(len(pairs)))
    if reason := next((one.reason for one in each if math.isnan(one.value)), ""):
        mean = undefined(reason, n=n, members=members, level=level)
    else:
        mean = ratio([1 / len(each)] * len(each), float(np.mean([one.value for one in each])))
    relative = tuple(
        _relative(*pair, everyone, clusters, n=n, members=members, paired=paired, level=level)
        for pair in pairs
    )
    return CorruptionErrors(each, relative, mean)


def errors_over(
    own: RightAnswers,
    corruptions: Sequence[int],
    reference: Sequence[float],
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """Compute the mean corruption error over published errors of a reference model.

    Args:
        own: Right answers of one population at the severities of the reference.
        corruptions: Places of the corruptions; one gives its CE, all fifteen mCE.
        reference: Error of the reference model under each, a fraction.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A ratio (papers print 100 times as much), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4, with AlexNet as the reference.

    >>> half = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 20,
    ...     np.zeros(40))
    >>> errors_over(half, [0], [0.8]).value
    0.625
    """
    everyone = np.ones(len(own.clean), np.bool_)
    n = len(own.clean) if clusters is None else len(np.unique(np.asarray(clusters)))
    psi: Floats = np.zeros((n, own.members))
    value = 0.0
    for place, error in zip(corruptions, reference, strict=True):
        answered, weight = own.under([place]), 1 / (error * len(reference))
        value += weight * (1 - answered.accuracies(everyone)[1])
        psi = psi + weight * answered.influence(CORRUPTED, everyone, clusters)
    if not value:
        reason = "undefined (the models make no error under it)"
        return undefined(reason, n=n, members=own.members, level=level)
    variance = crossed_variance(psi / value, unit=1 / value)
    return of_variance(value, variance, n=n, members=own.members, level=level, scale="ratio")


def _relative(
    dense: Answered,
    compressed: Answered,
    everyone: npt.NDArray[np.bool_],
    clusters: npt.ArrayLike | None,
    *,
    n: int,
    members: int,
    paired: bool,
    level: float,
) -> Estimate:
    """(E_c(k) - E_c) / (E_d(k) - E_d), linearised."""
    (below, d), (above, c) = (
        (_rise(own, everyone), own.influence(DIFFERENCE, everyone, clusters))
        for own in (dense, compressed)
    )
    lost = of_variance(below, crossed_variance(d), n=n, members=dense.clean.shape[1], level=level)
    if not lost.low > 0:
        shown = f"{100 * below:.1f} points"
        reason = f"undefined (what it costs the dense models, {shown}, may be nothing)"
        return undefined(reason, n=n, members=members, level=level)
    variance = crossed_variance(d * above / below**2, c / below, paired=paired, unit=1 / below)
    return of_variance(above / below, variance, n=n, members=members, level=level)


def _rise(own: Answered, everyone: npt.NDArray[np.bool_]) -> float:
    clean, corrupted = own.accuracies(everyone)
    return clean - corrupted
