"""Which test does an outcome get, under which protocol?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.slices.judging.auc import AucLane, places
from scotoma.slices.judging.bootstrap import BootstrapLane, member_draws, row_draws
from scotoma.slices.judging.evidence import Evidence, Lane
from scotoma.slices.judging.means import Centre, MeanLane
from scotoma.slices.judging.rates import ChangeLane, RateLane
from scotoma.slices.outcomes import Outcome, Scored, SliceMetric
from scotoma.slices.settings import SearchSettings

FEWEST = 30.0  # predictions, a member, that a ratio of counts rests on


def evidence_of(outcome: Outcome, ids: npt.NDArray[np.generic], asked: SearchSettings) -> Evidence:
    """Choose and prepare the test of an outcome."""
    members = tuple(own.members for own in outcome.populations)
    reference = asked.compares_with(len(members) > 1)
    known = scored = outcome
    if takes_draws(outcome.metric, asked.protocol, reference):
        scored = replace(outcome, weights=row_draws(ids, asked.bootstrap, asked.seed))
    elif outcome.metric.kind == "ratio":
        scored = outcome.having([linear(own) for own in outcome.populations])
    if outcome.metric.kind == "auc":
        if outcome.labels is None or outcome.labels.all() or not outcome.labels.any():
            raise DataError(
                "metric 'auc' needs positives and negatives, got labels of one class only: pass "
                "labels in which both occur"
            )
        known = scored = scored.having([Scored(places(own.above)) for own in scored.populations])
    lane = choose_lane(
        asked, outcome.metric, members, binary=outcome.binary,
        clustered=outcome.clusters is not None, centre=lambda: Centre.of(scored),
    )  # fmt: skip
    return Evidence.of(lane, known, scored)


def choose_lane(
    asked: SearchSettings,
    metric: SliceMetric,
    members: tuple[int, ...],
    *,
    binary: bool,
    clustered: bool,
    centre: Callable[[], Centre],
) -> Lane:
    """Choose the test of the outcomes of any metric.

    Published: the bootstrap. Sound: Fisher's exact test for one model's rate, McNemar's for two
    models' rates on the same slice, the crossed t for populations, scores and ratios; the bootstrap
    for AUC, and for ratios against a baseline. Rows of one cluster have no exact test: rates are
    then tested as means over clusters.
    """
    reference, side = asked.compares_with(len(members) > 1), asked.side
    if takes_draws(metric, asked.protocol, reference):
        drawn = member_draws(members, asked.bootstrap, asked.seed, paired=asked.paired)
        sound = asked.protocol == "sound"
        if metric.kind == "auc":
            return AucLane(side, drawn, sound)
        return BootstrapLane(side, drawn, FEWEST * members[0] * sound)
    if metric.kind == "rate" and binary and not clustered:
        if members == (1,):
            return RateLane(side)
        if members == (1, 1) and reference == "baseline":
            return ChangeLane(side)
    several = members[:1] if asked.paired else members
    widths = tuple(k for k in several if k > 1)
    return MeanLane(side, "baseline" if reference == "baseline" else "rest", widths, centre())


def takes_draws(metric: SliceMetric, protocol: str, reference: str) -> bool:
    """Say whether the p-values of a search come from a bootstrap.

    >>> from scotoma.slices.outcomes import SLICE_METRICS
    >>> takes_draws(SLICE_METRICS["auc"], "sound", "whole")
    True
    """
    ratios = metric.kind == "ratio" and reference == "baseline"
    return protocol == "published" or metric.kind == "auc" or ratios


def linear(scored: Scored) -> Scored:
    """Compute what each row adds to a ratio of sums, (u - R v) / mean(v), by the whole's own R.

    The slices' means of it differ where their ratios do.

    >>> linear(Scored(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))).above.ravel().tolist()
    [0.5, -0.5]
    """
    above, below = scored.above, scored.below
    if below is None:
        return scored
    total = below.sum()
    if total == 0:
        return Scored(np.zeros_like(above))
    return Scored(np.asarray((above - above.sum() / total * below) / below.mean()))
