"""How often do answers flip from one frame of a sequence to the next? No labels are needed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.robustness.confidence import mean_share
from scotoma.uncertainty import (
    Estimate,
    cluster_sums,
    crossed_variance,
    of_variance,
    ratio_influence,
    undefined,
)

__all__ = ["flip_probability", "relative_flip_rate"]

NO_EXAMPLES = "undefined (no examples)"


def flip_probability(
    flips: Floats,
    dense: Floats | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Mean share of the steps of a sequence at which a model's answer changes.

    Args:
        flips: Of each kind of sequence, example and member, a fraction, shape (C, n, K).
        dense: The same of dense members, whose probability is subtracted; None for the own one.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    References:
        Hendrycks and Dietterich (2019), section 4, FP.

    >>> flip_probability(np.array([[[0.0, 0.1], [0.2, 0.1]]])).value.__round__(3)
    0.1
    """
    both = (flips,) if dense is None else (dense, flips)
    members = min(one.shape[2] for one in both)
    if not flips.shape[1]:
        return undefined(NO_EXAMPLES, n=0, members=members, level=level)
    if dense is None:
        each = flips.mean(axis=0)
        return mean_share(each, np.ones_like(each), NO_EXAMPLES, clusters, level)
    psi = [_influence(one.mean(axis=0), clusters) for one in both]
    value = float(flips.mean()) - float(dense.mean())
    variance = crossed_variance(*psi, paired=paired)
    if not variance.total > 0:
        why = f"interval not estimable (nothing varies over {len(psi[-1]):,} examples)"
        return undefined(why, value=value, n=len(psi[-1]), members=members, level=level)
    return of_variance(value, variance, n=len(psi[-1]), members=members, level=level)


def relative_flip_rate(
    flips: Floats,
    dense: Floats,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Flip probability over that of dense, the mean over kinds of sequences: 1 is as many flips.

    Args:
        flips: Of compressed members, as for `flip_probability`.
        dense: Of dense members, likewise.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A ratio (papers print 100 times as much, over AlexNet), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4, FR and mFR.

    >>> half = np.array([[[0.2], [0.4], [0.0]]])
    >>> round(relative_flip_rate(half, 2 * half).value, 12)
    0.5
    """
    members = min(one.shape[2] for one in (flips, dense))
    n = flips.shape[1] if clusters is None else len(np.unique(np.asarray(clusters)))
    own, other = (one.mean(axis=(1, 2)) for one in (flips, dense)) if n else (None, None)
    if own is None or other is None:
        return undefined(NO_EXAMPLES, n=0, members=members, level=level)
    if not own.all() or not other.all():
        who = "compressed" if not own.all() else "dense"
        reason = f"undefined (the {who} models never flip in one kind of sequence)"
        return undefined(reason, n=n, members=members, level=level)
    ratios = own / other
    value = float(ratios.mean())
    weights = ratios / len(ratios) / value
    psi_own, psi_other = (
        sum(
            weight * _influence(each, clusters) / mean
            for weight, each, mean in zip(weights, one, means, strict=True)
        )
        for one, means in ((flips, own), (dense, other))
    )
    unit = 1 / math.sqrt(float(own.mean() * other.mean()))
    variance = crossed_variance(psi_other, psi_own, paired=paired, unit=unit)
    return of_variance(value, variance, n=n, members=members, level=level, scale="ratio")


def _influence(events: Floats, clusters: npt.ArrayLike | None) -> Floats:
    rows = cluster_sums(np.ones(len(events)), clusters)
    return ratio_influence(cluster_sums(events.astype(np.float64), clusters), rows)
