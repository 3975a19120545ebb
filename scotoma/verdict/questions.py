"""What does a gate ask of an audit? One question a rule and number, with its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.audit import Audit, Quantity, Spread
from scotoma.audit.groups import RATE_NAMES, ClassRow
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
from scotoma.errors import DataError
from scotoma.group_keys import parse_group_key
from scotoma.printable import nearest, printable
from scotoma.uncertainty import Estimate, Variance, heterogeneity, undefined
from scotoma.verdict.margins import sampling_margin, too_small

__all__ = ["Question", "questions", "read_estimate", "read_variance"]

UNKNOWN = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)
NO_SLICES = "the audit measured no slices"
MANY_CLASSES = 20  # above it classes are judged by the spread of their losses
Kind = Literal["relative", "absolute"]
Margin = tuple[Kind, Estimate, float]


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
        clearing: Largest difference, a fraction, that a PASS has to rule out: the absolute margin,
            or the sampling margin where that is wider. Known before compression.
        not_judged: Why a PASS does not need it, as a sentence to print; else empty. Harm is looked
            for all the same.
        too_small: Whether it is the size of the test set that keeps it from being judged.
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
    clearing: float | None = None
    not_judged: str = ""
    too_small: bool = False

    @property
    def margins(self) -> list[Margin]:
        """List each margin of the rule: its name, the estimate, the margin in the estimate's unit.

        Harm exceeds them all.

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

    @property
    def clearing_margins(self) -> list[Margin]:
        """List the margins of which a PASS keeps one; those without an interval are left out."""
        kept = [margin for margin in self.margins if margin[0] == "relative"]
        widest = self.absolute if self.clearing is None else self.clearing
        if self.change is not None and widest is not None:
            kept.append(("absolute", self.change.absolute, widest))
        return [margin for margin in kept if not math.isnan(margin[1].low)]


def questions(audit: Audit, variant: str, rules: GateRules) -> list[Question]:
    """List the questions that the rules ask about one variant, in the order of the rules.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rules: The gate.

    Returns:
        At least one question a rule: one without evidence where the audit holds none. None for
        `since_previous`, which needs another audit.

    Raises:
        DataError: The rules name an attribute or a group that the audit does not have.
    """
    _known_groups(audit, rules)
    return [question for rule in rules.rules for question in _asked(audit, variant, rule, rules)]


def _known_groups(audit: Audit, rules: GateRules) -> None:
    """Refuse attributes and keys of groups that the audit does not have."""
    keys = set(audit.group_names)
    attributes = {attribute for key in keys for attribute, _ in parse_group_key(key)}
    chosen = [rule for rule in rules.rules if isinstance(rule, ChangeRule)]
    named = [("must", name, keys | attributes) for name in rules.must]
    named += [
        (f"{r.id}: attributes", name, attributes) for r in chosen for name in r.attributes or ()
    ]
    named += [(f"{rule.id}: exclude", name, keys) for rule in chosen for name in rule.exclude]
    named += [("waivers: group", w.group, keys) for w in rules.waivers if w.group is not None]
    for what, name, known in named:
        if name not in known:
            raise DataError(
                f"{printable(what)} must name what the audit has, got {printable(name)!r}"
                f"{nearest(name, sorted(known))}"
            )


def _asked(audit: Audit, variant: str, rule: Rule, rules: GateRules) -> list[Question]:
    if isinstance(rule, ChangeRule):
        rates = list(_rates(audit, variant, rule, rules))
        return rates or [_unasked(rule, _no_rates(audit, rule))]
    if isinstance(rule, CieRule):
        cie = audit.divergence[variant].cie
        change = difference_alone(
            rule.metric, "all", read_estimate(cie.excess), read_variance(cie.excess_variance)
        )
        return [Question(rule.id, rule.metric, "all", None, "CIE excess", None, rule.max, change)]
    if isinstance(rule, ClassesRule):
        members = min(v.members for v in audit.variants if v.name in ("dense", variant))
        rows = audit.classes[variant]
        classes = [_class(rule, row, members, rules) for row in rows]
        if len(rows) <= MANY_CLASSES:
            return classes
        together = f"judged with the other {len(rows) - 1:,} classes by the spread of their losses"
        return [
            _spread(rule, rows, members),
            *(replace(one, not_judged=together, too_small=False) for one in classes),
        ]
    if isinstance(rule, SincePreviousRule):
        return []
    return list(_slices(audit, variant, rule)) or [_unasked(rule, NO_SLICES)]


def _rates(audit: Audit, variant: str, rule: ChangeRule, rules: GateRules) -> Iterator[Question]:
    names = audit.group_names
    sizes = {group.key: group.n for group in audit.groups}
    for row in audit.subgroups[variant]:
        in_group, of_class = row.group != "all", row.class_name is not None
        over = "groups" if in_group else "classes" if of_class else "all"
        if (row.metric, over) != (rule.metric, rule.over):
            continue
        if in_group and not (_chosen(row.group, rule) and sizes[row.group] >= rule.min_examples):
            continue
        parts = [names[row.group]] if in_group or not of_class else []
        parts += [f"class {row.class_name}"] if of_class else []
        name = f"{RATE_NAMES[rule.metric]} {', '.join(parts)}"
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
        dense, n = change.dense.value, change.dense.n
        widest = max((margins.relative or 0.0) * dense, margins.absolute or 0.0)
        small = "" if _must(row.group, rules) else _small(dense, n, widest, rules)
        yield Question(
            rule.id, rule.metric, row.group, row.class_name, name, margins.relative,
            margins.absolute, change, clearing=_clearing(dense, n, margins.absolute),
            not_judged=small, too_small=bool(small),
        )  # fmt: skip


def _chosen(key: str, rule: ChangeRule) -> bool:
    """Whether a rule asks about a group."""
    parts = set(parse_group_key(key))
    attributes = {attribute for attribute, _ in parts}
    if rule.attributes is not None and not attributes <= set(rule.attributes):
        return False
    return not any(set(parse_group_key(one)) <= parts for one in rule.exclude)


def _must(key: str, rules: GateRules) -> bool:
    """Whether a group must be judged, however small: its key is named, or its one attribute."""
    attributes = [attribute for attribute, _ in parse_group_key(key)]
    return key in rules.must or (len(attributes) == 1 and attributes[0] in rules.must)


def _clearing(rate: float, n: int, margin: float | None) -> float | None:
    if math.isnan(rate) or n == 0:
        return margin
    return max(margin or 0.0, sampling_margin(rate, n))


def _small(rate: float, n: int, margin: float, rules: GateRules) -> str:
    """Say why a rate is too small to judge; empty where it is not, or is undefined."""
    if n and math.isnan(rate):
        return ""
    return too_small(rate, n, margin=margin, coarsest=rules.coarsest)


def _no_rates(audit: Audit, rule: ChangeRule) -> str:
    """Say why the audit has no row that a rule asks for."""
    if rule.over == "groups":
        return (
            "the audit has no such groups" if len(audit.groups) > 1 else "the audit has no groups"
        )
    positive = audit.examples.positive is not None
    if rule.over == "classes" and positive:
        return f"label.positive makes the {rule.metric} one rate; ask over groups or all"
    return f"without label.positive each class has its own {rule.metric}; ask over classes"


def _unasked(rule: Rule, reason: str) -> Question:
    label = RATE_NAMES.get(rule.metric, rule.metric)
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


def _class(rule: ClassesRule, row: ClassRow, members: int, rules: GateRules) -> Question:
    """Ask for the recall lost beyond the accuracy lost, a fraction; the audit has points gained."""
    value, events = -_number(row.normalised) / 100, _number(row.effective_events)
    if row.reason:
        loss = undefined(row.reason, value=value, n=row.n, members=members, events=events)
    else:
        se = _number(row.se) / 100
        df = math.inf if row.df is None else row.df  # JSON has no infinity, and this row a p-value
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
    missed = 1 - _number(row.dense_recall)
    small = _small(missed, row.n, rule.margin, rules)
    return Question(
        rule.id, rule.metric, "all", row.class_name, where, None, rule.margin, change,
        clearing=_clearing(missed, row.n, rule.margin),
        not_judged=small, too_small=bool(small),
    )  # fmt: skip


def _spread(rule: ClassesRule, rows: Sequence[ClassRow], members: int) -> Question:
    """Ask how much the true losses of many classes differ: their standard deviation, tau."""
    where = f"spread of the recall losses of {len(rows):,} classes"
    known = [row for row in rows if row.n > 1 and row.normalised is not None]
    missed = [1 - (_number(r.dense_recall) + _number(r.compressed_recall)) / 2 for r in known]
    # By binomial shares, with one error and one hit more, so that no class has none.
    expected = [(row.n * p + 1) / (row.n + 2) for row, p in zip(known, missed, strict=True)]
    tau: Estimate
    n = sum(row.n for row in known)
    if len(known) > MANY_CLASSES:
        tau = heterogeneity(
            [-_number(row.normalised) / 100 for row in known],
            [_by_chance(row) for row in known],
            [p * (1 - p) / row.n for row, p in zip(known, expected, strict=True)],
            n=n,
            members=members,
        )
    else:
        tau = undefined(f"{len(known)} classes have examples enough", n=n, members=members)
    change = difference_alone(rule.metric, "all", tau)
    return Question(rule.id, rule.metric, "all", None, where, None, rule.margin, change)


def _by_chance(row: ClassRow) -> float:
    """The variance of a class's loss, a fraction squared, without its floor."""
    examples, members = _number(row.of_examples), _number(row.of_members)
    return max(examples + members - _number(row.of_both), examples, members) / 100**2


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
        floor=_number(spread.floor),
        df=_number(spread.df),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value
