"""What does a gate ask about levels? Of each attribute whether a metric keeps its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.audit import Audit
from scotoma.bias.member_fairness import MOST_GROUPS
from scotoma.config.gate_levels import OF_LABELS, LevelRule, neutral
from scotoma.group_keys import parse_group_key
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, undefined
from scotoma.verdict.evidence import known, read_estimate
from scotoma.verdict.level import Bound, Level, Side
from scotoma.verdict.next_runs import mean_of_runs, next_run, spread_of
from scotoma.verdict.question import Question

__all__ = ["level_questions"]

NOT_HELD = "the audit does not hold {} of every member; run the audit again"
NO_ATTRIBUTES = "the audit has no such groups"


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
    values: tuple[float, ...]
    se: tuple[float, ...]
    mean: Estimate
    dense: Estimate | None
    lifted: bool = False
    scale: Literal["identity", "ratio"] = "identity"


def level_questions(audit: Audit, variant: str, rule: LevelRule) -> list[Question]:
    """List the questions of a rule about a level: one an attribute, pair of facets, and limit.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rule: The rule.

    Returns:
        At least one: without evidence where the audit holds none.
    """
    family, _, name = rule.metric.partition(".")
    if rule.metric in OF_LABELS:
        found = list(_of_labels(audit, name))
    elif family == "clarify":
        found = list(_of_clarify(audit, variant, name))
    else:
        found = list(_of_fairness(audit, variant, name))
    chosen = [one for one in found if one.attribute in (rule.attributes or [one.attribute])]
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


def _of_labels(audit: Audit, name: str) -> Iterator[_Measured]:
    for row in audit.clarify.data:
        if (row.split, row.metric) == ("training", name):
            where, group = _facets(audit, f"clarify.{name}", row.disadvantaged, row.advantaged)
            yield _Measured(row.attribute, where, group, (), (), read_estimate(row.value), None)


def _of_clarify(audit: Audit, variant: str, name: str) -> Iterator[_Measured]:
    members = {
        (row.attribute, row.disadvantaged): row
        for row in audit.clarify.members.get(variant, ())
        if row.metric == name
    }
    for row in audit.clarify.variants.get(variant, ()):
        if row.metric != name:
            continue
        where, group = _facets(audit, f"clarify.{name}", row.disadvantaged, row.advantaged)
        own, mean = members.get((row.attribute, row.disadvantaged)), read_estimate(row.compressed)
        if own is None and not math.isnan(mean.value):
            mean = undefined(NOT_HELD.format(f"clarify.{name}"), n=mean.n, members=mean.members)
        values = () if own is None else tuple(map(known, own.values))
        se = () if own is None else tuple(map(known, own.se))
        dense = read_estimate(row.dense)
        scale: Literal["identity", "ratio"] = "ratio" if name == "DI" else "identity"
        yield _Measured(row.attribute, where, group, values, se, mean, dense, scale=scale)


def _of_fairness(audit: Audit, variant: str, name: str) -> Iterator[_Measured]:
    n = audit.examples.clusters

    def measured(of: str) -> dict[str, tuple[tuple[float, ...], tuple[float, ...], Estimate]]:
        rows = {}
        for row in audit.run_to_run.get(of, ()):
            if row.metric == name:
                values, se = tuple(map(known, row.values)), tuple(map(known, row.se))
                reason = row.reason or _no_error(audit, name, row.attribute)
                rows[row.attribute] = values, se, mean_of_runs(values, se, n=n, reason=reason)
        return rows

    before = measured("dense")
    for attribute, (values, se, mean) in measured(variant).items():
        dense = before[attribute][2] if attribute in before else None
        where = f"fairness.{name} of {attribute}"
        yield _Measured(attribute, where, "all", values, se, mean, dense, lifted=True)


def _no_error(audit: Audit, name: str, attribute: str) -> str:
    """Say why an audit holds no standard errors of a metric of the study."""
    groups = sum(
        tuple(of for of, _ in parse_group_key(key)) == (attribute,) for key in audit.group_names
    )
    if groups > MOST_GROUPS:
        return (
            f"the error of fairness.{name} is known of at most {MOST_GROUPS} groups, and "
            f"{attribute} has {groups}; put rare values together (rare_below)"
        )
    return NOT_HELD.format(f"the error of fairness.{name}")


def _facets(audit: Audit, metric: str, disadvantaged: str, advantaged: str) -> tuple[str, str]:
    """What a metric of two facets is of, in words, and the key of the group that it is about."""
    names = audit.group_names
    where = f"{metric} of {names.get(disadvantaged, disadvantaged)} against "
    where += names.get(advantaged, advantaged)
    return where, disadvantaged if parse_group_key(disadvantaged) else advantaged


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
    k, single = len(one.values), rule.of == "every_member"
    fair = neutral(rule.metric)
    if rule.metric in OF_LABELS:
        return Level(one.attribute, side, limit, fair, "labels", 0, None, (), 0, mean=one.mean)
    ends = (0.0, 1.0) if one.lifted else (-math.inf, math.inf)
    mean = Bound(f"the mean of {_models(k)}", one.mean, 1, *ends)
    spread = spread_of(one.values, one.mean, single=single)
    clearing = mean if one.mean.se > 0 else None
    harms = [replace(mean, tries=(2 if single and k > 1 else 1) * (1 + one.lifted))]
    worst, outside = None, ""
    if single:
        next_runs = f"the next {rule.next_runs} runs" if rule.next_runs > 1 else "the next run"
        clearing = None
        if spread is not None:
            clearing = Bound(next_runs, next_run(one.mean, spread), rule.next_runs, *ends)
        member = _worst(one.values, side)
        if member is not None:
            value, tries = one.values[member], (2 * k if k > 1 else 1) * (1 + one.lifted)
            worst = Bound(f"member {member}", _of_member(one, member), tries, *ends)
            if k > 1:
                harms += [Bound(f"member {m}", _of_member(one, m), tries, *ends) for m in range(k)]
            broken = value < limit if side == "at least" else value > limit
            outside = worst.subject if broken else ""
    return Level(
        one.attribute,
        side, limit, fair, rule.of, rule.next_runs if single else 0, clearing, tuple(harms), k,
        outside=outside, mean=_clipped(one.mean, *ends), worst=worst,
        dense=None if one.dense is None else _clipped(one.dense, *ends), spread=spread,
    )  # fmt: skip


def _worst(values: Sequence[float], side: Side) -> int | None:
    """The model whose value lies farthest towards a limit, or beyond."""
    defined = [m for m, value in enumerate(values) if not math.isnan(value)]
    choose = min if side == "at least" else max
    return choose(defined, key=lambda m: values[m], default=None)


def _of_member(one: _Measured, member: int) -> Estimate:
    """One model's value, whose interval speaks of another test set."""
    value, se, n = one.values[member], one.se[member], one.mean.n
    if not se > 0:
        return undefined("interval not estimable", value=value, n=n, members=1)
    return Estimate.on_scale(value, se, max(n - 1, 1), n=n, members=1, scale=one.scale)


def _clipped(estimate: Estimate, lowest: float, highest: float) -> Estimate:
    return replace(estimate, low=max(estimate.low, lowest), high=min(estimate.high, highest))


def _models(count: int) -> str:
    return f"{count} model{'' if count == 1 else 's'}"
