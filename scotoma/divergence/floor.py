"""How much of the divergence is compression, and how much is seed noise?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.divergence.agreement import agreement
from scotoma.divergence.cluster_rates import GIVEN_POPULATIONS, over_clusters, weighted_rate
from scotoma.divergence.scoring import CieCount, score
from scotoma.inputs import Codes, Floats, Labels, cluster_ids, populations
from scotoma.numbers import (
    FEW_EVENTS,
    Estimate,
    Units,
    Variance,
    check_level,
    cluster_sums,
    crossed_variance,
    n_effective,
    none_seen,
    of_variance,
    undefined,
)
from scotoma.numbers.rates import FEW, UNKNOWN_VARIANCE

# A floor at h votes needs 2h dense members: no estimator from fewer is unbiased, for the chance
# that two disjoint sets of h differ is a polynomial of degree 2h in the shares of the labels. One
# vote is what audits of 2 and of 60 members can both estimate.
VOTES = 1
Scale = Literal["identity", "logit"]


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
    codes = cluster_ids(clusters, len(d))
    scores = score(d, c, n_classes)
    rows = _Rows.of(d, c, codes, level)
    units = Units(len(d), codes)
    share = weighted_rate(
        scores.cie[:, None], units, members=rows.members, level=level, note=GIVEN_POPULATIONS
    )
    if d.shape[1] == 1:
        floor, disagreement, beyond = (
            rows.undefined(f"{name} not estimable ({_one_dense_member(c.shape[1])})")
            for name in ("floor", "disagreement", "excess")
        )
        variance = UNKNOWN_VARIANCE
        if not paired:
            disagreement = weighted_rate(d != c, units, members=rows.members, level=level)
    else:
        pairs = _pairs(d[rows.kept], c[rows.kept], paired=paired)
        floor, disagreement = _rate(pairs.floor, rows), _rate(pairs.disagreement, rows)
        if note := _nothing_changes(d, c, disagreement.value + floor.value, paired=paired):
            beyond, variance = rows.none_seen(0.0, -1.0, note), UNKNOWN_VARIANCE
        else:
            beyond, variance = _beyond(pairs, rows)
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


@dataclass(frozen=True)
class _Rows:
    """The examples that a comparison rests on.

    Attributes:
        kept: Rows on which two members differ, and one that stands for all the others, shape (n,).
        times: How many rows each stands for, shape (n,).
        total: Number of rows.
        codes: From `cluster_ids`.
        members: Size of the smaller population.
        level: Coverage of the intervals.
    """

    kept: Codes
    times: Floats
    total: int
    codes: Codes | None
    members: int
    level: float

    @classmethod
    def of(cls, dense: Labels, compressed: Labels, codes: Codes | None, level: float) -> _Rows:
        """Tell rows on which two members differ from the others."""
        first = dense[:, :1]
        active = (dense != first).any(axis=1) | (compressed != first).any(axis=1)
        kept = np.append(np.flatnonzero(active), np.flatnonzero(~active)[:1])
        times = np.ones(len(kept))
        times[-1] += len(dense) - len(kept)
        members = min(dense.shape[1], compressed.shape[1])
        return cls(kept, times, len(dense), codes, members, level)

    @property
    def n(self) -> int:
        """Number of clusters, or of examples where each is its own."""
        return self.total if self.codes is None else int(self.codes.max()) + 1

    def undefined(self, reason: str) -> Estimate:
        """Say why a number is not known."""
        return undefined(reason, n=self.n, members=self.members, level=self.level)

    def none_seen(self, value: float, lowest: float, note: str = "") -> Estimate:
        """Bound a share, or a difference of shares, that no example speaks against."""
        return none_seen(
            value, n=self.n, members=self.members, lowest=lowest, highest=1.0, level=self.level,
            note=note,
        )  # fmt: skip

    def estimate(
        self, share: _Share, variance: Variance, events_of: Floats, scale: Scale
    ) -> Estimate:
        """Put the mean of a share over all rows beside its interval."""
        if self.codes is not None:
            events_of = cluster_sums(self._all(events_of), self.codes)
        events = n_effective(events_of)
        return of_variance(
            float(share.by_example.sum()) / self.total, variance, n=self.n, members=self.members,
            events=events, level=self.level, scale=scale, note=FEW_EVENTS if events < FEW else "",
        )  # fmt: skip

    def variance(self, pseudo: list[Floats], unit: float | None = None) -> Variance:
        """Compute the crossed variance of a mean over all rows from pseudo-values of those kept."""
        if self.codes is None:
            return crossed_variance(*pseudo, times=self.times, unit=unit)
        whole = (over_clusters(self._all(p), self.codes) for p in pseudo)
        return crossed_variance(*whole, unit=unit)

    def _all(self, values: Floats) -> Floats:
        whole = np.zeros((self.total, *values.shape[1:]))  # no two members differ on the others
        whole[self.kept] = values
        return whole


def _nothing_changes(dense: Labels, compressed: Labels, differing: float, *, paired: bool) -> str:
    """Say that the excess is 0 for want of any change, where it has no spread; else empty."""
    if paired and (dense == compressed).all():
        return "no prediction changes"
    return "" if differing else "no two members differ on any example"


class _Share(NamedTuple):
    """A share of pairs of members, or a difference of two shares.

    Attributes:
        by_example: The share on each row, shape (n,).
        pseudo: Pseudo-values of the members, shape (n, K), one array a population that is drawn by
            itself. Their means over members, or the second ones less the first, are `by_example`
            but for the sign.
    """

    by_example: Floats
    pseudo: list[Floats]


class _Pairs(NamedTuple):
    """How often two dense members differ, a dense and a compressed one, and by how much more."""

    floor: _Share
    disagreement: _Share
    excess: _Share


def _pairs(dense: Labels, compressed: Labels, *, paired: bool) -> _Pairs:
    """Compare members pair by pair, and leave out each member once.

    The pseudo-value of member m is K theta - (K-1) theta(without m). With B_m the share of the
    other dense members that differ from dense member m, that of the floor, the mean of B, is

        2 s B_m - (2s - 1) floor,  s = (K-1)/(K-2).

    That of the disagreement, linear in each population, is the share of the other population that
    differs from m. Paired members are left out together: their disagreement is a statistic of pairs
    like the floor. For two members, where nothing can be left out, s is 1, its limit for many.
    """
    k, other = dense.shape[1], compressed.shape[1]
    s = (k - 1) / max(k - 2, 1)

    def left_out(doubled: Floats, mean: Floats) -> Floats:
        return np.asarray(s * doubled - ((2 * s - 1) * mean)[:, None], np.float64)

    same = agreement(dense, compressed)
    # Whole numbers until the division: what never happens must be 0, not rounding dust.
    within = (k - same.dense_dense) / (k - 1)
    if paired:
        own = dense != compressed  # a member and its own copy are no pair
        by_dense = (k - same.dense_compressed - own) / (k - 1)
        by_compressed = (k - same.compressed_dense - own) / (k - 1)
    else:
        by_dense = (other - same.dense_compressed) / other
        by_compressed = (k - same.compressed_dense) / k
    floor, across = within.mean(axis=1), by_dense.mean(axis=1)
    gain = across - floor
    noise = left_out(2 * within, floor)
    if paired:
        both = by_dense + by_compressed
        of_across, of_gain = [left_out(both, across)], [left_out(both - 2 * within, gain)]
    else:
        # Taking the share from one side makes the difference of the two the share, not 0.
        rest = by_compressed - across[:, None]
        of_across, of_gain = [by_dense, rest], [noise - by_dense, rest]
    return _Pairs(_Share(floor, [noise]), _Share(across, of_across), _Share(gain, of_gain))


def _rate(share: _Share, rows: _Rows) -> Estimate:
    value = float(share.by_example.sum()) / rows.total
    if not 0 < value < 1:
        return rows.none_seen(float(round(value)), 0.0)
    variance = rows.variance(share.pseudo).scaled(1 / (value * (1 - value)))
    return rows.estimate(share, variance, share.by_example, "logit")


def _beyond(pairs: _Pairs, rows: _Rows) -> tuple[Estimate, Variance]:
    """Excess with its interval, and its variance."""
    variance = rows.variance(pairs.excess.pseudo, unit=1.0)
    total = max(variance.examples + variance.members - variance.residual, variance.examples)
    total += variance.floor
    # The degrees of freedom are total^2 over the spread of the parts, which stays.
    df = variance.df * (total / variance.total) ** 2 if variance.total > 0 else variance.df
    variance = replace(variance, total=total, df=df)
    events_of = pairs.floor.by_example + pairs.disagreement.by_example
    return rows.estimate(pairs.excess, variance, events_of, "identity"), variance
