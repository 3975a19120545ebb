"""How much of the divergence is compression, and how much is seed noise?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.divergence.cluster_rates import GIVEN_POPULATIONS, over_clusters, weighted_rate
from scotoma.divergence.scoring import CieCount, score
from scotoma.divergence.split_halves import Halves, disjoint_halves, halves
from scotoma.errors import DataError
from scotoma.inputs import Codes, Flags, Floats, Labels, cluster_ids, populations
from scotoma.uncertainty import (
    FEW_EVENTS,
    Estimate,
    Variance,
    check_level,
    cluster_sums,
    combine,
    n_effective,
    none_seen,
    of_variance,
    undefined,
)
from scotoma.uncertainty.rates import FEW, UNKNOWN_VARIANCE

FLOOR_MEMBERS = 10  # below it the extrapolation from halves misses by a tenth and more


@dataclass(frozen=True, kw_only=True)
class CieExcess:
    """CIEs of two populations beside those of seed noise.

    Attributes:
        n: Number of examples.
        cie: Count of CIEs, all dense against all compressed members, with its range over ties.
        cie_share: The count as a share of the examples. Its interval is over examples only: members
            drawn again hold doubles, and populations with doubles disagree more.
        floor_at_k: Share of CIEs that two dense populations of this size would show; not the
            floor of the excess, which is 0.
        floor_extrapolated: The floor comes from halves; False where a second dense population gave
            it.
        halves_dense_dense: Share of examples on which dense half A and dense half B differ.
        halves_dense_compressed: Share on which dense half A and compressed half B differ.
        half_size: Members a half; 0 where there are too few.
        excess: halves_dense_compressed - halves_dense_dense, over examples and training runs.
        excess_variance: Its variance and the parts; nan where there is none.
        splits: Number of splits drawn; 0 where the average over all splits is exact.
        paired: Compressed members derive from dense members.
    """

    n: int
    cie: CieCount
    cie_share: Estimate
    floor_at_k: Estimate
    floor_extrapolated: bool
    halves_dense_dense: float
    halves_dense_compressed: float
    half_size: int
    excess: Estimate
    excess_variance: Variance
    splits: int
    paired: bool


def excess(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    n_classes: int,
    *,
    paired: bool = False,
    clusters: npt.ArrayLike | None = None,
    seed: int = 0,
    splits: int = 200,
    level: float = 0.95,
    second_dense: npt.ArrayLike | None = None,
) -> CieExcess:
    """CIEs beyond those that a second dense population would show.

    Modal labels of few members are noisy, so two populations differ where nothing was compressed.
    The excess compares like with like, halves of h members with disjoint member indices:

        excess = mean over splits of [dense A against compressed B] - [dense A against dense B]

    h is the largest odd number up to (K-1)/2, K the smaller population, so that a member can be
    left out with h fixed. Disjoint indices matter for paired members: a model and its own int8 copy
    agree more than two dense models do, and would pass everything. Its variance is

        V = max(V_ex + V_mod - V_res, V_ex)
        V_mod - V_res = (K-1)/K sum_m [(mean_x delta_xm)^2 - var_x(delta_xm)/N],

    delta_xm what leaving out member m adds to example x, each population apart, or pairs. V_mod by
    itself is no lower bound here: where little differs, what a member does is nearly all chance on
    single examples, which V_res takes away; with the bound, intervals of 30 members were 1.5 to 1.8
    times too long.

    Args:
        dense: Class ids, integers in [0, n_classes), shape (N, K).
        compressed: Class ids of the same examples, shape (N, K').
        n_classes: Number of classes, at least 2.
        paired: Member m of `compressed` derives from member m of `dense`.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.
        seed: Draws the splits. Rows with two labels need none unless `paired`: their average over
            all splits is a hypergeometric table.
        splits: Number of splits where they are drawn.
        level: Coverage of the intervals, a fraction in (0, 1).
        second_dense: Another dense population, shape (N, K''), class ids: its CIEs against `dense`
            are then the floor, without extrapolation.

    Returns:
        Shares as fractions of the examples. With one member per side the CIEs are the flips,
        without floor and excess. Below 3 members: no halves, no excess.

    Raises:
        DataError: As `score`; clusters that are not one id per row; a level that is no fraction.

    >>> dense = np.arange(400)[:, None] % 100 < [3, 4, 5, 4, 3]
    >>> compressed = np.arange(400)[:, None] % 100 < [8, 9, 8, 9, 9]
    >>> result = excess(dense.astype(int), compressed.astype(int), 2)
    >>> round(result.excess.value, 4), round(result.excess.low, 3), round(result.excess.high, 3)
    (0.038, 0.015, 0.061)
    """
    check_level(level)
    if splits < 1:
        raise DataError(f"splits must be at least 1, got {splits}: 200 is the default")
    d, c = populations(dense, compressed, n_classes, paired=paired)
    codes = cluster_ids(clusters, len(d))
    n, k, other = len(d), d.shape[1], c.shape[1]
    smaller = min(k, other)
    scores = score(d, c, n_classes)
    active = (d != d[:, :1]).any(axis=1) | (c != d[:, :1]).any(axis=1)
    if second_dense is None:
        floor = _extrapolated_floor(d[active], other, n, splits=splits, seed=seed, level=level)
        floor = replace(floor, n=_count(codes, n))
    else:
        again = score(d, second_dense, n_classes)
        floor = _share(again.cie, codes, min(k, again.compressed_members), level)
    half = half_size(smaller)
    within = across = math.nan
    drawn = False
    if half:
        part, drawn = halves(d[active], c[active], half, paired=paired, splits=splits, seed=seed)
        within, across = (float(share.sum()) / n for share in part[:2])
        value, variance = _estimate(part, active, codes, members=smaller, level=level)
    else:
        value = undefined(_too_few(k, other), n=_count(codes, n), members=smaller, level=level)
        variance = UNKNOWN_VARIANCE
    return CieExcess(
        n=n,
        cie=scores.cie_count,
        cie_share=_share(scores.cie, codes, smaller, level),
        floor_at_k=floor,
        floor_extrapolated=second_dense is None,
        halves_dense_dense=within,
        halves_dense_compressed=across,
        half_size=half,
        excess=value,
        excess_variance=variance,
        splits=splits if drawn else 0,
        paired=paired,
    )


def half_size(members: int) -> int:
    """Members a half: the largest odd number up to (members - 1)/2, 0 where there is none.

    Odd, so that two labels cannot tie; one member is spare, so that each can be left out.

    >>> [half_size(k) for k in (1, 2, 3, 10, 30)]
    [0, 0, 1, 3, 13]
    """
    most = (members - 1) // 2
    return most - 1 + most % 2 if most else 0


def _too_few(k: int, other: int) -> str:
    if k == other == 1:
        return (
            "excess not estimable (one model per side: the CIEs are the flips, and seed noise "
            "cannot be seen)"
        )
    return (
        "excess not estimable (halves with one member to spare need 3 members a population, "
        f"got {k} and {other})"
    )


def _share(flags: Flags, codes: Codes | None, members: int, level: float) -> Estimate:
    return weighted_rate(
        flags[:, None], codes, members=members, level=level, note=GIVEN_POPULATIONS
    )


def _extrapolated_floor(
    dense: Labels, other: int, n: int, *, splits: int, seed: int, level: float
) -> Estimate:
    """Floor of the count from halves of K/2 members, on the rows that are not unanimous.

    Modal labels differ on examples so close to a tie that chance decides; their density narrows
    with the standard deviation of the difference of two shares: sqrt(2/h) for halves,
    sqrt(1/K + 1/K') for the populations, a factor of 1/sqrt(2) where K = K' = 2h.
    """
    k = dense.shape[1]
    members = min(k, other)
    if members < FLOOR_MEMBERS:
        reason = (
            f"floor not estimable from {members} members (extrapolated from halves, it needs "
            f"{FLOOR_MEMBERS}; a second dense population gives it)"
        )
        return undefined(reason, n=n, members=members, level=level)
    half = k // 2
    share = float(disjoint_halves(dense, half, splits=splits, seed=seed).sum()) / n
    value = share * math.sqrt((1 / k + 1 / other) * half / 2)
    reason = f"extrapolated from halves of {half} members, without an interval"
    return undefined(reason, value=value, n=n, members=members, level=level)


def _count(codes: Codes | None, rows: int) -> int:
    return rows if codes is None else int(codes.max()) + 1


def _estimate(
    part: Halves, active: Flags, codes: Codes | None, *, members: int, level: float
) -> tuple[Estimate, Variance]:
    """Excess, its interval and variance from the rows that are not unanimous; the others are 0."""
    gain = part.dense_compressed - part.dense_dense
    events_of = part.dense_compressed + part.dense_dense
    drops, n = part.drops, active.size
    value = float(gain.sum()) / n
    if codes is not None:
        events_of = cluster_sums(events_of, codes[active])
        gain = over_clusters(_fill(gain[:, None], active), codes)[:, 0]
        drops = [over_clusters(_fill(drop, active), codes) for drop in drops]
        n = len(gain)
    if not events_of.any():
        note = "no two members differ on any example"
        none = none_seen(
            0.0, n=n, members=members, lowest=-1.0, highest=1.0, level=level, note=note
        )
        return none, UNKNOWN_VARIANCE
    events = n_effective(events_of)
    variance = _variance(gain, drops, n)
    estimate = of_variance(
        value,
        variance,
        n=n,
        members=members,
        events=events,
        level=level,
        note=FEW_EVENTS if events < FEW else "",
    )
    return estimate, variance


def _fill(values: Floats, active: Flags) -> Floats:
    whole = np.zeros((active.size, *values.shape[1:]))
    whole[active] = values
    return whole


def _variance(gain: Floats, drops: list[Floats], n: int) -> Variance:
    """Crossed variance of the mean of n values, where values that are left out are 0.

    The leave-one-out form of the members' variance: with pseudo-values theta - (K-1) delta in the
    place of influences the parts are those of `crossed_variance`.
    """
    if n < 2:
        return UNKNOWN_VARIANCE
    zeros = n - len(gain)
    mean = gain.sum() / n
    second = ((gain - mean) ** 2).sum() + zeros * mean**2
    fourth = ((gain - mean) ** 4).sum() + zeros * mean**4
    kurtosis = n * fourth / second**2 if second > 0 else 1.0
    parts = []
    for drop in drops:
        k = drop.shape[1]
        means = drop.sum(axis=0) / n
        spread = ((drop**2).sum(axis=0) - n * means**2) / (n - 1)
        own = (k - 1) / k * ((means - means.mean()) ** 2).sum()
        parts.append((np.asarray(own), np.asarray((k - 1) / k * spread.sum() / n), k))
    variance = combine(np.asarray(second / (n - 1) / n), np.asarray(kurtosis - 1), n, parts)
    total = max(variance.examples + variance.members - variance.residual, variance.examples)
    # The degrees of freedom are total^2 over the spread of the parts, which stays.
    df = variance.df * (total / variance.total) ** 2 if variance.total > 0 else variance.df
    return replace(variance, total=total, df=df)
