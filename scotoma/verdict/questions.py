"""What does a gate ask of an audit? One question a rule and number, with its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scotoma.audit import Audit
from scotoma.audit.groups import RATE_NAMES
from scotoma.bias.results import GroupChange
from scotoma.config.gate import (
    ChangedRule,
    ChangeRule,
    CieRule,
    ClassesRule,
    GateRules,
    LevelRule,
    Rule,
    SincePreviousRule,
    SlicesRule,
)
from scotoma.config.gate_groups import (
    refuse_rules_about_labels,
    refuse_rules_of_other_kind,
    refuse_unknown_groups,
)
from scotoma.config.gate_scores import ScoreRule
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.group_keys import parse_group_key
from scotoma.verdict.class_questions import class_questions
from scotoma.verdict.evidence import difference_alone, read_estimate, read_variance
from scotoma.verdict.level_questions import level_questions
from scotoma.verdict.margins import clearing_margin, why_too_small
from scotoma.verdict.question import Question
from scotoma.verdict.robustness_questions import (
    NO_PICTURES,
    NO_TOP5,
    NOT_ASKED,
    pictures_questions,
    robustness_questions,
)
from scotoma.verdict.score_questions import score_questions

__all__ = ["questions"]

NO_SLICES = "the audit measured no slices"
UNCONFIRMED = "slices.mode {} confirms no slice on other examples; slices.mode cover does"


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
        DataError: The rules name an attribute or a group that the audit does not have, or need
            labels that it does not have.
    """
    refuse_unknown_groups(rules, audit.group_names)
    refuse_rules_of_other_kind(rules, scored=audit.scores is not None)
    if not audit.labelled and audit.scores is None:
        refuse_rules_about_labels(rules)
    return [question for rule in rules.rules for question in _asked(audit, variant, rule, rules)]


def _asked(audit: Audit, variant: str, rule: Rule, rules: GateRules) -> list[Question]:
    if isinstance(rule, ChangeRule):
        rates = list(_rates(audit, variant, rule, rules))
        if rates or rule.metric != "unanswered":
            return rates or [_unasked(rule, _no_rates(audit, rule))]
        every = "every example has an answer"
        return [replace(_unasked(rule, every), not_judged=every)]
    if isinstance(rule, CieRule):
        cie = audit.divergence[variant].cie
        change = difference_alone(
            rule.metric, "all", read_estimate(cie.excess), read_variance(cie.excess_variance)
        )
        return [Question(rule.id, rule.metric, "all", None, "CIE excess", None, rule.max, change)]
    if isinstance(rule, ChangedRule):
        asked = list(_changed(audit, variant, rule, rules))
        return asked or [_unasked(rule, "the audit has no groups")]
    if isinstance(rule, ClassesRule):
        return class_questions(audit, variant, rule, rules)
    if isinstance(rule, LevelRule):
        return level_questions(audit, variant, rule)
    if isinstance(rule, SincePreviousRule):
        return []
    if isinstance(rule, ScoreRule):
        must = frozenset(key for key in audit.group_names if _must(key, rules))
        return score_questions(audit, variant, rule, must)
    if isinstance(rule, RobustnessRule | PicturesRule):
        must = frozenset(key for key in audit.group_names if _must(key, rules))
        if isinstance(rule, RobustnessRule):
            asked = robustness_questions(audit, variant, rule, must)
        else:
            asked = pictures_questions(audit, variant, rule, must)
        return asked or [_unasked(rule, _no_losses(audit, rule))]
    return list(_slices(audit, variant, rule)) or [_unasked(rule, NO_SLICES)]


def _rates(audit: Audit, variant: str, rule: ChangeRule, rules: GateRules) -> Iterator[Question]:
    names = audit.group_names
    sizes = {group.key: group.n for group in audit.groups}
    silent = (audit.unanswered or {}).get(variant, ())
    for row in silent if rule.metric == "unanswered" else audit.subgroups[variant]:
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
        small = (
            ""
            if _must(row.group, rules)
            else why_too_small(dense, n, margin=widest, coarsest=rules.coarsest)
        )
        yield Question(
            rule.id, rule.metric, row.group, row.class_name, name, margins.relative,
            margins.absolute, change, clearing=clearing_margin(dense, n, margins.absolute),
            not_judged=small, too_small=bool(small),
        )  # fmt: skip


def _changed(audit: Audit, variant: str, rule: ChangedRule, rules: GateRules) -> Iterator[Question]:
    """Ask for the share of predictions that change."""
    everyone = audit.groups[0].key
    for row in audit.divergence[variant].ledger:
        if (row.group == everyone) != (rule.over == "all"):
            continue
        change = difference_alone(rule.metric, row.group, read_estimate(row.changed))
        small = "" if _must(row.group, rules) else why_too_small(
            0.0, row.changed.n, margin=rule.max, coarsest=rules.coarsest
        )  # fmt: skip
        yield Question(
            rule.id, rule.metric, row.group, None,
            f"changed labels of {audit.group_names[row.group]}", None, rule.max, change,
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


def _no_losses(audit: Audit, rule: RobustnessRule | PicturesRule) -> str:
    """Say why the audit has nothing on corrupted pictures that a rule asks for."""
    if audit.robustness is None or not audit.robustness.corruptions:
        return NO_PICTURES
    if isinstance(rule, PicturesRule):
        return f"the audit did not measure it for such groups; {NOT_ASKED[rule.metric]}"
    if rule.top == 5 and all(row.top5_accuracy is None for row in audit.robustness.by_corruption):
        return NO_TOP5
    return "the audit has no such groups or corruptions"


def _unasked(rule: Rule, reason: str) -> Question:
    label = RATE_NAMES.get(rule.metric, rule.metric)
    return Question(rule.id, rule.metric, "all", None, label, None, None, None, reason)


def _slices(audit: Audit, variant: str, rule: SlicesRule) -> Iterator[Question]:
    """Ask for the rise of the error on each slice; where none stands out, on all examples."""
    search = audit.slices.get(variant)
    if search is None:
        return
    if not search.settings.get("confirm", True):
        yield _unasked(rule, UNCONFIRMED.format(search.settings.get("mode")))
        return
    rises = [(f"error of slice {row.text}", row.effect) for row in search.slices]
    for where, rise in rises or [("error of all examples, as no slice stands out", search.change)]:
        change = difference_alone(rule.metric, "all", read_estimate(rise))
        yield Question(rule.id, rule.metric, "all", None, where, None, rule.margin, change)
