"""From evidence to PASS, UNSURE or FAIL: p-values, their family, the interval that decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.config.gate import GateRules, Waiver
from scotoma.numbers import Estimate
from scotoma.verdict.outlook import Outlook, outlook
from scotoma.verdict.question import Bound, Kind, Level, Question

__all__ = ["Correction", "Deciding", "Finding", "Outcome", "Verdict", "decide", "multipliers"]

Verdict = Literal["PASS", "UNSURE", "FAIL"]
Outcome = Literal["PASS", "UNSURE", "FAIL", "NOT JUDGED"]
Correction = Literal["holm", "bh", "none"]


@dataclass(frozen=True)
class Deciding:
    """The interval that decided, or that shows why nothing could be decided.

    Beyond the rule's margin in a FAIL; inside the margin that clears in a PASS. In an UNSURE it
    holds a margin: the rule's, at the level of a FAIL, where the estimate lies beyond; else the
    margin that clears, at the level of a PASS.

    Attributes:
        kind: `relative`, `absolute` or `score` (a difference of fractions, or in the unit of a
            score): of two margins the one that the verdict hangs on. `level`: a limit of the number
            itself.
        margin: The margin or limit, in the unit of the estimate: per cent, or a fraction.
        estimate: The change, or the number, with its interval at the level that decides.
        subject: Of a level: what has the number; else empty.
    """

    kind: Kind
    margin: float
    estimate: Estimate
    subject: str = ""

    @classmethod
    def of(cls, bound: Bound, estimate: Estimate) -> Deciding:
        """The interval of a bound, at the level that decides."""
        return cls(bound.kind, bound.limit, estimate, bound.subject)


@dataclass(frozen=True)
class Finding:
    """One question answered.

    Attributes:
        question: The question.
        verdict: The answer; `NOT JUDGED` where the test set was too small before compression.
        harm_p: One-sided p-value that the margins are exceeded; nan where too little is known to
            show harm.
        harm_p_adjusted: The same, adjusted over the variant's tests.
        noninferiority_p: P-value that they are not exceeded; nan without interval.
        deciding: The interval that decided; None where there is none.
        outlook: What would settle an UNSURE; None where it is settled, or there is no interval.
        reason: Why it was not judged, or why no harm can be shown of a rise beyond its margins, as
            a sentence to print; else empty.
        waiver: The waiver that lets the variant break this rule, if one holds.
    """

    question: Question
    verdict: Outcome
    harm_p: float
    harm_p_adjusted: float
    noninferiority_p: float
    deciding: Deciding | None = None
    outlook: Outlook | None = None
    reason: str = ""
    waiver: Waiver | None = None


def decide(family: Sequence[Question], rules: GateRules) -> list[Finding]:
    """Answer every question about one variant; together they are one family.

    A question with both margins is one hypothesis. Harm needs both exceeded, so the larger p-value
    counts; noninferiority needs one of them kept, so the smaller counts. FAIL where the harm
    p-value, adjusted over the family, is at most alpha/2. PASS where the noninferiority p-value is,
    unadjusted, since a variant passes only if all do; its absolute margin is at least the sampling
    margin. NOT JUDGED where the test set was too small before anything was compressed. UNSURE
    otherwise.

    Args:
        family: The questions.
        rules: Levels, correction and minima.

    Returns:
        A finding a question, in their order.

    References:
        Berger (1982), Technometrics 24:295-300; Holm (1979), Scandinavian Journal of Statistics
        6:65-70.
    """
    least = rules.min.effective_events
    harm = np.array(
        [math.nan if _too_few_models(one, rules) else one.harm_p(least) for one in family]
    )
    times = multipliers(harm, rules.correct)
    findings = [
        _answer(question, rules, float(p), float(multiplier))
        for question, p, multiplier in zip(family, harm, times, strict=True)
    ]
    opened = sum(finding.verdict == "UNSURE" for finding in findings)
    return [
        replace(
            finding,
            outlook=outlook(
                finding.question,
                alpha=rules.alpha,
                multiplier=1.0 if math.isnan(multiplier) else float(multiplier),
                together=opened,
                min_events=least,
            ),
        )
        if finding.verdict == "UNSURE" and finding.deciding is not None
        else finding
        for finding, multiplier in zip(findings, times, strict=True)
    ]


def multipliers(p: npt.ArrayLike, correct: Correction) -> npt.NDArray[np.float64]:
    """Compute what each p-value is multiplied with when it is adjusted, before it is cut at 1.

    An interval at level 1 - alpha/multiplier then lies beyond a margin where the adjusted p-value
    is at most alpha/2, and only there.

    Args:
        p: P-values of one family, shape (M,); nan means "not tested" and does not count.
        correct: `holm`, `bh` (Benjamini-Hochberg) or `none`.

    Returns:
        Numbers of at least 1, shape (M,), nan where p is nan.

    References:
        Holm (1979), Scandinavian Journal of Statistics 6:65-70; Benjamini and Hochberg (1995),
        JRSS B 57:289-300.

    >>> multipliers([0.01, 0.04, 0.03, float("nan")], "holm").tolist()
    [3.0, 1.5, 2.0, nan]
    """
    values = np.asarray(p, np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    factors = np.full(values.shape, np.nan)
    order = tested[np.argsort(values[tested], kind="stable")]
    size, ranked = len(order), values[order]
    if correct == "holm":
        own = np.arange(size, 0, -1.0)
        steps = np.maximum.accumulate(ranked * own)
    elif correct == "bh":
        own = size / np.arange(1.0, size + 1)
        steps = np.minimum.accumulate((ranked * own)[::-1])[::-1]
    else:
        own, steps = np.ones(size), ranked
    # The p-values before or behind a p-value can decide for it; of p = 0 only its own rank can.
    factors[order] = np.where(ranked > 0, steps / np.where(ranked > 0, ranked, 1.0), own)
    return factors


def _answer(question: Question, rules: GateRules, harm: float, multiplier: float) -> Finding:
    tail, least = rules.alpha / 2, rules.min.effective_events
    adjusted = min(harm * multiplier, 1.0)  # in this order nan stays nan
    clears = [] if _too_few_models(question, rules) else question.clears
    best = min(clears, key=lambda one: one.p_within, default=None)
    clear = math.nan if best is None else best.p_within
    answer = partial(
        Finding, question, harm_p=harm, harm_p_adjusted=adjusted, noninferiority_p=clear
    )
    if question.level is not None and (counted := _counted(question.level)) is not None:
        verdict: Outcome = "FAIL" if counted.broken else "PASS"
        return answer(verdict, deciding=Deciding.of(counted, counted.estimate))
    if adjusted <= tail:
        return answer("FAIL", deciding=_shown(question, least, tail / multiplier))
    if question.not_judged:
        return answer("NOT JUDGED", reason=question.not_judged)
    if best is None:
        return answer("UNSURE", reason=_unknown(question, rules))
    deciding = Deciding.of(best, best.at(tail, jointly=True))
    if clear <= tail:
        return answer("PASS", deciding=deciding)
    if question.level is not None or not all(one.broken for one in clears):
        return answer("UNSURE", deciding=deciding)
    # What decides is whether harm is shown: its interval, or why there can be none.
    if not math.isnan(harm):
        return answer("UNSURE", deciding=_shown(question, least, tail / multiplier))
    few = f"{math.floor(question.events):,} effective events are too few to show harm "
    few += f"({least:g} are needed)"
    return answer("UNSURE", deciding=deciding, reason=few if question.events < least else "")


def _shown(question: Question, least: float, chance: float) -> Deciding:
    """The interval that shows harm, or would."""
    bound = question.harm(least)
    return Deciding.of(bound, bound.at(chance))


def _counted(level: Level) -> Bound | None:
    """The number of the training data, which are what they are: counted, not estimated."""
    if level.of != "labels" or level.mean is None or math.isnan(level.mean.value):
        return None
    value = replace(level.mean, low=math.nan, high=math.nan, note="counted, not estimated")
    return Bound("level", value, level.limit, level.side, subject="the training data")


def _too_few_models(question: Question, rules: GateRules) -> bool:
    return question.members is not None and question.members < rules.min.models


def _unknown(question: Question, rules: GateRules) -> str:
    """Say why a question has no interval to judge by."""
    change, members = question.change, question.members
    if question.level is not None and question.reason:
        return question.reason
    if change is not None and math.isnan(change.absolute.value):
        return change.absolute.reason
    if _too_few_models(question, rules):
        noun = "model" if members == 1 else "models"
        return f"{members} {noun} a variant, min.models asks for {rules.min.models}"
    if change is None:
        return question.reason
    return next((r for one in question.margins if (r := one.estimate.reason)), "no interval")
