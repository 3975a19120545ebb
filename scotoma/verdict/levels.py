"""What does a gate ask about levels? Of each attribute whether a metric keeps its limits.

A level is held by every model measured and by those to come. Runs are taken for normal draws, of a
ratio on its logarithm. The next one lies around their mean with the variance of a run, that of the
mean, and what the test set gives to all runs alike: another training run, on another test set of
this kind. m next runs all lie within where each does at 1/m of the risk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from scotoma.audit import Audit, Quantity
from scotoma.audit.gate import LevelTest
from scotoma.audit.rows import Row
from scotoma.bias.member_fairness import MOST_GROUPS
from scotoma.config.gate_levels import OF_LABELS, LevelRule, neutral
from scotoma.group_keys import parse_group_key
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, undefined
from scotoma.numbers.estimate import inverse_link, link
from scotoma.verdict.evidence import At, AuditRows, by_address, known, read_estimate
from scotoma.verdict.question import Bound, LevelSpread, Question, Side, unanswered

__all__ = [
    "NO_ATTRIBUTES",
    "level_questions",
    "level_rows",
    "mean_of_runs",
    "next_run",
    "spread_of",
]

NOT_HELD = "the audit does not hold {} of every member; run the audit again"
NO_ATTRIBUTES = "the audit has no such groups"
MEMBER = "member {}"


def level_rows(rows: AuditRows, metric: str) -> list[At]:
    """List what an audit knows of a metric, of each attribute or pair of facets.

    Args:
        rows: Those of a compressed variant.
        metric: The metric, as rules name it.

    Returns:
        Rows by address: `mean` over the models, or the number of the labels, which no model moves;
        `dense`, the same of the dense models; and `member 0` and so on, whose intervals speak of
        another test set.
    """
    measure = _of_clarify if metric.startswith("clarify.") else _of_fairness
    return by_address(measure(rows, metric))


def _of_clarify(rows: AuditRows, metric: str) -> Iterator[Row]:
    audit, names, name = rows.audit, rows.names, metric.partition(".")[2]
    what = "data.value" if metric in OF_LABELS else "variants.compressed"
    members = {
        (row.attribute, row.disadvantaged): row
        for row in audit.clarify.members.get(rows.variant, ())
        if row.metric == name
    }
    for at in rows.at("clarify", what):
        row = at[what]
        if row.metric != name or row.fact("split") not in (None, "training"):
            continue
        disadvantaged, advantaged = row.fact("disadvantaged"), row.fact("advantaged")
        where = f"{metric} of {names.get(disadvantaged, disadvantaged)} against "
        where += names.get(advantaged, advantaged)
        group = disadvantaged if parse_group_key(disadvantaged) else advantaged
        place = _place(rows.variant, metric, row.fact("attribute"), where, group)
        mean, own = row.number, members.get((row.fact("attribute"), disadvantaged))
        if metric in OF_LABELS:
            yield place("mean", mean, None)
            continue
        if own is None and mean.value is not None:
            lost = undefined(NOT_HELD.format(metric), n=mean.n, members=mean.members)
            mean = Quantity.of(lost)
        yield place("mean", mean, None)
        yield place("dense", at["variants.dense"].number, None)
        for member, values in enumerate(zip(own.values, own.se, strict=True) if own else ()):
            value, se = map(known, values)
            alone = _of_member(value, se, mean.n, "ratio" if name == "DI" else "identity")
            yield place(MEMBER.format(member), Quantity.of(alone), None)


def _of_fairness(rows: AuditRows, metric: str) -> Iterator[Row]:
    audit, n = rows.audit, rows.audit.examples.clusters
    for what, variant in (("mean", rows.variant), ("dense", "dense")):
        for row in audit.run_to_run.get(variant, ()):
            if row.metric != metric.partition(".")[2]:
                continue
            place = _place(rows.variant, metric, row.attribute, f"{metric} of {row.attribute}")
            values, se = ([known(one) for one in own] for own in (row.values, row.se))
            reason = row.reason or _no_error(audit, metric, row.attribute)
            mean = mean_of_runs(values, se, n=n, reason=reason)
            yield place(what, Quantity.of(mean), None)
            for member, own in enumerate(zip(values, se, strict=True) if what == "mean" else ()):
                yield place(MEMBER.format(member), Quantity.of(_of_member(*own, n)), None)


def _place(variant: str, metric: str, attribute: str, where: str, group: str = "all") -> Any:
    facts = ("attribute", attribute), ("where", where)
    return partial(Row, "levels", variant, metric, group, None, facts)


def _of_member(value: float, se: float, n: int, scale: Any = "identity") -> Estimate:
    """One model's value, whose interval speaks of another test set."""
    if not se > 0:
        return undefined("interval not estimable", value=value, n=n, members=1)
    return Estimate.on_scale(value, se, max(n - 1, 1), n=n, members=1, scale=scale)


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


def level_questions(rule: LevelRule, at: At) -> list[Question]:
    """Ask whether the numbers of an address keep each limit of a rule."""
    limits: list[tuple[Side, float | None]] = [("at least", rule.min), ("at most", rule.max)]
    return [_question(rule, at, side, limit) for side, limit in limits if limit is not None]


def _question(rule: LevelRule, at: At, side: Side, limit: float) -> Question:
    row, fair, of_labels = at["mean"], neutral(rule.metric), rule.metric in OF_LABELS
    # Chance lifts absolute differences in both directions.
    lifted = rule.metric.startswith("fairness.")
    lowest, highest = (0.0, 1.0) if lifted else (-math.inf, math.inf)
    mean = read_estimate(row.number)
    members = [read_estimate(one.number) for what, one in at.items() if what.startswith("member")]
    k, single = len(members), rule.of == "every_member" and not of_labels

    def bound(subject: str, estimate: Estimate, tries: int = 1, **known: Any) -> Bound:
        return Bound(
            "level", estimate, limit, side, subject=subject, tries=tries, lowest=lowest,
            highest=highest, **known,
        )  # fmt: skip

    def clipped(row: Row) -> Quantity:
        one = read_estimate(row.number)
        return Quantity.of(replace(one, low=max(one.low, lowest), high=min(one.high, highest)))

    looks = (2 if single and k > 1 else 1) * (1 + lifted)
    of_mean = f"the mean of {k} model{'' if k == 1 else 's'}"
    harms, clears, worst, outside = [bound(of_mean, mean, looks)], [], None, ""
    spread = spread_of([one.value for one in members], mean, single=single)
    if single:
        own = [bound(MEMBER.format(m), one, k * looks) for m, one in enumerate(members)]
        harms += own if k > 1 else []
        nearest = min if side == "at least" else max
        defined = [one for one in own if not math.isnan(one.estimate.value)]
        worst = nearest(defined, key=lambda one: one.estimate.value, default=None)
        outside = worst.subject if worst and worst.broken else ""
        if spread is not None:
            runs = f"the next {rule.next_runs} runs" if rule.next_runs > 1 else "the next run"
            clears = [bound(runs, next_run(mean, spread), rule.next_runs, spread=spread)]
    elif mean.se > 0 and not of_labels:
        clears = [bound(of_mean, mean, spread=spread)]
    counted = None
    if of_labels and not math.isnan(mean.value):
        value = replace(mean, low=math.nan, high=math.nan, note="counted, not estimated")
        counted = bound("the training data", value)
    reason = mean.reason
    if not of_labels and not reason:
        if outside and worst is not None:
            value_words = f"{outside} has {worst.estimate.value:.3f}"
            reason = f"{value_words}, which alone does not show that the limit is broken"
        elif not clears and (few := few_runs(k)):
            reason = f"{few}; train at least {FEWEST_RUNS} models, better 16"
        elif not clears:
            reason = "a ratio of 0 in one of the models leaves no interval"
    where = row.fact("where")
    if rule.min is not None and rule.max is not None:
        where += " (min)" if side == "at least" else " (max)"
    level = LevelTest(
        attribute=row.fact("attribute"), side=side, limit=limit, neutral=fair,
        of="labels" if of_labels else rule.of, next_runs=rule.next_runs if single else 0,
        mean=row.number if of_labels else clipped(row),
        worst_member="" if worst is None else worst.subject,
        worst=None if worst is None else Quantity.of(worst.estimate),
        dense=clipped(at["dense"]) if "dense" in at else None,
    )  # fmt: skip
    return Question(
        unanswered(rule.id, rule.metric, where, group=row.group, level=level),
        () if of_labels else tuple(harms), () if outside else tuple(clears),
        replace(mean, members=k, events=math.nan), mean.events, reason, counted=counted,
    )  # fmt: skip


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
