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
from typing import Literal

import numpy as np

from scotoma.audit import Audit
from scotoma.bias.member_fairness import MOST_GROUPS
from scotoma.config.gate_levels import OF_LABELS, LevelRule, neutral
from scotoma.group_keys import parse_group_key
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, undefined
from scotoma.numbers.estimate import inverse_link, link
from scotoma.verdict.evidence import At, AuditRows, known, read_estimate
from scotoma.verdict.question import Bound, Level, LevelSpread, Question, Side

__all__ = ["level_questions", "mean_of_runs", "next_run", "spread_of"]

NOT_HELD = "the audit does not hold {} of every member; run the audit again"
NO_ATTRIBUTES = "the audit has no such groups"
Values = tuple[float, ...]


@dataclass(frozen=True)
class _Measured:
    """A metric of one variant, for one attribute or pair of facets.

    Attributes:
        attribute: The attribute.
        where: What it is of, in words.
        group: Key of the group that it is about; `all` for all.
        values: Of each model; nan where undefined, empty for what has no models.
        se: Standard errors over examples, on the scale of the mean.
        mean: The mean over the models; without models the number itself.
        dense: The same of the dense models; None for what no compression moves.
        lifted: Whether chance lifts the values in both directions, as it does absolute ones.
        scale: Scale of the standard errors.
    """

    attribute: str
    where: str
    group: str
    values: Values
    se: Values
    mean: Estimate
    dense: Estimate | None
    lifted: bool = False
    scale: Literal["identity", "ratio"] = "identity"


def level_questions(rows: AuditRows, rule: LevelRule) -> list[Question]:
    """List the questions of a rule about a level: one an attribute, pair of facets, and limit.

    Args:
        rows: Those of a compressed variant.
        rule: The rule.

    Returns:
        At least one: without evidence where the audit holds none.
    """
    measure = _of_clarify if rule.metric.startswith("clarify.") else _of_fairness
    chosen = [
        one
        for one in measure(rows, rule.metric)
        if one.attribute in (rule.attributes or [one.attribute])
    ]
    limits: list[tuple[Side, float | None]] = [("at least", rule.min), ("at most", rule.max)]
    questions = [
        _question(rule, one, side, limit)
        for one in chosen
        for side, limit in limits
        if limit is not None
    ]
    nothing = Question(
        rule.id, rule.metric, "all", None, rule.metric, None, None, None, NO_ATTRIBUTES
    )
    return questions or [nothing]


def _of_clarify(rows: AuditRows, metric: str) -> Iterator[_Measured]:
    audit, names, name = rows.audit, rows.names, metric.partition(".")[2]

    def measured(at: At, what: str) -> partial[_Measured]:
        row = at[what]
        disadvantaged, advantaged = row.fact("disadvantaged"), row.fact("advantaged")
        where = f"{metric} of {names.get(disadvantaged, disadvantaged)} against "
        where += names.get(advantaged, advantaged)
        group = disadvantaged if parse_group_key(disadvantaged) else advantaged
        return partial(_Measured, row.fact("attribute"), where, group)

    if metric in OF_LABELS:
        for at in rows.at("clarify", "data.value"):
            row = at["data.value"]
            if (row.fact("split"), row.metric) == ("training", name):
                of_labels = measured(at, "data.value")
                yield of_labels((), (), read_estimate(row.number), None)
        return
    members = {
        (row.attribute, row.disadvantaged): row
        for row in audit.clarify.members.get(rows.variant, ())
        if row.metric == name
    }
    for at in rows.at("clarify", "variants.compressed"):
        row = at["variants.compressed"]
        if row.metric != name:
            continue
        own, mean = members.get((row.fact("attribute"), row.fact("disadvantaged"))), row.number
        values = () if own is None else tuple(map(known, own.values))
        yield measured(at, "variants.compressed")(
            values,
            () if own is None else tuple(map(known, own.se)),
            read_estimate(mean)
            if own is not None or mean.value is None
            else undefined(NOT_HELD.format(metric), n=mean.n, members=mean.members),
            read_estimate(at["variants.dense"].number),
            scale="ratio" if name == "DI" else "identity",
        )


def _of_fairness(rows: AuditRows, metric: str) -> Iterator[_Measured]:
    audit, name = rows.audit, metric.partition(".")[2]

    def measured(of: str) -> dict[str, tuple[Values, Values, Estimate]]:
        found = {}
        for row in audit.run_to_run.get(of, ()):
            if row.metric == name:
                values, se = tuple(map(known, row.values)), tuple(map(known, row.se))
                reason = row.reason or _no_error(audit, metric, row.attribute)
                mean = mean_of_runs(values, se, n=audit.examples.clusters, reason=reason)
                found[row.attribute] = values, se, mean
        return found

    before = measured("dense")
    for attribute, (values, se, mean) in measured(rows.variant).items():
        dense = before[attribute][2] if attribute in before else None
        where = f"{metric} of {attribute}"
        yield _Measured(attribute, where, "all", values, se, mean, dense, lifted=True)


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


def _question(rule: LevelRule, one: _Measured, side: Side, limit: float) -> Question:
    level, where = _level(rule, one, side, limit), one.where
    if rule.min is not None and rule.max is not None:
        where += " (min)" if side == "at least" else " (max)"
    return Question(
        rule.id, rule.metric, one.group, None, where, None, None, None, _reason(one, level),
        level=level,
    )  # fmt: skip


def _reason(one: _Measured, level: Level) -> str:
    """Say why no PASS can be had; empty where one can."""
    if one.mean.reason or level.of == "labels":
        return one.mean.reason
    if level.outside and level.worst is not None:
        value = level.worst.estimate.value
        return (
            f"{level.outside} has {value:.3f}, which alone does not show that the limit is broken"
        )
    if level.clearing is not None:
        return ""
    if few := few_runs(level.members):
        return f"{few}; train at least {FEWEST_RUNS} models, better 16"
    return "a ratio of 0 in one of the models leaves no interval"


def _level(rule: LevelRule, one: _Measured, side: Side, limit: float) -> Level:
    k, single, fair = len(one.values), rule.of == "every_member", neutral(rule.metric)
    if rule.metric in OF_LABELS:
        return Level(one.attribute, side, limit, fair, "labels", 0, None, (), 0, mean=one.mean)
    lowest, highest = (0.0, 1.0) if one.lifted else (-math.inf, math.inf)

    def bound(subject: str, estimate: Estimate, tries: int) -> Bound:
        return Bound(
            "level", estimate, limit, side, None, subject, tries, lowest=lowest, highest=highest
        )

    def clipped(estimate: Estimate) -> Estimate:
        return replace(estimate, low=max(estimate.low, lowest), high=min(estimate.high, highest))

    looks = (2 if single and k > 1 else 1) * (1 + one.lifted)
    mean = f"the mean of {k} model{'' if k == 1 else 's'}"
    harms, worst = [bound(mean, one.mean, looks)], None
    spread = spread_of(one.values, one.mean, single=single)
    clearing = bound(mean, one.mean, 1) if one.mean.se > 0 else None
    if single:
        clearing = None
        if spread is not None:
            runs = f"the next {rule.next_runs} runs" if rule.next_runs > 1 else "the next run"
            clearing = bound(runs, next_run(one.mean, spread), rule.next_runs)
        members = [bound(f"member {m}", _of_member(one, m), k * looks) for m in range(k)]
        harms += members if k > 1 else []
        defined = [own for own in members if not math.isnan(own.estimate.value)]
        nearest = min if side == "at least" else max
        worst = nearest(defined, key=lambda own: own.estimate.value, default=None)
    return Level(
        one.attribute, side, limit, fair, rule.of, rule.next_runs if single else 0, clearing,
        tuple(harms), k, outside=worst.subject if worst and worst.broken else "",
        mean=clipped(one.mean), worst=worst,
        dense=None if one.dense is None else clipped(one.dense), spread=spread,
    )  # fmt: skip


def _of_member(one: _Measured, member: int) -> Estimate:
    """One model's value, whose interval speaks of another test set."""
    value, se, n = one.values[member], one.se[member], one.mean.n
    if not se > 0:
        return undefined("interval not estimable", value=value, n=n, members=1)
    return Estimate.on_scale(value, se, max(n - 1, 1), n=n, members=1, scale=one.scale)


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
    runs = float(np.var(values, ddof=1)) / k if k >= FEWEST_RUNS else 0.0
    total = runs + single**2
    if total == 0:
        return undefined("nothing varies", value=value, n=n, members=k)
    pieces = runs**2 / (k - 1) if runs else 0.0
    df = total**2 / (pieces + single**4 / max(n - 1, 1))
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
