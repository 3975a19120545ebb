"""How sure are models of their answers, and do they notice pictures that are other ones?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from scotoma.inputs import Floats
from scotoma.numbers import (
    Estimate,
    cluster_sums,
    crossed_variance,
    of_variance,
    ratio_influence,
    undefined,
)

__all__ = ["Familiarity", "auroc", "energy", "overconfidence"]


def overconfidence(
    own: Floats,
    dense: Floats | None = None,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> Estimate:
    """Mean confidence minus accuracy, a fraction: above 0 where models are too sure.

    Args:
        own: Probability of the predicted class less whether it is the label, of each example and
            member of a population, shape (n, K).
        dense: The same of another, whose overconfidence is subtracted; None for the own one.
        clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
        paired: Member m derives from dense member m.
        level: Coverage, a fraction in (0, 1).

    >>> right = np.array([[1], [1], [1], [0]])
    >>> round(overconfidence(0.9 - right).value, 3)
    0.15
    """
    both = (own,) if dense is None else (dense, own)
    members = min(one.shape[1] for one in both)
    if not len(own):
        return undefined("undefined (no examples)", n=0, members=members, level=level)
    rows = cluster_sums(np.ones(len(own)), clusters)
    psi = [ratio_influence(cluster_sums(each, clusters), rows) for each in both]
    value = float(own.mean()) - (0.0 if dense is None else float(dense.mean()))
    variance = crossed_variance(*psi, paired=paired and dense is not None)
    return of_variance(value, variance, n=len(rows), members=members, level=level)


def energy(scores: npt.ArrayLike) -> Floats:
    """Compute minus the energy of pictures: high where a picture is familiar to a model.

    Args:
        scores: Scores before softmax, shape (n, C).

    Returns:
        The logarithm of the sum of their exponentials, shape (n,).

    References:
        Liu et al. (2020), Energy-based Out-of-distribution Detection.

    >>> energy([[2.0, 0.0]]).round(3).tolist()
    [2.127]
    """
    return np.asarray(logsumexp(np.asarray(scores, np.float64), axis=1))


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
