"""How sure are models of their answers, and what would abstaining where they are unsure save?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.robustness.amplification import Mask
from scotoma.uncertainty import (
    Estimate,
    cluster_sums,
    crossed_variance,
    few_runs,
    none_seen,
    of_variance,
    ratio_influence,
    undefined,
)

__all__ = [
    "COVERAGE",
    "Abstention",
    "Confident",
    "abstention",
    "abstention_threshold",
    "area_under_risk",
    "calibration_excess",
    "confidence_gap",
    "mean_share",
]

COVERAGE = 0.9  # of the clean pictures that dense models answer
BINS, STEPS = 15, 200  # of equal mass: for the calibration error, for the curve of risk
FEWEST = 10 * BINS  # answers of a model whose calibration is measured
BLOCKS = 20  # of examples, left out one by one
ALONE = "the interval is over examples alone"


@dataclass(frozen=True, eq=False)
class Confident:
    """Answers of one population, some conditions together, and how sure of them it is.

    Attributes:
        confidence: Probability of the predicted class, in [0, 1], shape (C, n, K).
        right: Whether it is the label, bool, the same shape.
    """

    confidence: Floats
    right: npt.NDArray[np.bool_]

    def of(self, at_risk: Mask) -> Confident:
        """The same of some examples, bool, shape (n,)."""
        return Confident(self.confidence[:, at_risk], self.right[:, at_risk])

    @property
    def members(self) -> int:
        """Members of the population."""
        return int(self.right.shape[2])


def confidence_gap(
    own: Confident,
    dense: Confident | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Mean confidence minus accuracy, a fraction: above 0 where models are too sure.

    Args:
        own: Answers of a population.
        dense: Those of another, whose gap is subtracted; None for the gap itself.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    >>> sure = Confident(np.full((1, 4, 1), 0.9), np.array([[[True], [True], [True], [False]]]))
    >>> round(confidence_gap(sure).value, 3)
    0.15
    """
    both = (own,) if dense is None else (dense, own)
    members = min(one.members for one in both)
    if not own.right.shape[1]:
        return undefined("undefined (no examples)", n=0, members=members, level=level)
    events = [(one.confidence - one.right).mean(axis=0) for one in both]
    rows = cluster_sums(np.ones(len(events[0])), clusters)
    psi = [ratio_influence(cluster_sums(each, clusters), rows) for each in events]
    value = float(events[-1].mean()) - (0.0 if dense is None else float(events[0].mean()))
    variance = crossed_variance(*psi, paired=paired and dense is not None)
    return of_variance(value, variance, n=len(rows), members=members, level=level)


def abstention_threshold(confidence: npt.ArrayLike, coverage: float = COVERAGE) -> float:
    """The confidence that this share of answers reaches.

    Args:
        confidence: Of dense models on clean pictures, any shape.
        coverage: Share that is answered, a fraction.

    >>> abstention_threshold([0.5, 0.6, 0.7, 0.8, 0.9], 0.8)
    0.6
    """
    return float(np.quantile(np.asarray(confidence, np.float64), 1 - coverage, method="higher"))


@dataclass(frozen=True)
class Abstention:
    """What models that abstain below a threshold still answer.

    Attributes:
        coverage: Share of the pictures that are answered, a fraction.
        selective_error: Share of these answers that are wrong.
    """

    coverage: Estimate
    selective_error: Estimate


def abstention(
    own: Confident,
    threshold: float,
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Abstention:
    """Let models abstain where they are less sure than a threshold that was fixed before.

    Args:
        own: Answers of a population.
        threshold: From `abstention_threshold`.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    References:
        Geifman and El-Yaniv (2017), Selective Classification for Deep Neural Networks.

    >>> own = Confident(np.array([[[0.9], [0.8], [0.3]]]), np.array([[[True], [False], [False]]]))
    >>> both = abstention(own, 0.5)
    >>> round(both.coverage.value, 3), both.selective_error.value
    (0.667, 0.5)
    """
    answered = own.confidence >= threshold
    covered = answered.mean(axis=0)
    wrong = (answered & ~own.right).mean(axis=0)
    return Abstention(
        mean_share(covered, np.ones_like(covered), "undefined (no examples)", clusters, level),
        mean_share(wrong, covered, "undefined (nothing is answered)", clusters, level),
    )


def mean_share(
    events: Floats,
    at_risk: Floats,
    reason: str,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    *,
    small: bool = False,
) -> Estimate:
    """Events over rows at risk, where both vary from member to member.

    Args:
        events: Of each example and member, shape (n, K).
        at_risk: Of the same, shape (n, K).
        reason: Why it is undefined where nothing is at risk.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).
        small: Events are parts of one, not all or nothing: the interval is symmetric on the scale
            of logarithms, and there is none at 0.

    Returns:
        A fraction; its interval stays between 0 and 1, by the rule of three at either end.

    >>> mean_share(np.array([[0.2], [0.4]]), np.ones((2, 1)), "").value.__round__(3)
    0.3
    """
    above, below = cluster_sums(events, clusters), cluster_sums(at_risk, clusters)
    n, members = above.shape
    if not below.sum():
        return undefined(reason, n=n, members=members, level=level)
    value = float(above.sum() / below.sum())
    psi = (above - value * below) / below.mean()
    if not small and not 0 < value < 1:
        seen = max(1, min(n, round(float(below.sum()) / members)))  # of a member
        return none_seen(
            value, n=seen, members=members, lowest=0.0, highest=1.0, level=level,
            note=few_runs(members),
        )  # fmt: skip
    scale: Literal["ratio", "identity"] = "ratio" if small and value > 0 else "identity"
    variance = crossed_variance(psi / value if scale == "ratio" else psi)
    if not variance.total > 0:
        why = f"interval not estimable (nothing varies over {n:,} examples)"
        return undefined(why, value=value, n=n, members=members, level=level)
    shown = of_variance(value, variance, n=n, members=members, level=level, scale=scale)
    return replace(shown, low=max(0.0, shown.low), high=min(1.0, shown.high))


def calibration_excess(
    own: Confident, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Calibration error in 15 bins of equal mass, less what a calibrated model would show.

    That null is not small: the error of a bin's mean is taken for miscalibration. It is the mean of
    a half-normal of each bin's standard deviation, so that the excess of a calibrated model is 0.

    Args:
        own: Answers of a population; the error is computed of each member, and averaged.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A fraction, at times below 0; its interval, over examples alone, by leaving out one of 20
        blocks of them at a time.

    References:
        Naeini et al. (2015) and Nixon et al. (2019), for bins of equal mass.

    >>> few = Confident(np.ones((1, 5, 1)), np.ones((1, 5, 1), bool))
    >>> calibration_excess(few).reason
    'undefined (5 answers of a model, 150 are needed)'
    """

    def excess(sums: Floats) -> Floats:
        count, confidence, right, spread = sums
        errors = np.abs(confidence - right) - math.sqrt(2 / math.pi) * np.sqrt(spread)
        return np.asarray(errors.sum(axis=-1) / count.sum(axis=-1))

    return _left_out(own, BINS, excess, clusters, level)


def area_under_risk(
    own: Confident, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Area under the curve of risk and coverage: mean error over all shares that may be answered.

    Args:
        own: Answers of a population; the area is computed of each member, and averaged.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A fraction, at 200 steps of coverage; 0 where models are right wherever they are sure. Its
        interval as for `calibration_excess`.

    References:
        Geifman et al. (2019), Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers.
    """

    def area(sums: Floats) -> Floats:
        count, _, right, _ = sums[..., ::-1]  # the surest first
        risk = 1 - np.cumsum(right, axis=-1) / np.maximum(np.cumsum(count, axis=-1), 1)
        return np.asarray((risk * count).sum(axis=-1) / count.sum(axis=-1))

    return _left_out(own, STEPS, area, clusters, level)


def _left_out(
    own: Confident,
    bins: int,
    statistic: Callable[[Floats], Floats],
    clusters: npt.ArrayLike | None,
    level: float,
) -> Estimate:
    """A statistic of sums in bins, and its interval by leaving out blocks of examples."""
    conditions, n, members = own.right.shape
    ids = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    clustered = int(ids.max()) + 1 if n else 0
    if conditions * n < FEWEST:
        reason = f"undefined ({conditions * n} answers of a model, {FEWEST} are needed)"
        return undefined(reason, n=clustered, members=members, level=level)
    blocks = np.broadcast_to(ids % BLOCKS, (conditions, n)).ravel()
    sums = np.zeros((4, members, BLOCKS, bins))
    for member in range(members):
        sure = own.confidence[..., member].ravel().astype(np.float64)
        rank = np.empty(sure.size, np.int64)
        rank[np.argsort(sure, kind="stable")] = np.arange(sure.size)
        cell = blocks * bins + rank * bins // sure.size
        for part, weights in enumerate(
            (None, sure, own.right[..., member].ravel(), sure * (1 - sure))
        ):
            counted = np.bincount(cell, weights, minlength=BLOCKS * bins)
            sums[part, member] = counted.reshape(BLOCKS, bins)
    whole = sums.sum(axis=2)
    value = float(statistic(whole).mean())
    each = statistic(whole[:, :, None] - sums).mean(axis=0)
    se = math.sqrt((BLOCKS - 1) / BLOCKS * float(((each - each.mean()) ** 2).sum()))
    return Estimate.on_scale(
        value, se, BLOCKS - 1.0, n=clustered, members=members, level=level, note=ALONE
    )
