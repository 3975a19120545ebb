"""How a verdict is said: numbers with their interval and limit, and what it would take."""

from __future__ import annotations

import math

from scotoma.printable import printable
from scotoma.uncertainty import Estimate
from scotoma.verdict.deciding import Finding
from scotoma.verdict.gate import Gate, VariantVerdict

__all__ = ["amount", "interval", "level_words", "limits", "scope_words", "sentences", "why"]

SHOWN = 3  # findings named beside a verdict; gate.json has them all


def amount(value: float, limit: str) -> str:
    """A change in the unit of a limit: per cent of the dense rate, or percentage points.

    >>> amount(102.3, "relative"), amount(-0.0123, "absolute"), amount(math.inf, "relative")
    ('+102%', '-1.23 points', '+∞%')
    """
    return f"{_digits(value, limit)}{_unit(limit)}"


def interval(estimate: Estimate, limit: str) -> str:
    """A change with its interval, or without where it has none.

    >>> found = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
    >>> interval(found, "absolute")
    '+2.00 [+0.87, +3.13] points'
    """
    if math.isnan(estimate.value):
        return "undefined"
    if math.isnan(estimate.low):
        return amount(estimate.value, limit)
    shown = [_digits(end, limit) for end in (estimate.value, estimate.low, estimate.high)]
    percent, points = ("%", "") if limit == "relative" else ("", " points")
    return f"{shown[0]}{percent} [{shown[1]}, {shown[2]}]{points}"


def limits(finding: Finding) -> str:
    """The limits of a question.

    >>> from scotoma.verdict.questions import Question
    >>> asked = Question("fpr", "fpr", "sex=male", None, "FPR male", 0.2, 0.005, None)
    >>> limits(Finding(asked, "UNSURE", math.nan, math.nan, math.nan))
    '+20% and +0.50 points'
    """
    asked = finding.question
    both = [] if asked.relative is None else [amount(100 * asked.relative, "relative")]
    both += [] if asked.absolute is None else [amount(asked.absolute, "absolute")]
    return " and ".join(both)


def level_words(level: float) -> str:
    """A level in per cent, with the digits that tell it from 100.

    >>> level_words(0.95), level_words(0.9944), level_words(0.999999)
    ('95%', '99.4%', '99.9999%')
    """
    digits = 1 if level < 0.999 else max(1, math.ceil(-math.log10(1 - level)) - 2 + 1)
    return f"{100 * level:.{min(digits, 12)}f}".rstrip("0").rstrip(".") + "%"


def why(finding: Finding) -> str:
    """What a finding rests on: the number at the level that decides beside its limit, or a reason.

    >>> from scotoma.verdict.questions import Question
    >>> asked = Question("s", "slices_hurt", "all", None, "slices", None, None, None, "no slices")
    >>> why(Finding(asked, "UNSURE", math.nan, math.nan, math.nan, reason="no slices"))
    'no slices'
    """
    deciding = finding.deciding
    if deciding is None:
        return finding.reason
    estimate = deciding.estimate
    return (
        f"{interval(estimate, deciding.kind)} at {level_words(estimate.level)}, limit "
        f"{amount(deciding.margin, deciding.kind)}"
    )


def sentences(variant: VariantVerdict) -> list[str]:
    """What is behind a verdict that is not PASS, a sentence each; none for a PASS.

    Args:
        variant: The verdict on one variant.

    Returns:
        Of a FAIL the worst findings; of an UNSURE what would decide it and why nothing did.
    """
    if variant.verdict == "FAIL":
        failed = [f for f in variant.counted if f.verdict == "FAIL"]
        failed.sort(key=lambda f: f.harm_p_adjusted)
        lines = [printable(f"{f.question.where} {why(f)} ({f.question.rule})") for f in failed]
        return _cut(lines)
    if variant.verdict == "UNSURE":
        return [_unsure(variant)]
    return []


def _unsure(variant: VariantVerdict) -> str:
    outlook = variant.outlook
    if outlook is not None:
        return printable(f"{outlook.question.where}: {outlook.needed}")
    opened = [f for f in variant.counted if f.verdict == "UNSURE"]
    reasons = list(dict.fromkeys(f.reason for f in opened if f.reason))
    if not reasons:
        return printable(f"{opened[0].question.where} {why(opened[0])}")
    shown = reasons[0]
    of = [f.question.where for f in opened if f.reason == shown]
    return printable(shown if len(of) == len(opened) > 1 else f"{of[0]}: {shown}")


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    if more <= 0:
        return lines
    return [*lines[:SHOWN], f"and {more} more {'tests fail' if more > 1 else 'test fails'}"]


def scope_words(gate: Gate) -> str:
    """What a verdict speaks of."""
    if gate.facts.scope == "shipped":
        return "These two models on another test set; nothing is said about another training run."
    return "Another training run, on another test set of this kind."


def _digits(value: float, limit: str) -> str:
    shown = value if limit == "relative" else 100 * value
    if math.isinf(shown):
        return "+∞" if shown > 0 else "-∞"
    if limit == "absolute":
        return f"{shown:+,.2f}" if abs(shown) >= 0.1 or shown == 0 else f"{shown:+.3f}"
    return f"{shown:+,.0f}" if abs(shown) >= 10 else f"{shown:+.1f}"


def _unit(limit: str) -> str:
    return "%" if limit == "relative" else " points"
