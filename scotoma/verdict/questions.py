"""What a gate asks of an audit: one question a rule and number, with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.audit import Audit, Quantity, Spread
from scotoma.audit.groups import ClassRow
from scotoma.bias.results import GroupChange
from scotoma.config.gate import (
    ChangeRule,
    CieRule,
    ClassesRule,
    GateRules,
    Rule,
    SincePreviousRule,
    SlicesRule,
)
from scotoma.uncertainty import Estimate, Variance, undefined

__all__ = ["Question", "questions", "read_estimate", "read_variance"]

UNKNOWN = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)
LABELS = {"error": "error", "fpr": "FPR", "fnr": "FNR"}
NO_SLICES = "the audit measured no slices"
Kind = Literal["relative", "absolute"]


@dataclass(frozen=True)
class Question:
    """Did this number of this variant rise beyond its margins?

    Attributes:
        rule: Id of the rule that asks.
        metric: Its metric.
        group: Key of the group; `all` for all examples.
        class_name: The class, where the number is one class's; else None.
        where: Which number, in words: "FPR male & old".
        relative: Margin on compressed / dense - 1, a fraction; None for no such margin.
        absolute: Margin on the difference, a fraction; None for no such margin.
        change: The evidence; None where the audit holds none.
        reason: Why it holds none, as a sentence to print; else empty.
    """

    rule: str
    metric: str
    group: str
    class_name: str | None
    where: str
    relative: float | None
    absolute: float | None
    change: GroupChange | None
    reason: str = ""

    @property
    def margins(self) -> list[tuple[Kind, Estimate, float]]:
        """List each margin: its name, the estimate, and the margin in the estimate's unit.

        >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
        >>> question = Question("cie", "cie_share_excess", "all", None, "CIE excess", None, 0.01,
        ...                     difference_alone("cie_share_excess", "all", change))
        >>> [(name, margin) for name, _, margin in question.margins]
        [('absolute', 0.01)]
        """
        if self.change is None:
            return []
        margins: list[tuple[Kind, Estimate, float]] = []
        if self.relative is not None:
            margins.append(("relative", self.change.relative, 100 * self.relative))
        if self.absolute is not None:
            margins.append(("absolute", self.change.absolute, self.absolute))
        return margins


def questions(audit: Audit, variant: str, rules: GateRules) -> list[Question]:
    """List the questions that the rules ask about one variant, in the order of the rules.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rules: The gate.

    Returns:
        At least one question a rule: one without evidence where the audit holds none. None for
        `since_previous`, which needs another audit.
    """
    return [question for rule in rules.rules for question in _asked(audit, variant, rule)]


def _asked(audit: Audit, variant: str, rule: Rule) -> list[Question]:
    if isinstance(rule, ChangeRule):
        return list(_rates(audit, variant, rule)) or [_unasked(rule, _no_rates(audit, rule))]
    if isinstance(rule, CieRule):
        cie = audit.divergence[variant].cie
        change = difference_alone(
            rule.metric, "all", read_estimate(cie.excess), read_variance(cie.excess_variance)
        )
        return [Question(rule.id, rule.metric, "all", None, "CIE excess", None, rule.max, change)]
    if isinstance(rule, ClassesRule):
        members = min(v.members for v in audit.variants if v.name in ("dense", variant))
        return [_class(rule, row, members) for row in audit.classes[variant]]
    if isinstance(rule, SincePreviousRule):
        return []
    return list(_slices(audit, variant, rule)) or [_unasked(rule, NO_SLICES)]


def _rates(audit: Audit, variant: str, rule: ChangeRule) -> Iterator[Question]:
    names = audit.group_names
    for row in audit.subgroups[variant]:
        in_group, of_class = row.group != "all", row.class_name is not None
        over = "groups" if in_group else "classes" if of_class else "all"
        if (row.metric, over) != (rule.metric, rule.over):
            continue
        parts = [names[row.group]] if in_group or not of_class else []
        parts += [f"class {row.class_name}"] if of_class else []
        name = f"{LABELS[rule.metric]} {', '.join(parts)}"
        change = GroupChange(
            group=row.group,
            metric=rule.metric,
            class_id=None,
            dense=read_estimate(row.dense),
            compressed=read_estimate(row.compressed),
            relative=read_estimate(row.relative),
            absolute=read_estimate(row.absolute),
            relative_variance=read_variance(row.relative_variance),
            absolute_variance=read_variance(row.absolute_variance),
        )
        margins = rule.max_increase
        yield Question(
            rule.id, rule.metric, row.group, row.class_name, name, margins.relative,
            margins.absolute, change,
        )  # fmt: skip


def _no_rates(audit: Audit, rule: ChangeRule) -> str:
    """Say why the audit has no row that a rule asks for."""
    if rule.over == "groups":
        return "the audit has no groups"
    positive = audit.examples.positive is not None
    if rule.over == "classes" and positive:
        return f"label.positive makes the {rule.metric} one rate; ask over groups or all"
    return f"without label.positive each class has its own {rule.metric}; ask over classes"


def _unasked(rule: Rule, reason: str) -> Question:
    label = LABELS.get(rule.metric, rule.metric)
    return Question(rule.id, rule.metric, "all", None, label, None, None, None, reason)


def _slices(audit: Audit, variant: str, rule: SlicesRule) -> Iterator[Question]:
    """Ask for the rise of the error on each slice; where none stands out, on all examples."""
    search = audit.slices.get(variant)
    if search is None:
        return
    rises = [(f"error of slice {row.text}", row.effect) for row in search.slices]
    for where, rise in rises or [("error of all examples, as no slice stands out", search.change)]:
        change = difference_alone(rule.metric, "all", read_estimate(rise))
        yield Question(rule.id, rule.metric, "all", None, where, None, rule.margin, change)


def _class(rule: ClassesRule, row: ClassRow, members: int) -> Question:
    """Ask for the recall lost beyond the accuracy lost, a fraction; the audit has points gained."""
    value, events = -_number(row.normalised) / 100, _number(row.effective_events)
    if row.reason:
        loss = undefined(row.reason, value=value, n=row.n, members=members, events=events)
    else:
        se, df = _number(row.se) / 100, _number(row.df)
        loss = Estimate.on_scale(value, se, df, n=row.n, members=members, events=events)
    variance = Variance(
        total=loss.se**2,
        examples=_number(row.of_examples) / 100**2,
        members=_number(row.of_members) / 100**2,
        residual=_number(row.of_both) / 100**2,
        df=loss.df,
        floor=_number(row.floor) / 100**2,
    )
    change = difference_alone(rule.metric, "all", loss, variance)
    where = f"recall loss of class {row.class_name}"
    return Question(rule.id, rule.metric, "all", row.class_name, where, None, rule.margin, change)


def difference_alone(
    metric: str, group: str, difference: Estimate, variance: Variance = UNKNOWN
) -> GroupChange:
    """Wrap a difference that has no rates beside it, as a change.

    >>> nothing = undefined("nothing varies", n=9, members=5)
    >>> change = difference_alone("classes_hurt", "all", nothing)
    >>> change.relative.reason
    'nothing varies'
    """
    nothing = replace(difference, value=math.nan, low=math.nan, high=math.nan, se=math.nan)
    return GroupChange(
        group=group, metric=metric, class_id=None, dense=nothing, compressed=nothing,
        relative=nothing, absolute=difference, relative_variance=UNKNOWN,
        absolute_variance=variance,
    )  # fmt: skip


def read_estimate(quantity: Quantity) -> Estimate:
    """Convert a number of the file to one to compute with: null is nan.

    >>> change = Estimate.on_scale(0.02, 0.005, float("inf"), n=500, members=10)
    >>> read_estimate(Quantity.of(change)) == change
    True
    """
    return Estimate(
        value=_number(quantity.value),
        low=_number(quantity.low),
        high=_number(quantity.high),
        n=quantity.n,
        members=quantity.members,
        events=_number(quantity.effective_events),
        df=_number(quantity.df),
        level=quantity.level,
        reason=quantity.reason,
        note=quantity.note,
        se=_number(quantity.se),
        scale=quantity.scale,
    )


def read_variance(spread: Spread) -> Variance:
    """Convert a variance of the file to one to compute with: null is nan.

    >>> parts = {"examples": 3.0, "members": 2.0, "residual": 1.0, "floor": 0.5}
    >>> read_variance(Spread(total=4.5, df=None, **parts)).floor
    0.5
    """
    return Variance(
        total=_number(spread.total),
        examples=_number(spread.examples),
        members=_number(spread.members),
        residual=_number(spread.residual),
        df=_number(spread.df),
        floor=_number(spread.floor),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
