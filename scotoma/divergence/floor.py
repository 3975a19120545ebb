"""How much of the divergence is compression, and how much is seed noise?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.divergence.agreement import (
    GIVEN_POPULATIONS,
    CieCount,
    agreement,
    score,
    weighted_rate,
)
from scotoma.numbers import (
    COMPRESSED,
    FEW_EVENTS,
    Estimate,
    Number,
    Units,
    Variance,
    check_level,
    none_seen,
    of_variance,
    undefined,
)
from scotoma.numbers.enough import FEW
from scotoma.numbers.inputs import Floats, Labels, populations
from scotoma.numbers.rates import UNKNOWN_VARIANCE

# A floor at h votes needs 2h dense members: no estimator from fewer is unbiased, for the chance
# that two disjoint sets of h differ is a polynomial of degree 2h in the shares of the labels. One
# vote is what audits of 2 and of 60 members can both estimate.
VOTES = 1


@dataclass(frozen=True, kw_only=True)
class CieExcess:
    """CIEs of two populations, and what compression adds to seed noise.

    Attributes:
        n: Number of examples.
        cie: Count of CIEs, all dense against all compressed members, with its range over ties. It
            falls as members are added: a description, not to be compared between audits.
        cie_share: The count as a share of the examples. Its interval is over examples only: members
            drawn again hold doubles, and populations with doubles disagree more.
        votes: Members a side whose label is compared in the next three numbers.
        floor: Share of examples that two dense members label differently.
        disagreement: Share that a dense and a compressed member label differently; paired members
            are compared with those that derive from others.
        excess: disagreement - floor, over examples and training runs.
        excess_variance: Its variance and the parts; nan where there is none.
        paired: Compressed members derive from dense members.
    """

    n: int
    cie: CieCount
    cie_share: Estimate
    votes: int
    floor: Estimate
    disagreement: Estimate
    excess: Estimate
    excess_variance: Variance
    paired: bool


def excess(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    n_classes: int,
    *,
    paired: bool = False,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> CieExcess:
    """CIEs beyond those that another dense population would show, one model against one.

    The count of CIEs depends on the number of members, for a majority of few is a noisy one. The
    excess does not: it compares one model with one, averaged over all pairs. With b_i and v_i the
    dense and compressed members, of K and K', that label an example i,

        disagreement = 1 - sum_i b_i v_i / (K K')
        floor        = 1 - sum_i b_i (b_i - 1) / (K (K-1))
        excess       = disagreement - floor,

    averaged over examples, all three without bias whatever K and K'. Paired members are compared
    with members that derive from others, K (K-1) pairs: a model and its own int8 copy agree more
    than two dense models do, and would pass everything. The variance is crossed, over examples and
    members, from the pseudo-values of leaving out one member, except that

        V = max(V_ex + V_mod - V_res, V_ex)

    without the bound V_mod: where little differs, what a member does is nearly all chance on single
    examples, which V_res takes away.

    Args:
        dense: Class ids, integers in [0, n_classes), shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').
        n_classes: Number of classes, at least 2.
        paired: Member m of `compressed` derives from member m of `dense`.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Shares as fractions of the examples. One dense member shows no seed noise: there is no floor
        and no excess, and the CIEs of one member per side are the flips.

    Raises:
        DataError: As `score`; clusters that are not one id per row; a level that is no fraction.

    References:
        Arvesen (1969), Annals of Mathematical Statistics 40:2076-2100, jackknifing U-statistics.

    >>> dense = np.arange(400)[:, None] % 100 < [3, 4, 5, 4, 3]
    >>> compressed = np.arange(400)[:, None] % 100 < [8, 9, 8, 9, 9]
    >>> result = excess(dense.astype(int), compressed.astype(int), 2)
    >>> round(result.excess.value, 4), round(result.excess.low, 3), round(result.excess.high, 3)
    (0.038, 0.014, 0.062)
    """
    check_level(level)
    d, c = populations(dense, compressed, n_classes, paired=paired)
    units = Units.of(len(d), clusters)
    scores = score(d, c, n_classes)
    known: dict[str, Any] = {"members": min(d.shape[1], c.shape[1]), "level": level}
    share = weighted_rate(scores.cie[:, None], units, note=GIVEN_POPULATIONS, **known)
    variance = UNKNOWN_VARIANCE
    if d.shape[1] == 1:
        floor, disagreement, beyond = (
            undefined(f"{name} not estimable ({_one_dense_member(c.shape[1])})", n=share.n, **known)
            for name in ("floor", "disagreement", "excess")
        )
        if not paired:
            disagreement = weighted_rate(d != c, units, **known)
    else:
        noise, across, events = _compared(*_differing(d, c, units), paired=paired)
        floor, disagreement = noise.rate("", **known), across.rate("", **known)
        if note := _nothing_changes(d, c, across.value + noise.value, paired=paired):
            beyond = none_seen(0.0, n=share.n, lowest=-1.0, highest=1.0, note=note, **known)
        else:
            added = across - noise if paired else across.since(noise)
            variance = _without_members(added.variance)
            beyond = of_variance(
                added.value, variance, n=share.n, events=events,
                note=FEW_EVENTS if events < FEW else "", **known,
            )  # fmt: skip
    return CieExcess(
        n=len(d),
        cie=scores.cie_count,
        cie_share=share,
        votes=VOTES,
        floor=floor,
        disagreement=disagreement,
        excess=beyond,
        excess_variance=variance,
        paired=paired,
    )


def _one_dense_member(other: int) -> str:
    if other == 1:
        return "one model per side: the CIEs are the flips, and seed noise cannot be seen"
    return "one dense member: seed noise shows only between two"


def _nothing_changes(dense: Labels, compressed: Labels, differing: float, *, paired: bool) -> str:
    """Say that the excess is 0 for want of any change, where it has no spread; else empty."""
    if paired and (dense == compressed).all():
        return "no prediction changes"
    return "" if differing else "no two members differ on any example"


def _differing(dense: Labels, compressed: Labels, units: Units) -> tuple[Labels, Labels, Units]:
    """The rows on which two members differ, and one that stands for all the others."""
    if units.clusters is not None:
        return dense, compressed, units
    first = dense[:, :1]
    active = (dense != first).any(axis=1) | (compressed != first).any(axis=1)
    kept = np.append(np.flatnonzero(active), np.flatnonzero(~active)[:1])
    times = np.ones(len(kept))
    times[-1] += len(dense) - len(kept)
    return dense[kept], compressed[kept], Units(len(kept), None, times)


def _compared(
    dense: Labels, compressed: Labels, units: Units, *, paired: bool
) -> tuple[Number, Number, float]:
    """Floor and disagreement, pair by pair, and the effective events of both together.

    They are means of pseudo-values: that of member m is K theta - (K-1) theta(without m). With B_m
    the share of the other dense members that differ from dense member m, that of the floor, the
    mean of B, is

        2 s B_m - (2s - 1) floor,  s = (K-1)/(K-2).

    That of the disagreement, linear in each population, is the share of the other population that
    differs from m. Paired members are left out together: their disagreement is a statistic of pairs
    like the floor. For two members, where nothing can be left out, s is 1, its limit for many.
    """
    k, other = dense.shape[1], compressed.shape[1]
    s = (k - 1) / max(k - 2, 1)

    def jackknifed(doubled: Floats, share: Floats) -> Number:
        return units.mean(s * doubled - ((2 * s - 1) * share)[:, None])

    same = agreement(dense, compressed)
    # Whole numbers until the division: what never happens must be 0, not rounding dust.
    within = (k - same.dense_dense) / (k - 1)
    floor_share = within.mean(axis=1)
    if paired:
        own = dense != compressed  # a member and its own copy are no pair
        by_dense = (k - same.dense_compressed - own) / (k - 1)
        by_compressed = (k - same.compressed_dense - own) / (k - 1)
        share = by_dense.mean(axis=1)
        across = jackknifed(by_dense + by_compressed, share)
    else:
        differ = other - same.dense_compressed
        share = differ.mean(axis=1) / other
        partners = units.partners(k - same.compressed_dense, axis=COMPRESSED)
        across = units.mean(differ, flip=other) / other + partners / k
    events = units.mean(floor_share + share).events
    return jackknifed(2 * within, floor_share), across, events


def _without_members(variance: Variance) -> Variance:
    """The variance without the bound V_mod, and its degrees of freedom.

    They are total^2 over the spread of the parts, which stays.
    """
    total = max(variance.examples + variance.members - variance.residual, variance.examples)
    total += variance.floor
    df = variance.df * (total / variance.total) ** 2 if variance.total > 0 else variance.df
    return replace(variance, total=total, df=df)
