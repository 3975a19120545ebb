"""Does a compressed population lose more on corrupted pictures than the dense one, and who does?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.numbers import (
    FEW_EVENTS,
    Estimate,
    Variance,
    crossed_variance,
    holm,
    n_effective,
    of_variance,
    undefined,
)
from scotoma.numbers.rates import FEW, UNKNOWN_VARIANCE
from scotoma.robustness.losses import SCALES, Loss, Scale, loss
from scotoma.robustness.right_answers import Answered

__all__ = ["FEWEST_EXAMPLES", "Amplification", "GroupTest", "amplified_loss", "group_contrast"]
__all__ += ["Mask", "amplified", "estimate_of", "group_tests"]

FEWEST_EXAMPLES = 50  # of a group that is compared with the rest
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Amplification:
    """Loss of a compressed population beyond that of the dense one, on three scales.

    Attributes:
        estimates: By scale: compressed loss minus dense loss; above 0 where compression makes
            corruption worse. Fractions (`absolute`, `relative`) and logits (`log_odds`).
        variances: By scale: the variance of the estimate and its parts.
    """

    estimates: Mapping[Scale, Estimate]
    variances: Mapping[Scale, Variance]

    @property
    def depends_on_scale(self) -> bool:
        """Whether the scales disagree on who loses more."""
        values = [estimate.value for estimate in self.estimates.values()]
        return any(value > 0 for value in values) and any(value < 0 for value in values)


def amplified_loss(
    dense: Answered,
    compressed: Answered,
    at_risk: Mask | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Amplification:
    """Compare what two populations lose between clean and corrupted pictures of the same examples.

    The variance is `crossed_variance` of the loss's linear part: every example has one influence,
    of its clean picture and of its corrupted ones together, so that both are paired.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        at_risk: Examples that count, bool, shape (n,); None for all.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Compressed member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    Returns:
        The amplification; nan with a reason where a loss is undefined.

    >>> clean = np.array([[1.0, 1], [1, 1], [1, 0], [0, 1]])
    >>> dense, compressed = Answered(clean, clean / 2), Answered(clean, clean / 4)
    >>> amplified_loss(dense, compressed).estimates["absolute"].value
    0.1875
    """
    risk = np.ones(len(dense.clean), np.bool_) if at_risk is None else at_risk
    estimates, variances = {}, {}
    for scale in SCALES:
        estimates[scale], variances[scale] = _on_scale(
            dense, compressed, risk, scale, clusters, paired=paired, level=level
        )
    return Amplification(estimates, variances)


def _on_scale(
    dense: Answered,
    compressed: Answered,
    risk: Mask,
    scale: Scale,
    clusters: npt.ArrayLike | None,
    *,
    paired: bool,
    level: float,
) -> tuple[Estimate, Variance]:
    of_dense, of_compressed = (
        loss(*population.accuracies(risk), scale) for population in (dense, compressed)
    )
    members = min(dense.clean.shape[1], compressed.clean.shape[1])
    n = int(risk.sum()) if clusters is None else len(np.unique(np.asarray(clusters)[risk]))
    if reason := of_dense.reason or of_compressed.reason:
        return undefined(reason, n=n, members=members, level=level), UNKNOWN_VARIANCE
    kept = None if clusters is None else np.asarray(clusters)[risk]
    d, c = (
        Answered(population.clean[risk], population.corrupted[risk]).influence(
            own.slopes, np.ones(int(risk.sum()), np.bool_), kept
        )
        for population, own in ((dense, of_dense), (compressed, of_compressed))
    )
    variance = crossed_variance(d, c, paired=paired, unit=_unit(of_dense, of_compressed))
    value = of_compressed.value - of_dense.value
    return estimate_of(value, variance, c.mean(1) - d.mean(1), n, members, level), variance


def _unit(dense: Loss, compressed: Loss) -> float:
    """Influence of an example whose corrupted pictures one population has wrong."""
    return math.sqrt(abs(dense.slopes[1] * compressed.slopes[1]))


def estimate_of(
    value: float, variance: Variance, psi: Floats, n: int, members: int, level: float
) -> Estimate:
    """The estimate of a difference that few examples may carry; psi is each one's influence."""
    # Examples that do not change have the one influence that is the mean's negative.
    moved = np.abs(psi - np.median(psi))
    events = n_effective(np.where(moved > 1e-12, moved, 0.0))
    return of_variance(
        value, variance, n=n, members=members, events=events, level=level,
        note=FEW_EVENTS if events < FEW else "",
    )  # fmt: skip


def group_contrast(
    dense: Answered,
    compressed: Answered,
    group: Mask,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Compare a group's absolute amplification with that of all other examples.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        group: Membership, bool, shape (n,).
        clusters: As for `amplification`.
        paired: As for `amplification`.
        level: Coverage, a fraction in (0, 1).

    Returns:
        D_group - D_rest, a fraction; above 0 where the group loses more. nan with a reason where
        the group or the rest has fewer than 50 examples.

    >>> some = np.array([True, False])
    >>> group_contrast(Answered(np.ones((2, 1)), np.ones((2, 1))), Answered(np.ones((2, 1)),
    ...     np.ones((2, 1))), some).reason
    'not compared with the rest (1 example, 50 are needed)'
    """
    members = min(dense.clean.shape[1], compressed.clean.shape[1])
    fewer = int(min(group.sum(), (~group).sum()))
    n = int(group.sum())
    if fewer < FEWEST_EXAMPLES:
        noun = "example" if fewer == 1 else "examples"
        reason = f"not compared with the rest ({fewer} {noun}, {FEWEST_EXAMPLES} are needed)"
        return undefined(reason, n=n, members=members, level=level)
    slopes = (1.0, -1.0)
    d, c = (
        own.influence(slopes, group, clusters) - own.influence(slopes, ~group, clusters)
        for own in (dense, compressed)
    )
    variance = crossed_variance(d, c, paired=paired, unit=len(d) / fewer)
    value = sum(
        sign * amplified(dense, compressed, mask) for sign, mask in ((1, group), (-1, ~group))
    )
    return estimate_of(value, variance, c.mean(1) - d.mean(1), n, members, level)


def amplified(dense: Answered, compressed: Answered, at_risk: Mask) -> float:
    """The absolute amplification alone, a fraction; nan without examples at risk."""
    of_dense, of_compressed = (
        loss(*population.accuracies(at_risk), "absolute") for population in (dense, compressed)
    )
    return of_compressed.value - of_dense.value


@dataclass(frozen=True)
class GroupTest:
    """One test: does this group lose more robustness than the rest under this family?

    Attributes:
        group: Key of the group.
        family: Name of the family of corruptions.
        contrast: D_group - D_rest, a fraction.
        p: Two-sided p-value; nan where there is no interval.
        p_adjusted: The same after Holm over all tests of the variant.
    """

    group: str
    family: str
    contrast: Estimate
    p: float
    p_adjusted: float


def group_tests(contrasts: Mapping[tuple[str, str], Estimate]) -> list[GroupTest]:
    """Test every group under every family; together they are one family of tests.

    Args:
        contrasts: By group and family of corruptions, from `group_contrast`.

    Returns:
        A test each, in their order; those without an interval are not counted.

    References:
        Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    >>> clear = Estimate.on_scale(0.05, 0.01, 9.0, n=500, members=10)
    >>> round(group_tests({("sex=male", "noise"): clear})[0].p_adjusted, 4)
    0.0007
    """
    tails = [[e.p_above(0.0), e.p_below(0.0)] for e in contrasts.values()]
    p = np.minimum(1.0, 2 * np.array(tails).reshape(-1, 2).min(axis=1))  # nan stays nan
    return [
        GroupTest(*key, estimate, float(own), float(adjusted))
        for (key, estimate), own, adjusted in zip(contrasts.items(), p, holm(p), strict=True)
    ]
