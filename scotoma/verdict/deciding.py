"""From evidence to PASS, UNSURE or FAIL: p-values, their family, the interval that decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.config.gate import GateRules, Waiver
from scotoma.numbers import Estimate
from scotoma.verdict.level import Level
from scotoma.verdict.next_runs import level_outlook
from scotoma.verdict.outlook import Outlook, outlook
from scotoma.verdict.question import Question

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

    kind: Literal["relative", "absolute", "score", "level"]
    margin: float
    estimate: Estimate
    subject: str = ""


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
    harm = np.array([_harm_p(question, rules) for question in family])
    times = multipliers(harm, rules.correct)
    findings = [
        _answer(question, rules, float(p), float(multiplier))
        for question, p, multiplier in zip(family, harm, times, strict=True)
    ]
    opened = sum(finding.verdict == "UNSURE" for finding in findings)
    return [
        replace(
            finding,
            outlook=level_outlook(finding.question.level, alpha=rules.alpha, together=opened)
            if finding.question.level is not None
            else outlook(
                finding.question,
                alpha=rules.alpha,
                multiplier=1.0 if math.isnan(multiplier) else float(multiplier),
                together=opened,
                min_events=rules.min.effective_events,
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


def _harm_p(question: Question, rules: GateRules) -> float:
    """P-value of harm; nan where too little is known to show any."""
    if question.level is not None:
        few = _too_few_models(question, rules)
        return math.nan if few else question.level.harm_p(rules.min.effective_events)
    change = question.change
    if change is None or _too_few_models(question, rules):
        return math.nan
    least = rules.min.effective_events
    if question.events < least:
        return math.nan
    p = [estimate.p_above(margin) for _, estimate, margin in question.harm_margins(least)]
    return math.nan if not p or any(map(math.isnan, p)) else max(p)


def _answer(question: Question, rules: GateRules, harm: float, multiplier: float) -> Finding:
    tail = rules.alpha / 2
    adjusted = min(harm * multiplier, 1.0)  # in this order nan stays nan
    if question.level is not None:
        return _of_level(question, question.level, rules, harm, multiplier)
    if adjusted <= tail:
        clear = min((e.p_below(m) for _, e, m in question.clearing_margins), default=math.nan)
        return Finding(
            question, "FAIL", harm, adjusted, clear, _harmful(question, rules, tail / multiplier)
        )
    cleared = [] if _too_few_models(question, rules) else question.clearing_margins
    best = min(cleared, key=lambda margin: margin[1].p_below(margin[2]), default=None)
    clear = math.nan if best is None else best[1].p_below(best[2])
    finding = Finding(question, "PASS" if clear <= tail else "UNSURE", harm, adjusted, clear)
    if question.not_judged:
        return replace(finding, verdict="NOT JUDGED", reason=question.not_judged)
    if best is None:
        return replace(finding, reason=_unknown(question, rules))
    kind, estimate, margin = best
    finding = replace(finding, deciding=Deciding(kind, margin, _at(estimate, tail)))
    if finding.verdict == "PASS" or not question.beyond:
        return finding
    # What decides is whether harm is shown: its interval, or why there can be none.
    if math.isnan(harm):
        return replace(finding, reason=_unshown(question, rules))
    return replace(finding, deciding=_harmful(question, rules, tail / multiplier))


def _of_level(
    question: Question, level: Level, rules: GateRules, harm: float, multiplier: float
) -> Finding:
    tail = rules.alpha / 2
    adjusted = min(harm * multiplier, 1.0)
    few = _too_few_models(question, rules)
    clear = math.nan if few else level.clear_p
    finding = Finding(question, "PASS" if clear <= tail else "UNSURE", harm, adjusted, clear)
    if level.of == "labels" and level.mean is not None and not math.isnan(level.mean.value):
        # The training data are what they are: counted, not estimated.
        value = replace(level.mean, low=math.nan, high=math.nan, note="counted, not estimated")
        counted = Deciding("level", level.limit, value, "the training data")
        verdict: Outcome = "FAIL" if level.breaks(level.mean.value) else "PASS"
        return replace(finding, verdict=verdict, deciding=counted)
    if adjusted <= tail:
        bound = level.harm
        assert bound is not None
        deciding = Deciding("level", level.limit, bound.at(tail / multiplier), bound.subject)
        return replace(finding, verdict="FAIL", deciding=deciding)
    if level.clearing is None or level.outside or few:
        return replace(finding, reason=_unknown(question, rules))
    held = level.clearing.at(tail, jointly=True)
    return replace(finding, deciding=Deciding("level", level.limit, held, level.clearing.subject))


def _harmful(question: Question, rules: GateRules, chance: float) -> Deciding:
    """The interval that shows harm, or would: of the margins the one that is hardest to exceed."""
    margins = question.harm_margins(rules.min.effective_events)
    kind, estimate, margin = max(margins, key=lambda one: one[1].p_above(one[2]))
    return Deciding(kind, margin, _at(estimate, chance))


def _unshown(question: Question, rules: GateRules) -> str:
    """Say why no harm can be shown of a rise that lies beyond its margins."""
    events = question.events
    if events < rules.min.effective_events:
        return (
            f"{math.floor(events):,} effective events are too few to show harm "
            f"({rules.min.effective_events:g} are needed)"
        )
    return ""


def _too_few_models(question: Question, rules: GateRules) -> bool:
    members = _members(question)
    return members is not None and members < rules.min.models


def _members(question: Question) -> int | None:
    """Models that a question rests on; None where it rests on none."""
    if question.level is not None:
        return None if question.level.of == "labels" else question.level.members
    return None if question.change is None else question.change.absolute.members


def _unknown(question: Question, rules: GateRules) -> str:
    """Say why a question has no interval to judge by."""
    change = question.change
    if question.level is not None and question.reason:
        return question.reason
    if change is not None and math.isnan(change.absolute.value):
        return change.absolute.reason
    if _too_few_models(question, rules):
        members = _members(question)
        noun = "model" if members == 1 else "models"
        return f"{members} {noun} a variant, min.models asks for {rules.min.models}"
    if change is None:
        return question.reason
    return next((e.reason for _, e, _ in question.margins if e.reason), "no interval")


def _at(estimate: Estimate, chance: float) -> Estimate:
    """Give the interval whose end meets a margin where the p-value meets `chance`."""
    # Bounds where nothing was seen hold one side at their level, t intervals each side at half.
    return estimate.at(1 - (chance if estimate.scale == "rule of three" else 2 * chance))
