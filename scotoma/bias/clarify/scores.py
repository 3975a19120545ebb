"""A metric as the mean of scores, one an example and member, from which intervals follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.arguments import Case
from scotoma.bias.clarify.rates import DIFFERENCES, FACETS, RATES, CellRatio, measure
from scotoma.numbers import Variance, cluster_sums, crossed_variance

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
        events: Effective events of the rarest part.
        sizes: Of a difference of proportions: numerators and denominators of each facet, mean over
            members, shape (2, 2); None otherwise.
        reason: Why values are nan.
        times: How many clusters each row of scores stands for, shape (n,); None for one each.
        note: What to say beside the values.
    """

    values: Array
    scores: Array
    effects: Array
    n: int
    events: float
    sizes: Array | None = None
    reason: str = ""
    times: Array | None = None
    note: str = ""

    def variance(self, gradient: float = 1.0) -> Variance:
        """Variance of the metric's mean over the members, on a scale with this gradient."""
        return crossed_variance(self.scores * gradient, times=self.times)


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
    if name == "FT":
        return _flip_scores(case)
    cells = case.cells.mean(axis=0, keepdims=True) if together else case.cells
    measured = measure(name, cells, strata=case.strata_names, usable=usable)
    influence = np.broadcast_to(measured.influence, case.cells.shape).ravel()
    positive, negative = influence.take(case.index | 1), influence.take(case.index & ~1)
    entering = np.broadcast_to(measured.at_risk > 0, (2, 2, 2)).ravel()
    rows = np.asarray(case.shares[:, entering].any(axis=1))
    if measured.strata is not None and case.strata is not None:
        rows &= measured.strata[case.strata]
    rate = _rate_of(name)
    return Scores(
        measured.values,
        _by_cluster(influence.take(case.index), measured.values, case),
        (positive - negative).mean(axis=1),
        case.clusters_among(rows),
        _events(name, case),
        None if rate is None or not rate.proportion or name == "DI" else _sizes(rate, case),
        measured.reason,
        case.times,
        measured.note,
    )


def _flip_scores(case: Case) -> Scores:
    if not case.both_facets:
        reason = f"undefined (no examples in the {FACETS[0 if case.d.all() else 1]})"
        nothing = np.full(case.members, math.nan)
        return Scores(
            nothing, np.empty((0, case.members)), np.empty(0), case.n_clusters, 0.0, None, reason
        )
    flips = case.flips
    disadvantaged = case.d.mean()
    return Scores(
        flips.values,
        _by_cluster(flips.influences, flips.values, case),
        # On average over a facet: the share of its positive predictions or of its likes' votes.
        np.where(case.d, 1 / disadvantaged, 1 / (1 - disadvantaged)),
        case.n_clusters,
        case.effective_events(flips.flips),
    )


def _by_cluster(influences: Array, values: Array, case: Case) -> Array:
    """Scores of the clusters, whose column means are the members' values."""
    scores = np.asarray(cluster_sums(influences, case.clusters) * (case.n_clusters / case.n))
    scores += values
    return scores


def _rate_of(name: str) -> CellRatio | None:
    if name == "DI":
        return RATES["predicted positive"]
    return RATES[DIFFERENCES[name][0]] if name in DIFFERENCES else None


def _events(name: str, case: Case) -> float:
    """Effective events of the rarest part of a metric; nan for those over strata."""
    rate = _rate_of(name)
    if rate is not None:
        parts = [np.stack([mask, 0 * mask]) for mask in rate.parts]
        parts += [part[::-1] for part in parts]
    elif name == "CI":
        one = np.stack([np.ones((2, 2)), np.zeros((2, 2))])
        parts = [one, 1 - one]
    elif name == "GE":
        parts = [np.broadcast_to(np.array([[0.0, 1.0], [1.0, 0.0]]), (2, 2, 2))]
    else:
        return math.nan
    return min(case.effective_events(case.shares @ part.ravel()) for part in parts)


def _sizes(rate: CellRatio, case: Case) -> Array:
    """Numerator and denominator of each facet, mean over members, in clusters."""
    cells = case.cells.sum(axis=1).mean(axis=0) * (case.n_clusters / case.n)
    return np.stack([(cells * mask).sum(axis=(1, 2)) for mask in (rate.over, rate.under)], axis=1)
