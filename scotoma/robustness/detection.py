"""Does a model notice that pictures are other ones than those it knows?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.uncertainty import (
    Estimate,
    cluster_sums,
    crossed_variance,
    none_seen,
    of_variance,
    ratio_influence,
    undefined,
)

__all__ = ["ACCEPTED", "Familiarity", "accepted_share", "auroc"]

ACCEPTED = 0.95  # of the clean pictures
BLOCKS = 20  # of examples, left out one by one
ALONE = "the interval is over examples alone"


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How familiar pictures are to each member of a population: confidence, or minus the energy.

    Attributes:
        clean: Of clean pictures, shape (n, K).
        other: Of corrupted versions of the same pictures, shape (C, n, K), or of pictures of
            another set, shape (m, K).
    """

    clean: Floats
    other: Floats

    @property
    def same_examples(self) -> bool:
        """Whether `other` are versions of the clean pictures."""
        return self.other.ndim == 3

    @property
    def known(self) -> bool:
        """Whether there are pictures on both sides, and numbers of all."""
        sizes = self.clean.size and self.other.size
        return bool(sizes and np.isfinite(self.clean).all() and np.isfinite(self.other).all())


def auroc(
    own: Familiarity,
    dense: Familiarity | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Chance that a clean picture is more familiar than another one; ties count half.

    It is the area under the ROC curve of each member, averaged. Its variance is that of DeLong's
    placements, an example's clean and corrupted ones together (Obuchowski), crossed with members.

    Args:
        own: Of a population.
        dense: Of another, whose area is subtracted; None for the area itself.
        clusters: Id of each clean example's cluster, shape (n,); None leaves every one its own.
        paired: Member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A fraction: 0.5 where nothing is told apart; undefined where a score is no number.

    References:
        DeLong, DeLong and Clarke-Pearson (1988), Biometrics 44:837-845; Obuchowski (1997),
        Biometrics 53:567-578.

    >>> auroc(Familiarity(np.array([[0.9], [0.8]]), np.array([[[0.1], [0.85]]]))).value
    0.75
    """
    both = (own,) if dense is None else (dense, own)
    members = min(one.clean.shape[1] for one in both)
    n = len(own.clean) if clusters is None else len(np.unique(clusters))
    if not all(one.known for one in both):
        return undefined("undefined (no scores)", n=n, members=members, level=level)
    areas, influences = zip(*(_area(one, clusters) for one in both), strict=True)
    value = float(areas[-1] - (0.0 if dense is None else areas[0]))
    variance = crossed_variance(*influences, paired=paired and dense is not None, unit=1 / n)
    return of_variance(value, variance, n=n, members=members, level=level)


def _area(own: Familiarity, clusters: npt.ArrayLike | None) -> tuple[float, Floats]:
    """Mean area over the members, and the influence of every cluster on it, shape (N, K)."""
    n, members = own.clean.shape
    above = np.empty((n, members))
    below = np.empty(own.other.shape)
    for member in range(members):
        clean, other = own.clean[:, member], own.other[..., member]
        above[:, member] = _share_below(clean, other.ravel())
        below[..., member] = 1 - _share_below(other.ravel(), clean).reshape(other.shape)
    areas = above.mean(axis=0)
    rows = cluster_sums(np.ones(n), clusters)
    if own.same_examples:
        events = above + below.mean(axis=0) - areas  # the mean of each part is the area
        return float(areas.mean()), ratio_influence(cluster_sums(events, clusters), rows)
    # Two sets of pictures: the influences stand below each other, weighted by the set's share.
    # The members are the same in both, so that what sets one apart may enter once only.
    clean = ratio_influence(cluster_sums(above, clusters), rows)
    other = below - below.mean(axis=0)
    total = len(clean) + len(other)
    parts = [part * total / len(part) for part in (clean, other)]
    return float(areas.mean()), np.concatenate(parts)


def _share_below(values: Floats, others: Floats) -> Floats:
    """Share of the others that are below each value; ties count half."""
    order = np.sort(others)
    low, high = (np.searchsorted(order, values, side=side) for side in ("left", "right"))
    return np.asarray((low + high) / (2 * len(order)))


def accepted_share(
    own: Familiarity, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Share of the other pictures that pass where 95% of the clean ones do.

    Args:
        own: Of a population; the share is computed of each member, and averaged.
        clusters: As for `auroc`.
        level: Coverage, a fraction in (0, 1).

    Returns:
        A fraction, 0.95 where nothing is told apart; its interval, over examples alone, by leaving
        out one of 20 blocks of them at a time, on the scale of log-odds; by the rule of three
        where none or all pass. `n` counts the other pictures.

    >>> accepted_share(Familiarity(np.ones((4, 1)), np.zeros((4, 1)))).reason
    'undefined (4 clean pictures, 20 are needed)'
    """
    n, members = own.clean.shape
    if not own.known:
        return undefined("undefined (no scores)", n=n, members=members, level=level)
    ids = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(ids.max()) + 1
    if count < BLOCKS:
        reason = f"undefined ({count} clean pictures, {BLOCKS} are needed)"
        return undefined(reason, n=count, members=members, level=level)
    blocks = ids % BLOCKS
    others = blocks if own.same_examples else np.arange(len(own.other)) % BLOCKS
    each = [
        _accepted(own.clean[blocks != left_out], own.other[..., others != left_out, :])
        for left_out in range(BLOCKS)
    ]
    share, seen = _accepted(own.clean, own.other), count if own.same_examples else len(own.other)
    if share in (0.0, 1.0):
        return none_seen(
            share, n=seen, members=members, lowest=0.0, highest=1.0, level=level, note=ALONE
        )
    deviations = np.array(each) - np.mean(each)
    se = math.sqrt((BLOCKS - 1) / BLOCKS * float((deviations**2).sum()))
    return Estimate.on_scale(
        share, se / (share * (1 - share)), BLOCKS - 1.0, n=seen, members=members, level=level,
        note=ALONE, scale="logit",
    )  # fmt: skip


def _accepted(clean: Floats, other: Floats) -> float:
    rejected = int((1 - ACCEPTED) * len(clean) + 1e-9)  # at most; 5% of 40 is 2, not 1.999
    thresholds = np.partition(clean, rejected, axis=0)[rejected]
    return float((other >= thresholds).mean())
