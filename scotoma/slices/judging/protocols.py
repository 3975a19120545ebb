"""Which test an outcome gets, under which protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Codes, Floats, Ints, StatisticsProtocol
from scotoma.slices.evidence.interface import Direction, Evidence
from scotoma.slices.evidence.outcomes import Outcome, Scored, SliceMetric
from scotoma.slices.evidence.weights import poisson_weights
from scotoma.slices.judging.auc import Ranks, places
from scotoma.slices.judging.bootstrap import Ratio, Replicates
from scotoma.slices.judging.means import Means
from scotoma.slices.judging.rates import RateChanges, Rates
from scotoma.slices.judging.ratios import LinearRatio
from scotoma.slices.settings import Reference, SearchSettings

Test = Literal["rate", "change", "mean", "bootstrap"]
FEWEST = 30.0  # predictions, a member, that a ratio of counts rests on


def evidence_of(
    outcome: Outcome,
    ids: npt.NDArray[np.generic],
    asked: SearchSettings,
    clusters: Codes | None = None,
) -> Evidence:
    """Choose and prepare the test of an outcome.

    Published: the bootstrap. Sound: Fisher's exact test for one model's rate, McNemar's for two
    models' rates on the same slice, the crossed t for populations, scores and ratios; the bootstrap
    for AUC and for ratios against a baseline. Rows of one cluster have no exact test: rates
    are then tested as means over clusters.

    Args:
        outcome: The outcome, on the examples that count.
        ids: Ids of those examples, or of their clusters: equal ids have equal weights.
        asked: The settings of the search.
        clusters: Code of each example's cluster; None: every one is its own.
    """
    reference = asked.compares_with(outcome.baseline is not None)
    direction, min_size, protocol = asked.side, asked.min_size, asked.protocol
    draws, seed = asked.bootstrap, asked.seed
    model, other = outcome.model, outcome.baseline
    against = other if reference == "baseline" else None
    if outcome.metric.kind == "auc":
        if other is not None and against is None:
            raise DataError(
                f"metric 'auc' compares a slice with the whole or with the baseline, got reference="
                f"{reference!r} with a baseline: leave one of them out"
            )
        ranks = _ranks(outcome, ids, direction, min_size, draws, seed, sound=protocol == "sound")
        return replace(ranks, clusters=clusters)
    members = [one.members for one in (model, other) if one is not None]
    test = choose_test(
        outcome.metric,
        protocol,
        reference,
        members,
        binary=outcome.binary,
        clustered=clusters is not None,
    )
    if test == "bootstrap":
        fewest = 0.0 if protocol == "published" else FEWEST
        replicates = _replicates(outcome, ids, against, direction, min_size, draws, seed, fewest)
        return replace(replicates, clusters=clusters)
    if test == "rate":
        return Rates(model.above[:, 0] == 1, direction, min_size)
    if test == "change" and other is not None:
        change = (model.above - other.above)[:, 0].astype(np.int8)
        return RateChanges(change, direction, min_size)
    means = Means(
        model.above,
        None if other is None else other.above,
        "baseline" if against is not None else "rest",
        outcome.paired,
        direction,
        max(min_size, 2),
        clusters,
    )
    if outcome.metric.kind == "ratio":
        return LinearRatio.of(model, other, means)
    return means


def choose_test(
    metric: SliceMetric,
    protocol: StatisticsProtocol,
    reference: Reference,
    members: list[int],
    *,
    binary: bool,
    clustered: bool,
) -> Test:
    """Choose the test of the outcomes of any metric but AUC.

    Args:
        metric: The metric.
        protocol: `sound` or `published`.
        reference: What a slice is compared with.
        members: Members of the model at hand, then of the baseline where there is one.
        binary: Whether all outcomes are 0 or 1.
        clustered: Whether rows share clusters.

    >>> from scotoma.slices.evidence.outcomes import SLICE_METRICS
    >>> choose_test(SLICE_METRICS["error"], "sound", "rest", [1], binary=True, clustered=False)
    'rate'
    """
    if takes_draws(metric, protocol, reference):
        return "bootstrap"
    if metric.kind == "rate" and binary and not clustered:
        if members == [1]:
            return "rate"
        if members == [1, 1] and reference == "baseline":
            return "change"
    return "mean"


def takes_draws(metric: SliceMetric, protocol: str, reference: str) -> bool:
    """Say whether the p-values of a search come from a bootstrap.

    >>> from scotoma.slices.evidence.outcomes import SLICE_METRICS
    >>> takes_draws(SLICE_METRICS["auc"], "sound", "whole")
    True
    """
    ratios = metric.kind == "ratio" and reference == "baseline"
    return protocol == "published" or metric.kind == "auc" or ratios


def _drawn(members: int, draws: int, rng: np.random.Generator) -> Ints:
    """Draw how often each member is in each draw, shape (K, B)."""
    return np.asarray(rng.multinomial(members, np.full(members, 1 / members), draws).T, np.int64)


def _member_draws(outcome: Outcome, draws: int, seed: int) -> tuple[Ints, Ints | None]:
    rng = np.random.default_rng([seed % 2**63, 1])
    own = _drawn(outcome.model.members, draws, rng)
    if outcome.baseline is None:
        return own, None
    return own, own if outcome.paired else _drawn(outcome.baseline.members, draws, rng)


def _replicates(
    outcome: Outcome,
    ids: npt.NDArray[np.generic],
    against: Scored | None,
    direction: Direction,
    min_size: int,
    draws: int,
    seed: int,
    fewest: float,
) -> Replicates:
    model, baseline = ratios_of(outcome, ids, draws, seed)
    compared = baseline if against is not None else None
    members = outcome.model.members
    smaller = min(members, outcome.baseline.members if outcome.baseline else members)
    return Replicates(model, compared, direction, min_size, fewest * members, smaller)


def ratios_of(
    outcome: Outcome, ids: npt.NDArray[np.generic], draws: int, seed: int
) -> tuple[Ratio, Ratio | None]:
    """Compute both populations' ratios in every draw of examples and members.

    Args:
        outcome: The outcome, on any of the examples: a row's lanes do not depend on the others.
        ids: Ids of those examples.
        draws: Bootstrap draws; 0 for the plain counts.
        seed: Seed of the draws.
    """
    weights = poisson_weights(ids, draws, seed)
    own, other = _member_draws(outcome, draws, seed)
    model = _ratio(outcome.model, own, weights)
    if outcome.baseline is None or other is None:
        return model, None
    return model, _ratio(outcome.baseline, other, weights)


def _ratio(scored: Scored, drawn: Ints, weights: npt.NDArray[np.uint8]) -> Ratio:
    """Compute a population's ratio; of several members every draw draws some too."""
    above, below = scored.above, scored.below
    if scored.members == 1:
        ones = np.ones(len(above), np.int64)
        return Ratio.of(
            _whole(above[:, 0]), ones if below is None else _whole(below[:, 0]), weights
        )
    times = np.concatenate([np.ones((scored.members, 1)), drawn], axis=1)
    under = np.full(above.shape, 1.0) if below is None else below
    return Ratio.of(_whole(above @ times), _whole(under @ times), weights)


def _whole(values: Floats) -> npt.NDArray[np.generic]:
    """Turn counts into integers, whose sums are exact; leave other scores as they are."""
    whole = values.astype(np.int64)
    return whole if (whole == values).all() and (whole >= 0).all() else values


def _ranks(
    outcome: Outcome,
    ids: npt.NDArray[np.generic],
    direction: Direction,
    min_size: int,
    draws: int,
    seed: int,
    *,
    sound: bool,
) -> Ranks:
    labels = outcome.labels
    if labels is None or labels.all() or not labels.any():
        raise DataError(
            "metric 'auc' needs positives and negatives, got labels of one class only: pass labels "
            "in which both occur"
        )
    return Ranks(
        places(outcome.model.above),
        None if outcome.baseline is None else places(outcome.baseline.above),
        labels,
        poisson_weights(ids, draws, seed),
        _member_draws(outcome, draws, seed),
        direction,
        min_size,
        sound,
    )
