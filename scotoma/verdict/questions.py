"""What a gate asks of an audit: one question a rule and number, with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from scotoma.bias.results import GroupChange
from scotoma.config.gate import (
    ChangeRule,
    CieRule,
    ClassesRule,
    GateRules,
    Rule,
    SinceLastRule,
    SlicesRule,
)
from scotoma.uncertainty import Estimate, Variance, undefined

__all__ = ["Question", "questions", "read_estimate", "read_variance"]

UNKNOWN = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)
LABELS = {"error": "error", "fpr": "FPR", "fnr": "FNR"}
NO_SLICES = "the audit measured no slices"


@dataclass(frozen=True)
class Question:
    """Did this number of this variant rise beyond its limits?

    Attributes:
        rule: Id of the rule that asks.
        metric: Its metric.
        group: Key of the group; `all` for all examples.
        class_name: The class, where the number is one class's; else None.
        where: Which number, in words: "FPR male & old".
        relative: Limit on compressed / dense - 1, a fraction; None for no such limit.
        absolute: Limit on the difference, a fraction; None for no such limit.
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
    def limits(self) -> list[tuple[str, Estimate, float]]:
        """Name, estimate and limit in the estimate's unit, of each limit there is.

        >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
        >>> asked = Question("cie", "cie_share_excess", "all", None, "CIE excess", None, 0.01,
        ...                  alone("cie_share_excess", "all", change))
        >>> [(name, limit) for name, _, limit in asked.limits]
        [('absolute', 0.01)]
        """
        if self.change is None:
            return []
        found = []
        if self.relative is not None:
            found.append(("relative", self.change.relative, 100 * self.relative))
        if self.absolute is not None:
            found.append(("absolute", self.change.absolute, self.absolute))
        return found


def questions(audit: Mapping[str, Any], variant: str, rules: GateRules) -> list[Question]:
    """Every question that the rules ask about one variant, in the order of the rules.

    Args:
        audit: Content of audit.json.
        variant: Name of a compressed variant.
        rules: The gate.

    Returns:
        At least one question a rule: one without evidence where the audit holds none. Of
        `since_last` none: it needs another audit beside this one.

    Raises:
        KeyError: The audit lacks a part; likewise TypeError and ValueError where a part is not
            what it should be.
    """
    return [question for rule in rules.rules for question in _asked(audit, variant, rule)]


def _asked(audit: Mapping[str, Any], variant: str, rule: Rule) -> list[Question]:
    if isinstance(rule, ChangeRule):
        return list(_rates(audit, variant, rule)) or [_unasked(rule, _no_rates(audit, rule))]
    if isinstance(rule, CieRule):
        found = audit["divergence"][variant]["cie"]
        parts = read_variance(found["excess_variance"]) if "excess_variance" in found else UNKNOWN
        excess = read_estimate(found["excess"])
        change = alone(rule.metric, "all", excess, parts)
        return [Question(rule.id, rule.metric, "all", None, "CIE excess", None, rule.max, change)]
    if isinstance(rule, ClassesRule):
        rows = audit["classes"][variant]
        members = min(v["members"] for v in audit["variants"] if v["name"] in ("dense", variant))
        return [_class(rule, row, members) for row in rows]
    if isinstance(rule, SinceLastRule):
        return []
    return list(_slices(audit, variant, rule)) or [_unasked(rule, NO_SLICES)]


def _rates(audit: Mapping[str, Any], variant: str, rule: ChangeRule) -> Iterator[Question]:
    names = {group["key"]: group["name"] for group in audit["groups"]}
    for row in audit["subgroups"][variant]:
        in_group, of_class = row["group"] != "all", row["class"] is not None
        over = "groups" if in_group else "classes" if of_class else "all"
        if (row["metric"], over) != (rule.metric, rule.over):
            continue
        parts = [names[row["group"]]] if in_group or not of_class else []
        parts += [f"class {row['class']}"] if of_class else []
        name = f"{LABELS[rule.metric]} {', '.join(parts)}"
        change = GroupChange(
            group=row["group"],
            metric=rule.metric,
            class_id=None,
            **{key: read_estimate(row[key]) for key in ("dense", "compressed")},
            **{key: read_estimate(row[key]) for key in ("relative", "absolute")},
            relative_variance=_optional(row, "relative_variance"),
            absolute_variance=_optional(row, "absolute_variance"),
        )
        limits = rule.max_increase
        yield Question(
            rule.id, rule.metric, row["group"], row["class"], name, limits.relative,
            limits.absolute, change,
        )  # fmt: skip


def _no_rates(audit: Mapping[str, Any], rule: ChangeRule) -> str:
    """Why no row of the audit is what a rule asks for."""
    if rule.over == "groups":
        return "the audit has no groups"
    positive = audit["examples"]["positive"] is not None
    if rule.over == "classes" and positive:
        return f"label.positive makes the {rule.metric} one rate; ask over groups or all"
    return f"without label.positive each class has its own {rule.metric}; ask over classes"


def _unasked(rule: Rule, reason: str) -> Question:
    label = LABELS.get(rule.metric, rule.metric)
    return Question(rule.id, rule.metric, "all", None, label, None, None, None, reason)


def _slices(audit: Mapping[str, Any], variant: str, rule: SlicesRule) -> Iterator[Question]:
    """The rise of the error on each slice found; where none stands out, on all examples."""
    found = audit.get("slices", {}).get(variant)
    if found is None:
        return
    rises = [(f"error of slice {one['text']}", one["effect"]) for one in found["slices"]]
    for where, rise in rises or [("error of all examples, no slice standing out", found["change"])]:
        change = alone(rule.metric, "all", read_estimate(rise))
        yield Question(rule.id, rule.metric, "all", None, where, None, rule.margin, change)


def _class(rule: ClassesRule, row: Mapping[str, Any], members: int) -> Question:
    """Recall lost beyond the accuracy lost, as a fraction: the audit has it in points, gained."""
    n = int(row["n"])
    value, events = -_number(row["normalised"]) / 100, _number(row["events"])
    if row["reason"]:
        loss = undefined(row["reason"], value=value, n=n, members=members, events=events)
    else:
        se, df = _number(row["se"]) / 100, _number(row["df"])
        loss = Estimate.on_scale(value, se, df, n=n, members=members, events=events)
    parts = UNKNOWN
    if "of_examples" in row:
        of = {key: _number(row[key]) / 100**2 for key in ("of_examples", "of_members", "of_both")}
        parts = Variance(loss.se**2, of["of_examples"], of["of_members"], of["of_both"], loss.df)
    change = alone(rule.metric, "all", loss, parts)
    where = f"recall loss of class {row['class']}"
    return Question(rule.id, rule.metric, "all", row["class"], where, None, rule.margin, change)


def alone(
    metric: str, group: str, difference: Estimate, variance: Variance = UNKNOWN
) -> GroupChange:
    """A difference that has no rates beside it, in the place of a change.

    >>> change = alone("classes_hurt", "all", undefined("nothing varies", n=9, members=5))
    >>> change.relative.reason
    'nothing varies'
    """
    nothing = replace(difference, value=math.nan, low=math.nan, high=math.nan, se=math.nan)
    return GroupChange(
        group=group, metric=metric, class_id=None, dense=nothing, compressed=nothing,
        relative=nothing, absolute=difference, relative_variance=UNKNOWN,
        absolute_variance=variance,
    )  # fmt: skip


def read_estimate(found: Mapping[str, Any]) -> Estimate:
    """What `Estimate.as_dict` wrote, read back: null is nan.

    >>> change = Estimate.on_scale(0.02, 0.005, float("inf"), n=500, members=10)
    >>> read_estimate(change.as_dict()).high == change.high
    True
    """
    words = ("reason", "note", "scale")
    whole = ("n", "members")
    values: dict[str, Any] = {}
    for field in fields(Estimate):
        value = found[field.name]
        if field.name in words:
            values[field.name] = str(value)
        else:
            values[field.name] = int(value) if field.name in whole else _number(value)
    return Estimate(**values)


def read_variance(found: Mapping[str, Any]) -> Variance:
    """What `Variance.as_dict` wrote, read back: null is nan.

    >>> read_variance(Variance(4.0, 3.0, 2.0, 1.0, 9.0).as_dict()).members
    2.0
    """
    return Variance(**{field.name: _number(found[field.name]) for field in fields(Variance)})


def _optional(row: Mapping[str, Any], key: str) -> Variance:
    return read_variance(row[key]) if key in row else UNKNOWN


def _number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
