"""The rules of a gate: what they may hold, how they are read, those that hold without a file."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from scotoma.answers.group_keys import parse_group_key
from scotoma.config.gate_changes import (
    ChangedRule,
    ChangeRule,
    CieRule,
    ClassesRule,
    MaxIncrease,
    MaxWorse,
    ScoreRule,
    SincePreviousRule,
    SlicesRule,
)
from scotoma.config.gate_levels import LEVEL_METRICS, LevelRule, neutral, twins
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.config.shared import Frozen, Id, distinct
from scotoma.config.sheet import Location, checked, file_text
from scotoma.errors import ConfigError, DataError
from scotoma.printable import nearest, printable
from scotoma.questions import QUESTIONS

METRICS = (*(metric for one in QUESTIONS.values() for metric in one.metrics), "since_previous")
UNLABELLED = {"since_previous"} | {
    metric for one in QUESTIONS.values() for metric in one.unlabelled
}  # need no labels
BUILT_IN = "built-in"  # names the default rules where a file of others is expected
SOME_METRICS = (
    f"{', '.join(name for name in METRICS if name not in LEVEL_METRICS)}, clarify.DI, fairness.DI "
    f"and {len(LEVEL_METRICS) - 2} more of Clarify and fairness"
)


Rule = Annotated[
    ChangeRule
    | CieRule
    | ChangedRule
    | ClassesRule
    | SlicesRule
    | SincePreviousRule
    | LevelRule
    | RobustnessRule
    | PicturesRule
    | ScoreRule,
    Field(discriminator="metric"),
]


class Minimum(Frozen):
    """What a test must rest on: without events no harm is shown, without models nothing at all."""

    effective_events: float = Field(
        10,
        ge=0,
        description="Effective events that harm must rest on, in the compressed population.",
    )
    models: int = Field(
        1,
        ge=1,
        description="Models of each variant. Below 5 the verdict covers these very models; from "
        "5, another training run too.",
    )


class Waiver(Frozen):
    """A rule that a variant may break, why, and until when."""

    rule: Id = Field(description="Id of the rule.")
    variant: Id = Field(description="Name of the variant.")
    group: Id | None = Field(None, description="Key of the group; null for all of the rule.")
    reason: str = Field(min_length=1, description="Why; it stands in every report.")
    until: datetime.date = Field(description="Last day on which it holds, YYYY-MM-DD.")


class GateRules(Frozen):
    """What decides: rules, how certain to be, what to do where nothing is certain."""

    version: Literal[1] = 1
    alpha: float = Field(
        0.05, gt=0, lt=0.5, description="Chance of any false FAIL of a variant is half of it."
    )
    correct: Literal["holm", "bh", "none"] = Field(
        "holm", description="Of harm p-values over a variant's tests; bh and none are no gates."
    )
    min: Minimum = Minimum()
    coarsest: float = Field(
        0.10,
        gt=0,
        lt=1,
        description="Coarsest margin that a PASS may rest on, a fraction: groups whose size allows "
        "no finer one are too small to judge.",
    )
    must: list[str] = Field(
        default_factory=list,
        description="Attributes or keys of groups that must be judged: too small there is UNSURE.",
    )
    on_unsure: Literal["warn", "fail"] = Field(
        "warn", description="Exit code where nothing fails and something is UNSURE: 0 or 3."
    )
    margin: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Margin of the built-in rules, a fraction: 0.02 lets a rate rise by two "
        "points, and a mean score get worse by 2%. null: their own.",
    )
    rules: Annotated[
        list[Rule], distinct("rules has the id {} twice; keep one of them", lambda rule: rule.id)
    ] = Field(
        default_factory=list, min_length=1, description="What may not happen. Default: built-in."
    )
    waivers: list[Waiver] = Field(default_factory=list)

    @field_validator("waivers")
    @classmethod
    def _waivers_name_rules(cls, waivers: list[Waiver], info: ValidationInfo) -> list[Waiver]:
        if fault := _unknown_waiver(waivers, info.data.get("rules", [])):
            raise ValueError(fault)
        return waivers

    def _misfits(self) -> Iterator[str]:
        if self.margin is not None and self.rules:
            yield (
                "margin is that of the built-in rules, and rules has others; remove margin, or "
                "write it into each rule"
            )

    def on(self, standard: GateRules) -> GateRules:
        """These rules; where there are none, the built-in ones with the margin of these.

        >>> GateRules(margin=0.02).on(default_rules(positive=False, shipped=True)).rules[1].margin
        0.02

        Raises:
            ConfigError: A waiver names a rule that is not among the built-in ones.
        """
        if self.rules:
            return self
        rules = standard.rules
        if fault := _unknown_waiver(self.waivers, rules):
            raise ConfigError(fault)
        if self.margin is not None:
            rules = [with_margin(rule, self.margin) for rule in rules]
        return self.model_copy(update={"rules": rules, "margin": None})


def _unknown_waiver(waivers: list[Waiver], rules: list[Rule]) -> str:
    """What is wrong with the waivers; empty if they name rules, or there are none yet."""
    known = [rule.id for rule in rules]
    unknown = [waiver.rule for waiver in waivers if known and waiver.rule not in known]
    if not unknown:
        return ""
    return (
        f"a waiver names the rule {unknown[0]!r}, which is not among {known}"
        f"{nearest(unknown[0], known)}"
    )


def with_margin(rule: Rule, margin: float) -> Rule:
    """A built-in rule with another margin; that on CIEs, which are no harm, keeps its own."""
    match rule:
        case ChangeRule():
            changed: dict[str, Any] = {"max_increase": MaxIncrease(absolute=margin)}
        case ClassesRule():
            changed = {"margin": margin}
        case ChangedRule():
            changed = {"max": margin}
        case ScoreRule():
            changed = {"max_worse": MaxWorse(relative=margin)}
        case _:
            changed = {}
    return rule.model_copy(update=changed)


_RATES = """\
  - id: {name}_{over}
    metric: {name}
    over: {over}
    max_increase: {{relative: 0.2, absolute: 0.005}}
"""
_UNANSWERED = """\
  - id: unanswered
    metric: unanswered
    over: {over}
    max_increase: {{relative: 0.2, absolute: 0.005}}
"""
_STRATA = """\
  - id: error_gap
    metric: error_gap
    attributes: [{attribute}]
    max_increase: {{relative: 0.2, absolute: 0.005}}
"""
_CIE = """\
  - {id: cie, metric: cie_share_excess, max: 0.01}
"""
_CHANGED = """\
  - {{id: changed, metric: labels_changed, over: {over}, max: 0.01}}
"""
_MEANS = """\
  - id: mean_{over}
    metric: mean_score
    over: {over}
    max_worse: {{relative: 0.05}}
"""
_CLASSES = """\
  - {id: classes, metric: classes_hurt, margin: 0.01}
"""


def default_rules(
    *,
    positive: bool,
    groups: bool = True,
    shipped: bool = False,
    labelled: bool = True,
    scored: bool = False,
    unanswered: bool = False,
    one_label: bool = False,
    strata: str | None = None,
) -> GateRules:
    """The rules that hold where no file is given.

    No group's rate rises by more than a fifth and half a point, a dense and a compressed model
    differ on no more than 1% of the examples beyond what two dense models do, no class loses a
    point of recall beyond the loss of accuracy. Without labels there is only the second of these;
    where it has no floor, no more than 1% of a group's predictions change. Of scores no group's
    mean gets more than 5% worse.

    Args:
        positive: The audit names a positive class, so that FPR and FNR of a group are one number
            each, and those of all examples are the recalls of both classes; else the error of every
            group is judged, and every class.
        groups: The audit has groups; without any, the rates of all examples are judged.
        shipped: Fewer than 5 models a side: their flips have no floor, so that no rule asks how far
            they exceed it.
        labelled: The examples have labels.
        scored: They have scores of the models instead of classes.
        unanswered: Some have no answer, whose share is then judged as the error is.
        one_label: All have the same label, whose recall is the accuracy: answers are right or
            wrong, and judged over all examples and every group.
        strata: The attribute whose values ask the same of every cluster; None where none does.

    >>> [rule.id for rule in default_rules(positive=True).rules]
    ['fpr_groups', 'fnr_groups', 'cie']
    >>> [rule.id for rule in default_rules(positive=False, groups=False).rules]
    ['error_all', 'cie', 'classes']
    >>> [rule.id for rule in default_rules(positive=False, shipped=True).rules]
    ['error_groups', 'classes']
    >>> [rule.id for rule in default_rules(positive=False, shipped=True, labelled=False).rules]
    ['changed']
    >>> [rule.id for rule in default_rules(positive=False, shipped=True, one_label=True).rules]
    ['error_all', 'error_groups']
    """
    over = "groups" if groups else "all"
    silent = _UNANSWERED.format(over=over) if unanswered else ""
    if scored:
        return parse_rules(f"rules:\n{_MEANS.format(over=over)}", "the default rules")
    if not labelled:
        text = _CHANGED.format(over=over) if shipped else _CIE
        return parse_rules(f"rules:\n{text}{silent}", "the default rules")
    names = ["fpr", "fnr"] if positive else ["error"]
    places = dict.fromkeys(["all", over] if one_label and not positive else [over])
    text = "".join(_RATES.format(name=name, over=place) for place in places for name in names)
    text += "" if shipped else _CIE
    text += ("" if positive or one_label else _CLASSES) + silent
    text += "" if strata is None else _STRATA.format(attribute=json.dumps(strata))
    return parse_rules(f"rules:\n{text}", "the default rules")


def load_rules(path: Path) -> GateRules:
    """Read and check the YAML file of a gate.

    Args:
        path: The file.

    Returns:
        The rules, every default filled in.

    Raises:
        ConfigError: The file cannot be read or breaks a rule; every fault is named with its line.
    """
    return parse_rules(file_text(path, "gate file"), str(path))


def chosen_rules(path: Path | None, margin: float | None = None) -> GateRules | None:
    """The rules of a file, or the default rules with another margin; None where they hold as is.

    The path `built-in` is no file, but the default rules.

    Raises:
        ConfigError: A file and a margin.
    """
    if path is None or str(path) == BUILT_IN:
        return None if margin is None else GateRules(margin=margin)
    if margin is not None:
        raise ConfigError("rules and margin exclude each other; write the margin into the rules")
    return load_rules(path)


def day(text: str | None) -> datetime.date:
    """The day that `--as-of` names, else the date.

    >>> day("2027-03-01")
    datetime.date(2027, 3, 1)
    """
    if text is None:
        return datetime.date.today()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--as-of must be a day such as 2027-03-01, got {text!r}") from error


def parse_rules(text: str, origin: str) -> GateRules:
    r"""Check the text of a gate file; `origin` is what messages call it.

    >>> parse_rules("alpha: 0.05\nrules: [{id: cie, metric: cie_share_excess, max: 1}]", "g.yaml")
    Traceback (most recent call last):
    ...
    scotoma.errors.ConfigError: g.yaml:2 rules.0.max must be less than 1.0, got 1
    """
    return checked(text, origin, GateRules, "the gate file", {"rules": METRICS}, _of_metrics)


def _of_metrics(path: str, location: Location, fault: dict[str, Any]) -> str:
    """What is wrong with the metric of a rule; empty for other faults."""
    if fault["type"] == "union_tag_not_found":
        return f"{path}.metric is missing; it is one of {SOME_METRICS}"
    if fault["type"] != "union_tag_invalid":
        return ""
    name = fault["ctx"]["tag"]
    if meant := twins(name):
        fair = " or ".join(f"{one}, fair at {neutral(one):g}" for one in meant)
        return f"{path}.metric must say which {name}, got {name!r}; write {fair}"
    near = nearest(name, METRICS)
    return f"{path}.metric must be one of {SOME_METRICS}, got {name!r}{near}"


NAMED_AT_MOST = 5  # of what there is, where no name is near


def refuse_unfit_rules(
    rules: GateRules, keys: Iterable[str], *, labelled: bool, scored: bool
) -> None:
    """Refuse rules for groups, classes or labels that there are not.

    Args:
        rules: The gate.
        keys: Keys of the groups of the test examples, such as `sex=male`.
        labelled: Whether these have labels.
        scored: Whether they have scores instead of classes.

    Raises:
        DataError: There is one; it tells which, where it stands and what it may have meant.

    >>> built_in = default_rules(positive=False)
    >>> refuse_unfit_rules(built_in, ["all"], labelled=False, scored=False)
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: rule 'error_groups' needs labels, and the test examples have none; \
ask cie_share_excess or labels_changed
    >>> refuse_unfit_rules(built_in, ["all"], labelled=True, scored=True)
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: rule 'error_groups' asks for error, and the examples have scores and \
no classes; ask for mean_score
    >>> text = "{must: [sexx], rules: [{id: cie, metric: cie_share_excess, max: 0.1}]}"
    >>> rules = parse_rules(text, "gate.yaml")
    >>> refuse_unfit_rules(rules, ["all", "sex=male"], labelled=True, scored=False)
    Traceback (most recent call last):
    ...
    scotoma.errors.DataError: must names 'sexx', which no test example has; did you mean 'sex'?
    """
    _refuse_unknown_groups(rules, keys)
    for rule in rules.rules:
        called = f"rule {printable(rule.id)!r}"
        if isinstance(rule, ScoreRule) is not scored:
            has = "classes and no scores; ask for error, fpr or fnr"
            has = "scores and no classes; ask for mean_score" if scored else has
            raise DataError(f"{called} asks for {rule.metric}, and the examples have {has}")
        if not (labelled or scored or rule.metric in UNLABELLED):
            raise DataError(
                f"{called} needs labels, and the test examples have none; ask cie_share_excess or "
                "labels_changed"
            )


def _refuse_unknown_groups(rules: GateRules, keys: Iterable[str]) -> None:
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
