"""How does a rule of the gate read, and how certain has the gate to be?"""

from __future__ import annotations

from scotoma.audit.groups import RATE_NAMES
from scotoma.config.gate import GateRules, Rule
from scotoma.config.gate_changes import (
    ChangedRule,
    ChangeRule,
    CieRule,
    ClassesRule,
    ScoreRule,
    SincePreviousRule,
)
from scotoma.config.gate_levels import OF_LABELS, LevelRule
from scotoma.config.robustness import PicturesRule, RobustnessRule

OVER = {"groups": "any group", "classes": "any class", "all": "all examples together"}
BESIDE = {
    "overconfidence": "dense models in confidence less accuracy",
    "unnoticed_pictures": "dense models in telling clean pictures from corrupted ones",
}
CORRECTED = {
    "holm": "adjusted by Holm",
    "bh": "adjusted by Benjamini-Hochberg",
    "none": "unadjusted",
}


def rule_words(rule: Rule) -> str:
    """Say a rule as a sentence.

    >>> from scotoma.config.gate_changes import MaxIncrease
    >>> rule_words(ChangeRule(id="fpr", metric="fpr",
    ...                       max_increase=MaxIncrease(relative=0.2, absolute=0.005)))
    'the FPR of any group rises by more than 20.0% of what it was and by more than 0.50 points'
    >>> rule_words(CieRule(id="cie", metric="cie_share_excess", max=0.01))
    'CIEs beyond seed noise are more than 1.00% of the examples'
    >>> rule_words(LevelRule(id="di", metric="clarify.DI", attributes=["sex"], min=0.8))
    'clarify.DI of sex is not at least 0.8 in every model and in the worst of the next 16 training \
runs'
    """
    if isinstance(rule, ChangeRule):
        relative, absolute = rule.max_increase.relative, rule.max_increase.absolute
        parts = []
        if relative is not None:
            parts.append(f"by more than {100 * relative:.1f}% of what it was")
        if absolute is not None:
            parts.append(f"by more than {100 * absolute:.2f} points")
        what = RATE_NAMES[rule.metric]
        return f"the {what} of {OVER[rule.over]} rises {' and '.join(parts)}"
    if isinstance(rule, CieRule):
        return f"CIEs beyond seed noise are more than {100 * rule.max:.2f}% of the examples"
    if isinstance(rule, ChangedRule):
        return f"more than {100 * rule.max:.2f}% of the labels of {OVER[rule.over]} change"
    if isinstance(rule, LevelRule):
        return _level_words(rule)
    if isinstance(rule, RobustnessRule):
        what = "top-5 " if rule.top == 5 else ""
        what += "relative robustness" if rule.scale == "relative" else "accuracy"
        under = " or ".join(rule.kinds) if rule.kinds else "corruption"
        return (
            f"{OVER[rule.over]} loses more {what} under {under} than with dense models, by more "
            f"than {rule.max_increase.points:g} points"
        )
    if isinstance(rule, PicturesRule):
        under = f" under {' or '.join(rule.kinds)}" if rule.kinds else ""
        return (
            f"{OVER[rule.over]} fares worse than with {BESIDE[rule.metric]}{under}, by more than "
            f"{rule.max_increase.points:g} points"
        )
    if isinstance(rule, ScoreRule):
        relative, absolute = rule.max_worse.relative, rule.max_worse.absolute
        parts = [] if relative is None else [f"by more than {100 * relative:g}%"]
        parts += [] if absolute is None else [f"by more than {absolute:g}"]
        where = "a slice that nobody named" if rule.over == "slices" else OVER[rule.over]
        return f"the mean score of {where} gets worse {' and '.join(parts)}"
    points = f"{100 * rule.margin:.2f} points"
    if isinstance(rule, ClassesRule):
        return f"a class loses more recall than the model loses accuracy, by more than {points}"
    if isinstance(rule, SincePreviousRule):
        return (
            f"a group's rate or the CIE excess rose since the previous audit, by more than {points}"
        )
    return f"the error rises by more than {points} on a slice that nobody named"


def _level_words(rule: LevelRule) -> str:
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


def certainty_words(rules: GateRules) -> str:
    """Say how certain the gate has to be.

    >>> from scotoma.config.gate import default_rules
    >>> certainty_words(default_rules(positive=True))
    'FAIL needs 97.5% certainty, adjusted by Holm over the tests of a variant, and 10 effective \
events; PASS needs 97.5% for each, at a margin of at least two standard errors of the dense rate'
    """
    certain = f"{100 * (1 - rules.alpha / 2):g}%"
    if isinstance(rules.rules[0], ScoreRule):  # then all are
        return (
            f"FAIL needs {certain} certainty, {CORRECTED[rules.correct]} over the tests of a "
            f"variant, and {rules.min.effective_events:g} effective examples that carry the "
            f"change; PASS needs {certain} for each"
        )
    return (
        f"FAIL needs {certain} certainty, {CORRECTED[rules.correct]} over the tests of a variant, "
        f"and {rules.min.effective_events:g} effective events; PASS needs {certain} for each, at a "
        "margin of at least two standard errors of the dense rate"
    )
