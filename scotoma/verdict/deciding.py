"""From evidence to PASS, UNSURE or FAIL: p-values, their family, the interval that decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scotoma.audit.gate import TestResult
from scotoma.config.gate import GateRules
from scotoma.numbers import multipliers
from scotoma.verdict.evidence import null_if_nan
from scotoma.verdict.outlook import outlook
from scotoma.verdict.question import Question


def decide(family: Sequence[Question], rules: GateRules) -> list[TestResult]:
    """Answer every question about one variant; together they are one family.

    A question with both margins is one hypothesis. Harm needs both exceeded, so the larger p-value
    counts; noninferiority needs one of them kept, so the smaller counts. FAIL where the harm
    p-value, adjusted over the family, is at most alpha/2. PASS where the noninferiority p-value is,
    unadjusted, since a variant passes only if all do; its absolute margin is at least the sampling
    margin. NOT JUDGED where the test set was too small before anything was compressed. UNSURE
    otherwise.

    The interval that decides is beyond the rule's margin in a FAIL; inside the margin that clears
    in a PASS. In an UNSURE it holds a margin: the rule's, at the level of a FAIL, where the
    estimate lies beyond; else the margin that clears, at the level of a PASS.

    Args:
        family: The questions.
        rules: Levels, correction and minima.

    Returns:
        A test a question, in their order.

    References:
        Berger (1982), Technometrics 24:295-300; Holm (1979), Scandinavian Journal of Statistics
        6:65-70.
    """
    least = rules.min.effective_events
    harm = [math.nan if _few_models(one, rules) else one.harm(least)[0] for one in family]
    times = multipliers(harm, rules.correct).tolist()
    tests = [_answer(*one, rules) for one in zip(family, harm, times, strict=True)]
    opened = sum(test.verdict == "UNSURE" for test in tests)
    for place, (test, question, own) in enumerate(zip(tests, family, times, strict=True)):
        if test.verdict == "UNSURE" and test.decided_by is not None:
            multiplier = 1.0 if math.isnan(own) else own
            settles = outlook(question, alpha=rules.alpha, multiplier=multiplier, together=opened)
            tests[place] = test.model_copy(update={"outlook": settles})
    return tests


def _answer(question: Question, harm: float, multiplier: float, rules: GateRules) -> TestResult:
    tail, least, level = rules.alpha / 2, rules.min.effective_events, question.test.level
    few = _few_models(question, rules)
    best = min(() if few else question.clears, key=lambda one: one.p_within, default=None)
    clear = math.nan if best is None else best.p_within
    adjusted = min(harm * multiplier, 1.0)  # in this order nan stays nan
    shown = question.harm(least)[1]

    def answer(verdict: str, bound: Any = None, interval: Any = None, why: str = "") -> TestResult:
        decided = None if bound is None else bound.decides(interval or bound.at(tail / multiplier))
        known = zip(
            ("harm_p", "harm_p_adjusted", "noninferiority_p"),
            map(null_if_nan, (harm, adjusted, clear)),
            strict=True,
        )
        return question.test.model_copy(
            update={"verdict": verdict, "reason": why, "decided_by": decided, **dict(known)}
        )

    if (counted := question.counted) is not None:
        return answer("FAIL" if counted.broken else "PASS", counted, counted.estimate)
    if adjusted <= tail:
        return answer("FAIL", shown)
    if question.not_judged:
        return answer("NOT JUDGED", why=question.not_judged)
    if best is None:
        first = level is not None or question.number is None or math.isnan(question.number.value)
        return answer("UNSURE", why=(question.reason if first else "") or few or question.reason)
    deciding = best.at(tail, jointly=True)
    if clear <= tail:
        return answer("PASS", best, deciding)
    if level is not None or not all(one.broken for one in question.clears):
        return answer("UNSURE", best, deciding)
    # What decides is whether harm is shown: its interval, or why there can be none.
    if not math.isnan(harm):
        return answer("UNSURE", shown)
    why = f"{math.floor(question.events):,} effective events are too few to show harm "
    why += f"({least:g} are needed)"
    return answer("UNSURE", best, deciding, why if question.events < least else "")


def _few_models(question: Question, rules: GateRules) -> str:
    """Say that a question rests on fewer models than the rules ask for; empty where it does not."""
    members, least = None if question.number is None else question.number.members, rules.min.models
    if members is None or members >= least:
        return ""
    noun = "model" if members == 1 else "models"
    return f"{members} {noun} a variant, min.models asks for {least}"
