"""How do readers see the gate? Its rules in words, and the tests that did not pass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scotoma.audit.gate import DecidingInterval, JudgedVariant, LevelTest, TestResult
from scotoma.audit.groups import RATE_NAMES
from scotoma.config.gate import (
    ChangedRule,
    ChangeRule,
    CieRule,
    ClassesRule,
    GateRules,
    LevelRule,
    Rule,
    SincePreviousRule,
)
from scotoma.config.gate_levels import OF_LABELS
from scotoma.config.gate_scores import ScoreRule
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.document.cells import Shown
from scotoma.numbers import FEW_RUNS, few_runs
from scotoma.report import numbers

__all__ = ["OpenTest", "OpenTests", "certainty_words", "open_tests", "rule_words"]

MOST = 20  # tests of a variant in its table
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


@dataclass(frozen=True)
class OpenTest:
    """A test of the gate.

    Attributes:
        where: What is tested.
        rule: Name of its rule.
        verdict: The answer.
        change: The change with the interval that decides; None where nothing was tested.
        margin: Its margin.
        n: What it rests on.
        reason: Why it was not tested; empty otherwise.
        needed: What would decide it; empty where it is decided or not known.
        waived: Why it does not count; None where it does.
        waived_until: The last day of that.
    """

    where: str
    rule: str
    verdict: str
    change: Shown | None
    margin: str
    n: str
    reason: str
    needed: str
    waived: str | None
    waived_until: str | None


@dataclass(frozen=True)
class OpenTests:
    """What did not pass.

    Attributes:
        rows: The first tests, FAIL before UNSURE, the surest first.
        left_out: How many more there are.
    """

    rows: tuple[OpenTest, ...]
    left_out: int


def rule_words(rule: Rule) -> str:
    """Say a rule as a sentence.

    >>> from scotoma.config.gate import MaxIncrease
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


def open_tests(variant: JudgedVariant) -> OpenTests:
    """Pick the tests of a variant that did not pass.

    Args:
        variant: The verdict on it.
    """
    tests = [test for test in variant.tests if test.verdict in ("FAIL", "UNSURE")]
    tests.sort(key=lambda test: (test.verdict, _adjusted(test)))
    return OpenTests(tuple(map(_test, tests[:MOST])), max(0, len(tests) - MOST))


def _adjusted(test: TestResult) -> float:
    return 1.0 if test.harm_p_adjusted is None else test.harm_p_adjusted


def _test(test: TestResult) -> OpenTest:
    decided, margins = test.decided_by, test.margins
    both = []
    if margins.relative is not None:
        both.append(f"+{100 * margins.relative:g}%")
    if margins.absolute is not None:
        own = test.metric == "mean_score"
        both.append(f"{margins.absolute:+g}" if own else f"+{100 * margins.absolute:.2f} points")
    change, margin = None, " and ".join(both)
    absolute = test.absolute
    if test.level is not None:
        margin, absolute = f"{test.level.side} {test.level.limit:g}", test.level.mean
        change = None if decided is None else _held(decided, test.level)
    elif decided is not None:
        relative = decided.kind == "relative"
        change = _in_unit(decided)
        # The table says once above it that there were few training runs.
        few = few_runs(decided.interval.members)
        change = replace(change, notes=tuple(note for note in change.notes if note != few))
        margin = f"+{decided.margin:g}%" if relative else f"+{100 * decided.margin:.2f} points"
        margin = f"{decided.margin:+g}" if decided.kind == "score" else margin
    return OpenTest(
        test.where,
        test.rule,
        test.verdict,
        change,
        margin,
        "none" if absolute is None else numbers.count(absolute.n),
        test.reason or "not tested",
        "" if test.outlook is None else test.outlook.sentence,
        test.waived,
        test.waived_until,
    )


def _in_unit(decided: DecidingInterval) -> Shown:
    """The number that decided, in the unit of its margin."""
    if decided.kind == "score":
        return numbers.unitless_change(decided.interval)
    return (numbers.percent if decided.kind == "relative" else numbers.points)(decided.interval)


def _held(decided: DecidingInterval, level: LevelTest) -> Shown:
    """The number that decided, whose it is, and what the dense models have."""
    shown = numbers.unitless(decided.interval)
    notes = [decided.subject, *(note for note in shown.notes if note not in FEW_RUNS)]
    if level.dense is not None and level.dense.value is not None:
        notes.append(f"dense {numbers.unitless(level.dense).value}")
    return replace(shown, notes=tuple(notes))
