"""From evidence to PASS, UNSURE or FAIL: p-values, their family, the interval that decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from scotoma.config.gate import GateRules, Waiver
from scotoma.uncertainty import Estimate
from scotoma.verdict.questions import Question

if TYPE_CHECKING:
    from scotoma.power import MembersRange

__all__ = ["Correction", "Deciding", "Finding", "Verdict", "decide", "multipliers"]

Verdict = Literal["PASS", "UNSURE", "FAIL"]
Correction = Literal["holm", "bh", "none"]


@dataclass(frozen=True)
class Deciding:
    """The interval that decided, or that shows why nothing could be decided.

    Beyond the margin in a FAIL, inside in a PASS, across it in an UNSURE.

    Attributes:
        kind: `relative` or `absolute`: of two margins the one that the verdict hangs on.
        margin: The margin, in the unit of the estimate: per cent, or a fraction.
        estimate: The change with its interval at the level that decides.
    """

    kind: Literal["relative", "absolute"]
    margin: float
    estimate: Estimate


@dataclass(frozen=True)
class Finding:
    """One question answered.

    Attributes:
        question: The question.
        verdict: The answer.
        harm_p: One-sided p-value that the margins are exceeded; nan where it was not tested.
        harm_p_adjusted: The same, adjusted over the variant's tests.
        noninferiority_p: P-value that they are not exceeded.
        deciding: The interval that decided; None where nothing was tested.
        needed: How many members would decide; None where something was decided, or it is not
            members that are missing.
        reason: Why it was not tested, as a sentence to print; else empty.
        waiver: The waiver that lets the variant break this rule, if one holds.
    """

    question: Question
    verdict: Verdict
    harm_p: float
    harm_p_adjusted: float
    noninferiority_p: float
    deciding: Deciding | None = None
    needed: MembersRange | None = None
    reason: str = ""
    waiver: Waiver | None = None


def decide(family: Sequence[Question], rules: GateRules) -> list[Finding]:
    """Answer every question about one variant; together they are one family.

    A question with both margins is one hypothesis. Harm needs both exceeded, so the larger p-value
    counts; noninferiority needs one of them kept, so the smaller counts, twice. FAIL where the harm
    p-value, adjusted over the family, is at most alpha/2. PASS where the noninferiority p-value is,
    unadjusted, since a variant passes only if all do. UNSURE otherwise, and where there are too few
    effective events or members.

    Args:
        family: The questions.
        rules: Levels, correction and minima.

    Returns:
        A finding a question, in their order.

    References:
        Berger (1982), Technometrics 24:295-300; Holm (1979), Scandinavian Journal of Statistics
        6:65-70.
    """
    reasons = [_untested(question, rules) for question in family]
    harm = np.array(
        [math.nan if why else _harm_p(q) for q, why in zip(family, reasons, strict=True)]
    )
    times = multipliers(harm, rules.correct)
    return [
        _unanswered(question, rules, why) if why else _answer(question, rules, float(p), float(m))
        for question, why, p, m in zip(family, reasons, harm, times, strict=True)
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


def _untested(question: Question, rules: GateRules) -> str:
    """Say why a question cannot be tested; empty where it can."""
    change = question.change
    if change is None:
        return question.reason
    if math.isnan(change.absolute.value):
        return change.absolute.reason
    if change.absolute.members < rules.min.models:
        members, least = change.absolute.members, rules.min.models
        if members == 1:
            return f"1 model a variant, min.models asks for {least} (1 judges these very models)"
        return f"{members} models a variant, min.models asks for {least}"
    if change.events < rules.min.effective_events:
        # Rounded down, so that 9.8 of 10 is not called 10.
        events = math.floor(change.events)
        noun = "event" if events == 1 else "events"
        least_events = f"{rules.min.effective_events:g}"
        return f"{events:,} effective {noun}, min.effective_events asks for {least_events}"
    if math.isnan(_harm_p(question)):
        return next(e.reason for _, e, _ in question.margins if math.isnan(e.low)) or "no interval"
    return ""


def _harm_p(question: Question) -> float:
    if question.change is None:
        return math.nan
    return question.change.harm_p(question.relative, question.absolute)


def _unanswered(question: Question, rules: GateRules, reason: str) -> Finding:
    change, needed = question.change, None
    if change is not None and rules.min.models <= change.absolute.members:
        needed = _needed(question, rules, 1.0)
    return Finding(question, "UNSURE", math.nan, math.nan, math.nan, needed=needed, reason=reason)


def _answer(question: Question, rules: GateRules, harm: float, multiplier: float) -> Finding:
    assert question.change is not None
    margins = question.margins
    noninferiority = question.change.noninferiority_p(question.relative, question.absolute)
    tail = rules.alpha / 2
    adjusted = min(1.0, harm * multiplier)
    worst = max(margins, key=lambda margin: margin[1].p_above(margin[2]))
    best = min(margins, key=lambda margin: margin[1].p_below(margin[2]))
    verdict: Verdict = (
        "FAIL" if adjusted <= tail else "PASS" if noninferiority <= tail else "UNSURE"
    )
    chances = {"FAIL": tail / multiplier, "PASS": tail / len(margins)}
    chance = chances.get(verdict, min(chances.values()))
    name, estimate, margin = best if verdict == "PASS" else worst
    return Finding(
        question=question,
        verdict=verdict,
        harm_p=harm,
        harm_p_adjusted=adjusted,
        noninferiority_p=noninferiority,
        deciding=Deciding(name, margin, _at(estimate, chance)),
        needed=_needed(question, rules, multiplier) if verdict == "UNSURE" else None,
    )


def _at(estimate: Estimate, chance: float) -> Estimate:
    """Give the interval whose end meets a margin where the p-value meets `chance`."""
    # Bounds where nothing was seen hold one side at their level, t intervals each side at half.
    return estimate.at(1 - (chance if estimate.scale == "rule of three" else 2 * chance))


def _needed(question: Question, rules: GateRules, multiplier: float) -> MembersRange | None:
    """Say how many members would decide, on the side of the margins where the estimate lies."""
    from scotoma.power import members_needed  # SciPy comes with it

    change = question.change
    assert change is not None
    variances = {"relative": change.relative_variance, "absolute": change.absolute_variance}
    if any(math.isnan(variances[name].total) for name, _, _ in question.margins):
        return None
    harm = all(estimate.value >= margin for _, estimate, margin in question.margins)
    needed = members_needed(
        replace(change, group=question.where),
        relative=question.relative,
        absolute=question.absolute,
        level=1 - rules.alpha / (multiplier if harm else 1.0),
        min_events=rules.min.effective_events,
    )
    return None if needed.decided else needed
