"""Do the rules of a gate name groups that there are, and ask for labels that there are?"""

from __future__ import annotations

from collections.abc import Iterable

from scotoma.answers.group_keys import parse_group_key
from scotoma.config.gate import GateRules
from scotoma.config.gate_changes import ChangeRule, ClassesRule, ScoreRule, SlicesRule
from scotoma.config.gate_levels import OF_PREDICTIONS, LevelRule
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.errors import DataError
from scotoma.printable import nearest, printable

NAMED_AT_MOST = 5  # of what there is, where no name is near


def refuse_rules_about_labels(rules: GateRules) -> None:
    """Refuse rules that only labels can answer, for an audit without labels.

    Args:
        rules: The gate.

    Raises:
        DataError: There is one.

    >>> from scotoma.config.gate import default_rules
    >>> refuse_rules_about_labels(default_rules(positive=False))
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: rule 'error_groups' needs labels, and the test examples have none; \
ask cie_share_excess or labels_changed
    """
    for rule in rules.rules:
        of_labels = isinstance(rule, LevelRule) and rule.metric not in OF_PREDICTIONS
        of_labels |= isinstance(rule, PicturesRule) and rule.metric == "overconfidence"
        of_labels |= isinstance(rule, ChangeRule) and rule.metric != "unanswered"
        if of_labels or isinstance(rule, ClassesRule | RobustnessRule | SlicesRule):
            raise DataError(
                f"rule {printable(rule.id)!r} needs labels, and the test examples have none; ask "
                "cie_share_excess or labels_changed"
            )


def refuse_rules_of_other_kind(rules: GateRules, *, scored: bool) -> None:
    """Refuse rules about classes for an audit of scores, and the other way round.

    Args:
        rules: The gate.
        scored: Whether the examples have scores instead of classes.

    Raises:
        DataError: There is one.

    >>> from scotoma.config.gate import default_rules
    >>> refuse_rules_of_other_kind(default_rules(positive=False), scored=True)
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: rule 'error_groups' asks for error, and the examples have scores and \
no classes; ask for mean_score
    """
    for rule in rules.rules:
        if isinstance(rule, ScoreRule) is not scored:
            has = "classes and no scores; ask for error, fpr or fnr"
            has = "scores and no classes; ask for mean_score" if scored else has
            raise DataError(
                f"rule {printable(rule.id)!r} asks for {rule.metric}, and the examples have {has}"
            )


def refuse_unknown_groups(rules: GateRules, keys: Iterable[str]) -> None:
    """Refuse rules that name an attribute or a group that the test examples do not have.

    Args:
        rules: The gate.
        keys: Keys of the groups of the test examples, such as `sex=male`.

    Raises:
        DataError: A name is unknown; it tells which, where it stands and what it may have meant.

    >>> from scotoma.config.gate import parse_rules
    >>> text = "{must: [sexx], rules: [{id: cie, metric: cie_share_excess, max: 0.1}]}"
    >>> rules = parse_rules(text, "gate.yaml")
    >>> refuse_unknown_groups(rules, ["all", "sex=male"])
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: must names 'sexx', which no test example has; did you mean 'sex'?
    """
    groups = set(keys)
    attributes = {attribute for key in groups for attribute, _ in parse_group_key(key)}
    named = [("must", name, groups | attributes) for name in rules.must]
    named += [
        (f"{key} of rule {rule.id}", name, known)
        for key, known in (("attributes", attributes), ("exclude", groups))
        for rule in rules.rules
        for name in getattr(rule, key, None) or ()
    ]
    named += [
        (f"group of the waiver of rule {waiver.rule}", waiver.group, groups)
        for waiver in rules.waivers
        if waiver.group is not None
    ]
    for what, name, known in named:
        if name not in known:
            listed = sorted(known)
            some = ", ".join(map(printable, listed[:NAMED_AT_MOST]))
            more = " ..." if len(listed) > NAMED_AT_MOST else ""
            raise DataError(
                f"{printable(what)} names {printable(name)!r}, which no test example has"
                f"{nearest(name, listed) or f'; there are {some}{more}'}"
            )
