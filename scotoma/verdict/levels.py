"""What does a gate ask about levels? Of each attribute whether a metric keeps its limits.

A level is held by every model measured and by those to come. Runs are taken for normal draws, of a
ratio on its logarithm. The next one lies around their mean with the variance of a run, that of the
mean, and what the test set gives to all runs alike: another training run, on another test set of
this kind. m next runs all lie within where each does at 1/m of the risk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from scotoma.answers.group_keys import parse_group_key
from scotoma.audit import Audit, Quantity
from scotoma.audit.gate import LevelTest
from scotoma.bias.member_fairness import MOST_GROUPS
from scotoma.config.gate_levels import OF_LABELS, LevelRule, neutral
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, satterthwaite, undefined
from scotoma.numbers.estimate import inverse_link, link
from scotoma.verdict.evidence import AuditRows, known, read_estimate
from scotoma.verdict.gate_test import Bound, GateTest, LevelSpread, Side, unanswered

NOT_HELD = "the audit does not hold {} of every member; run the audit again"
NO_ATTRIBUTES = "the audit has no such groups"


@dataclass(frozen=True)
class Level:
    """What an audit knows of a metric, of an attribute or a pair of facets.

    Attributes:
        attribute: The attribute.
        group: Key of the group that it is called by.
        where: The number, in words.
        mean: The mean over the models, or the number of the labels, which no model moves.
        dense: The same of the dense models; None for labels.
        members: The number of every model; their intervals speak of another test set.
    """

    attribute: str
    group: str
    where: str
    mean: Estimate
    dense: Estimate | None
    members: Sequence[Estimate]


def level_tests(rows: AuditRows, rule: LevelRule) -> Iterator[GateTest]:
    """Ask of each attribute whether a metric keeps each limit of a rule."""
    measure = _of_clarify if rule.metric.startswith("clarify.") else _of_fairness
    limits: list[tuple[Side, float | None]] = [("at least", rule.min), ("at most", rule.max)]
    for level in measure(rows, rule.metric):
        if level.attribute in (rule.attributes or [level.attribute]):
            for side, limit in limits:
                if limit is not None:
                    yield _test(rule, level, side, limit)


def _members(
    values: Sequence[float | None], se: Sequence[float | None], n: int, scale: Any
) -> list[Estimate]:
    return [
        Estimate.on_scale(
            known(value), known(error), max(n - 1, 1), n=n, members=1, scale=scale
        )
        if known(error) > 0
        else undefined("interval not estimable", value=known(value), n=n, members=1)
        for value, error in zip(values, se, strict=True)
    ]  # fmt: skip


def _of_clarify(rows: AuditRows, metric: str) -> Iterator[Level]:
    names, name, of_labels = rows.names, metric.partition(".")[2], metric in OF_LABELS
    what = "labels" if of_labels else "compressed"
    for at in rows.at("clarify", what):
        row, mean, dense = at[what], read_estimate(at[what].number), None
        if row.metric != name or row.fact("split") not in (None, "training"):
            continue
        attribute, low, high = map(row.fact, ("attribute", "disadvantaged", "advantaged"))
        scale = "ratio" if neutral(metric) else "identity"
        alone = _members(row.models, row.models_se, mean.n, scale)
        if not of_labels:
            if not alone and not math.isnan(mean.value):
                mean = undefined(NOT_HELD.format(metric), n=mean.n, members=mean.members)
            dense = read_estimate(at["dense"].number)
        where = f"{metric} of {names.get(low, low)} against {names.get(high, high)}"
        yield Level(attribute, low if parse_group_key(low) else high, where, mean, dense, alone)


def _of_fairness(rows: AuditRows, metric: str) -> Iterator[Level]:
    audit, of_dense = rows.audit, {}
    for variant in ("dense", rows.variant):
        for at in audit.at("fairness", variant):
            row = at.get("mean")  # a class has only its spread
            if row is None or row.metric != metric.partition(".")[2]:
                continue
            attribute, n = row.fact("attribute"), audit.examples.clusters
            values, se = ([known(one) for one in own] for own in (row.models, row.models_se))
            reason = row.undefined or _no_error(audit, metric, attribute)
            mean = mean_of_runs(values, se, n=n, reason=reason)
            if variant == "dense":
                of_dense[attribute] = mean
                continue
            own = _members(values, se, mean.n, "identity")
            where = f"{metric} of {attribute}"
            yield Level(attribute, "all", where, mean, of_dense.get(attribute), own)


def _no_error(audit: Audit, metric: str, attribute: str) -> str:
    """Say why an audit holds no standard errors of a metric of the study."""
    groups = sum(
        tuple(of for of, _ in parse_group_key(key)) == (attribute,) for key in audit.group_names
    )
    if groups > MOST_GROUPS:
        return (
            f"the error of {metric} is known of at most {MOST_GROUPS} groups, and "
            f"{attribute} has {groups}; put rare values together (rare_below)"
        )
    return NOT_HELD.format(f"the error of {metric}")


def _test(rule: LevelRule, level: Level, side: Side, limit: float) -> GateTest:
    of_labels = rule.metric in OF_LABELS
    # Chance lifts absolute differences in both directions.
    lifted = rule.metric.startswith("fairness.")
    ends = (0.0, 1.0) if lifted else (-math.inf, math.inf)
    mean, members = level.mean, level.members
    k, single = len(members), rule.of == "every_member" and not of_labels
    bound = partial(Bound, "level", limit=limit, side=side, ends=ends)
    looks = (2 if single and k > 1 else 1) * (1 + lifted)
    whole = bound(mean, subject=f"the mean of {k} model{'' if k == 1 else 's'}", tries=looks)
    spread = spread_of([one.value for one in members], mean, single=single)
    harms, clears, worst, outside, counted = [whole], [], None, "", None
    if of_labels:
        harms = []
        if not math.isnan(mean.value):
            value = replace(mean, low=math.nan, high=math.nan, note="counted, not estimated")
            counted = bound(value, subject="the training data")
    elif single:
        own = [bound(m, subject=f"member {i}", tries=k * looks) for i, m in enumerate(members)]
        harms += own if k > 1 else []
        defined = [one for one in own if not math.isnan(one.estimate.value)]
        nearest = min if side == "at least" else max
        worst = nearest(defined, key=lambda one: one.estimate.value, default=None)
        outside = worst.subject if worst and worst.broken else ""
        if spread is not None:
            runs = f"the next {rule.next_runs} runs" if rule.next_runs > 1 else "the next run"
            one = next_run(mean, spread)
            clears = [bound(one, subject=runs, tries=rule.next_runs, spread=spread)]
    elif mean.se > 0:
        clears = [replace(whole, tries=1, spread=spread)]
    reason = mean.reason
    if outside and worst is not None:
        alone = f"{outside} has {worst.estimate.value:.3f}, which alone does not show that the "
        reason = reason or f"{alone}limit is broken"
    elif not clears and not of_labels:
        few = few_runs(k) and f"{few_runs(k)}; train at least {FEWEST_RUNS} models, better 16"
        reason = reason or few or "a ratio of 0 in one of the models leaves no interval"
    where = level.where
    if rule.min is not None and rule.max is not None:
        where += " (min)" if side == "at least" else " (max)"
    held = LevelTest(
        attribute=level.attribute, side=side, limit=limit, neutral=neutral(rule.metric),
        of="labels" if of_labels else rule.of, next_runs=rule.next_runs if single else 0,
        mean=Quantity.of(whole.clipped(mean)),
        worst_member="" if worst is None else worst.subject,
        worst=None if worst is None else Quantity.of(worst.estimate),
        dense=None if level.dense is None else Quantity.of(whole.clipped(level.dense)),
    )  # fmt: skip
    return GateTest(
        unanswered(rule.id, rule.metric, where, group=level.group, level=held),
        tuple(harms), () if outside else tuple(clears),
        replace(mean, members=k, events=math.nan), mean.events, reason, counted=counted,
    )  # fmt: skip


def level_sentence(rule: LevelRule) -> str:
    """Say a rule about a level as a sentence."""
    limits = [f"at least {rule.min:g}"] if rule.min is not None else []
    limits += [f"at most {rule.max:g}"] if rule.max is not None else []
    of = " or ".join(rule.attributes) if rule.attributes else "any attribute"
    if rule.metric in OF_LABELS:
        whose = "among the training examples"
    elif rule.of == "mean":
        whose = "on average over training runs"
    else:
        runs = f"the worst of the next {rule.next_runs} training runs"
        runs = runs if rule.next_runs > 1 else "the next training run"
        whose = f"in every model and in {runs}"
    return f"{rule.metric} of {of} is not {' and '.join(limits)} {whose}"


def mean_of_runs(values: Sequence[float], se: Sequence[float], *, n: int, reason: str) -> Estimate:
    """Estimate the mean of a metric that chance lifts, from its value and error on every model.

    Its variance over examples is that of one model: averaging takes nothing off what lifts all.
    Below `FEWEST_RUNS` models their spread is left out.

    Args:
        values: Of each model, shape (K,); nan where undefined.
        se: Standard errors over examples.
        n: Examples, or clusters.
        reason: Why a value is undefined.

    >>> mean = mean_of_runs([0.1, 0.1, 0.1, 0.1, 0.1], [0.02] * 5, n=900, reason="")
    >>> round(mean.low, 3), round(mean.high, 3)
    (0.061, 0.139)
    """
    k = len(values)
    value, single = float(np.mean(values)), float(np.mean(se)) if se else math.nan
    if math.isnan(value) or not single >= 0:
        return undefined(reason or "undefined", value=value, n=n, members=k)
    runs = [(float(np.var(values, ddof=1)) / k, k - 1)] if k >= FEWEST_RUNS else []
    total, df = satterthwaite([*runs, (single**2, max(n - 1, 1))])
    if total == 0:
        return undefined("nothing varies", value=value, n=n, members=k)
    return Estimate.on_scale(value, math.sqrt(total), df, n=n, members=k, note=few_runs(k))


def spread_of(values: Sequence[float], mean: Estimate, *, single: bool) -> LevelSpread | None:
    """Part the variance of a mean over models into runs and examples.

    None below `FEWEST_RUNS` models, whose spread is a guess, and where a ratio is 0.

    Args:
        values: Of each model.
        mean: Their mean with its interval over both.
        single: Whether one next run is asked for, not the mean over runs.
    """
    k = len(values)
    scaled = [link(value, mean.scale) for value in values]
    if k < FEWEST_RUNS or not np.isfinite(scaled).all() or not mean.se > 0:
        return None
    runs, variance = float(np.var(scaled, ddof=1)), mean.se**2
    examples = max(0.0, variance - runs / k)
    pieces = max(0.0, variance**2 / mean.df - (runs / k) ** 2 / (k - 1))
    df = examples**2 / pieces if pieces > 0 else math.inf
    return LevelSpread(float(np.mean(scaled)), runs, examples, max(df, 1.0), k, single)


def next_run(mean: Estimate, spread: LevelSpread) -> Estimate:
    """Estimate where one next training run lies: its interval predicts, it does not estimate.

    >>> values = [0.88, 0.90, 0.91, 0.92, 0.89]
    >>> mean = Estimate.on_scale(0.90, 0.01, 30.0, n=900, members=5)
    >>> one = next_run(mean, spread_of(values, mean, single=True))
    >>> round(one.low, 2), round(one.high, 2)
    (0.85, 0.95)
    """
    total, df = spread.at(spread.members)
    return Estimate.on_scale(
        inverse_link(spread.centre, mean.scale), math.sqrt(total), df, n=mean.n,
        members=spread.members, events=mean.events, scale=mean.scale,
    )  # fmt: skip
