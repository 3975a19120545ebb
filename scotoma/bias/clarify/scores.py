"""A metric as the mean of scores, one an example and member, from which intervals follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.arguments import Case
from scotoma.bias.clarify.cells import DIFFERENCES, FACETS, measure
from scotoma.numbers import DENSE, Number, Units, cluster_sums

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """A metric as the mean of scores over examples (or clusters) and members.

    Attributes:
        values: The metric on each member, shape (K,), or on all together, shape (1,); nan where
            undefined.
        scores: Shape (n, K): each column has its member's value as mean; of members together all
            columns have theirs.
        effects: What the other prediction for an example would move, mean over members, times N;
            shape (N,) in rows of the case.
        n: Examples or clusters that enter.
        events: Effective events of the rarest part; nan for the metrics over strata.
        extra: Variance that one example more on each side of each proportion adds to a difference
            of proportions.
        reason: Why values are nan.
        note: What to say beside the values.
        times: How many examples each row of scores stands for, shape (n,); None for one each.
    """

    values: Array
    scores: Array
    effects: Array
    n: int
    events: float
    extra: float = 0.0
    reason: str = ""
    note: str = ""
    times: Array | None = None

    def number(self, axis: str = DENSE) -> Number:
        """The mean of the scores, of members on this axis."""
        return Units(len(self.scores), None, self.times).mean(self.scores, axis=axis, flip=None)


def metric_scores(
    name: str, case: Case, usable: Bools | None = None, *, together: bool = False
) -> Scores:
    """Scores of a metric other than the distances.

    Args:
        name: A key of METRICS whose needs the case meets.
        case: Checked arguments.
        usable: Strata that may enter CDDL and CDDPL, shape (S,); None for all that can.
        together: Count the predictions of all members as if one had made them: the metric is then
            defined where one of them has no denominator. FT has none and is left as it is.

    >>> from scotoma.bias.clarify.arguments import read_case
    >>> case = read_case(d=[True, True, False, False], p=[True, False, True, True])
    >>> metric_scores("DPPL", case).scores.ravel()
    array([-0.5,  1.5,  0.5,  0.5])
    """

    def by_cluster(influences: Array, values: Array) -> Array:
        return np.asarray(
            cluster_sums(influences, case.clusters) * (case.n_clusters / case.n) + values
        )

    if name == "FT" and not case.both_facets:
        reason = f"undefined (no examples in the {FACETS[0 if case.d.all() else 1]})"
        nothing = np.full(case.members, math.nan)
        return Scores(nothing, nothing[:0], nothing[:0], case.n_clusters, 0.0, reason=reason)
    if name == "FT":
        flips, share = case.flips, case.d.mean()
        # On average over a facet: the share of its positive predictions or of its likes' votes.
        effects = np.where(case.d, 1 / share, 1 / (1 - share))
        scores = by_cluster(flips.influences, flips.values)
        events = case.effective_events(flips.flips)
        return Scores(flips.values, scores, effects, case.n_clusters, events)
    cells, index = case.counted
    counted = cells.mean(axis=0, keepdims=True) if together else cells
    measured = measure(name, counted, strata=case.strata_names, usable=usable)
    influence = np.broadcast_to(measured.influence, cells.shape).ravel()
    entering = np.broadcast_to(measured.at_risk > 0, (2, 2, 2)).ravel()
    rows = np.asarray(case.shares[:, entering].any(axis=1))
    if measured.strata is not None and case.strata is not None:
        rows &= measured.strata[case.strata]
    return Scores(
        measured.values,
        by_cluster(influence.take(index), measured.values),
        (influence.take(index | 1) - influence.take(index & ~1)).mean(axis=1),
        case.clusters_among(rows),
        _events(name, case),
        _one_more(name, case),
        measured.reason,
        measured.note,
        case.times,
    )


def _events(name: str, case: Case) -> float:
    """Effective events of the rarest part of a metric; nan for those over strata."""
    if name in DIFFERENCES:
        parts = [np.stack(one) for part in DIFFERENCES[name][0].parts
                 for one in ([part, 0 * part], [0 * part, part])]  # fmt: skip
    elif name == "CI":
        one = np.stack([np.ones((2, 2)), np.zeros((2, 2))])
        parts = [one, 1 - one]
    elif name == "GE":
        parts = [np.broadcast_to(np.array([[0.0, 1.0], [1.0, 0.0]]), (2, 2, 2))]
    else:
        return math.nan
    return min(case.effective_events(case.shares @ part.ravel()) for part in parts)


def _one_more(name: str, case: Case) -> float:
    """What a success and a failure more in each facet add to the variance of a difference."""
    if name not in DIFFERENCES or name == "DI" or not DIFFERENCES[name][0].proportion:
        return 0.0
    rate = DIFFERENCES[name][0]
    cells = case.cells.sum(axis=1).mean(axis=0) * (case.n_clusters / case.n)
    s, n = (np.einsum("gyp,yp->g", cells, mask) for mask in (rate.over, rate.under))
    with np.errstate(divide="ignore", invalid="ignore"):
        r, more = s / n, (s + 1) / (n + 2)
        return float(np.maximum(more * (1 - more) / (n + 2) - r * (1 - r) / n, 0.0).sum())
