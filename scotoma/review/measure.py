"""What are the rates once labels are corrected? A difference estimator over two strata.

Labels corrected among changed examples alone would favour whichever model those examples favour.
So rates need a random sample of the unchanged ones as well, and each reviewed example stands for
the examples of its stratum that nobody reviewed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from scotoma.numbers import COMPRESSED, DENSE, Units, Variance

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FEWEST = 20  # reviewed examples of a stratum, unless that is all


def drawn_prefix(reviewed: Flags, lots: npt.NDArray[np.uint64]) -> Flags:
    """The reviewed examples that form a random sample: the first by lot, up to the first gap.

    Args:
        reviewed: Whether an example of the stratum was reviewed, shape (N,).
        lots: Random numbers of the examples, shape (N,).

    >>> reviewed = np.array([True, False, True, True])
    >>> drawn_prefix(reviewed, np.array([2, 3, 1, 4], np.uint64)).tolist()
    [True, False, True, False]
    """
    order = np.argsort(lots, kind="stable")
    gaps = np.flatnonzero(~reviewed[order])
    kept = np.zeros(len(reviewed), bool)
    kept[order[: gaps[0] if len(gaps) else len(order)]] = True
    return kept


@dataclass(frozen=True)
class GroupErrors:
    """The error of a group before and after compression.

    Attributes:
        dense: Share of wrong dense predictions.
        compressed: Share of wrong compressed predictions.
        change: compressed - dense.
        low: Lower limit of the change.
        high: Upper limit.
    """

    dense: float
    compressed: float
    change: float
    low: float
    high: float


def corrected_change(
    dense: npt.NDArray[np.integer],
    compressed: npt.NDArray[np.integer],
    labels: Ints,
    corrected: Ints,
    drawn: Flags,
    strata: Ints,
    group: Flags,
    *,
    paired: bool = False,
    clusters: Ints | None = None,
    level: float = 0.95,
) -> GroupErrors | None:
    """Estimate the error of a group by corrected labels, and how much compression changes it.

    With y the share of members that are wrong and x whether an example has a right answer, totals
    over the group are those by the labels as they were, plus N_s/n_s times what review changed in
    the sample of each stratum s. The interval counts examples and members, crossed, and that only
    some labels were reviewed; where a sample found nothing to correct, one correction is assumed.

    Args:
        dense: Class ids of dense members, shape (N, K).
        compressed: Class ids of compressed members, shape (N, K').
        labels: Class ids as they were, shape (N,).
        corrected: Class ids as reviewed, -1 for no right answer; as they were where not reviewed.
        drawn: Whether an example is in the random sample of its stratum, shape (N,).
        strata: Stratum of each example, shape (N,).
        group: Whether an example is in the group, shape (N,).
        paired: Member m of `compressed` derives from member m of `dense`.
        clusters: Cluster of each example, shape (N,); None where each is its own.
        level: Of the interval.

    Returns:
        The change; None where the group has no example with a right answer.

    References:
        Särndal, Swensson and Wretman (1992), Model Assisted Survey Sampling, sections 6.3 and 5.6:
        the difference estimator, and the linearised variance of a ratio.

    >>> labels, group = np.array([0, 1] * 20), np.ones(40, bool)
    >>> found = corrected_change(
    ...     labels[:, None], 1 - labels[:, None], labels, 1 - labels, group, labels * 0, group
    ... )
    >>> found.dense, found.compressed
    (1.0, 0.0)
    """
    known = corrected >= 0
    wrong = [(one != labels[:, None]).mean(axis=1) for one in (dense, compressed)]
    new = [(one != corrected[:, None]).mean(axis=1) * known for one in (dense, compressed)]
    weight = np.zeros(len(labels))
    for stratum in np.unique(strata):
        own = strata == stratum
        if n := int((own & drawn).sum()):
            weight[own & drawn] = own.sum() / n
    at_risk = float(group.sum() + (weight * group * (known.astype(float) - 1)).sum())
    if at_risk <= 0:
        return None
    rates = [
        float((before[group].sum() + (weight * group * (after - before)).sum()) / at_risk)
        for before, after in zip(wrong, new, strict=True)
    ]
    change = rates[1] - rates[0]
    # What review changed of an example's contribution to the change of the rate.
    shift = group * ((new[1] - new[0]) - (wrong[1] - wrong[0]) - change * (known.astype(float) - 1))
    of_labels = 0.0
    for stratum in np.unique(strata):
        own = strata == stratum
        of_labels += _sampling_variance(
            shift[own & drawn], int((own & group).sum()), int(own.sum())
        )
    variance = _crossed(dense, compressed, corrected, group & known, paired, clusters)
    total = variance.total + of_labels / at_risk**2
    df = variance.df if variance.df > 0 else np.inf
    half = float(stats.t.ppf((1 + level) / 2, df)) * total**0.5
    return GroupErrors(
        dense=min(1.0, max(0.0, rates[0])),
        compressed=min(1.0, max(0.0, rates[1])),
        change=change,
        low=max(-1.0, change - half),
        high=min(1.0, change + half),
    )


def _sampling_variance(shift: Floats, in_group: int, examples: int) -> float:
    """Variance of the total of `shift` over a stratum of which a random part was reviewed."""
    n = len(shift)
    if n == examples or not in_group:
        return 0.0
    spread = float(shift.var(ddof=1)) if n > 1 else 1.0
    # Nothing corrected is not nothing wrong: as if the next example of the group had been.
    spread = max(spread, in_group / examples / n)
    return examples**2 * (1 - n / examples) * spread / n


def _crossed(
    dense: npt.NDArray[np.integer],
    compressed: npt.NDArray[np.integer],
    labels: Ints,
    rows: Flags,
    paired: bool,
    clusters: Ints | None,
) -> Variance:
    """The crossed variance of the change over examples, or clusters, and members."""
    units = Units.of(len(labels), clusters)
    before, after = (
        units.mean(members != labels[:, None], rows, axis=axis)
        for members, axis in ((dense, DENSE), (compressed, DENSE if paired else COMPRESSED))
    )
    return after.since(before).variance
