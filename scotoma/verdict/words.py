"""How does a verdict read? Numbers with their interval and margin, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scotoma.answers.note import AdmissionNote
from scotoma.numbers import Estimate
from scotoma.printable import printable
from scotoma.verdict.deciding import Deciding, Finding
from scotoma.verdict.gate import Gate, VariantVerdict
from scotoma.verdict.question import Level

__all__ = [
    "admission_lines",
    "amount",
    "interval",
    "level_words",
    "limit_words",
    "margin_words",
    "scope_words",
    "sentences",
    "size_of",
    "why",
]

NOTES = 8  # notes of admission that are listed; audit.json has them all
SHOWN = 3  # findings named beside a verdict; gate.json has them all


def amount(value: float, kind: str) -> str:
    """Write a change in the unit of a margin: per cent of the dense rate, percentage points, score.

    >>> amount(102.3, "relative"), amount(-0.0123, "absolute"), amount(math.inf, "relative")
    ('+102%', '-1.23 points', '+∞%')
    >>> amount(0.8, "level")
    '0.800'
    >>> amount(-12.5, "score")
    '-12.5'
    """
    return f"{_digits(value, kind)}{_unit(kind)}"


def interval(estimate: Estimate, kind: str) -> str:
    """Write a change with its interval, or without where it has none.

    >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
    >>> interval(change, "absolute")
    '+2.00 [+0.87, +3.13] points'
    """
    if math.isnan(estimate.value):
        return "undefined"
    if math.isnan(estimate.low):
        return amount(estimate.value, kind)
    shown = [_digits(end, kind) for end in (estimate.value, estimate.low, estimate.high)]
    percent = "%" if kind == "relative" else ""
    points = " points" if kind == "absolute" else ""
    return f"{shown[0]}{percent} [{shown[1]}, {shown[2]}]{points}"


def margin_words(finding: Finding) -> str:
    """Write the margins of a question.

    >>> from scotoma.verdict.question import Question
    >>> question = Question("fpr", "fpr", "sex=male", None, "FPR male", 0.2, 0.005, None)
    >>> margin_words(Finding(question, "UNSURE", math.nan, math.nan, math.nan))
    '+20% and +0.50 points'
    """
    question = finding.question
    if question.level is not None:
        return limit_words(question.level)
    both = [] if question.relative is None else [amount(100 * question.relative, "relative")]
    both += [] if question.absolute is None else [amount(question.absolute, question.unit)]
    return " and ".join(both)


def limit_words(level: Level) -> str:
    """Write the limit of a level.

    >>> limit_words(Level("sex", "at least", 0.8, 1.0, "mean", 0, None, (), 16))
    'at least 0.800'
    """
    return f"{level.side} {amount(level.limit, 'level')}"


def level_words(level: float) -> str:
    """Write a level in per cent, with the digits that tell it from 100.

    >>> level_words(0.95), level_words(0.9944), level_words(0.999999)
    ('95%', '99.4%', '99.9999%')
    """
    digits = 1 if level < 0.999 else max(1, math.ceil(-math.log10(1 - level)) - 2 + 1)
    return f"{100 * level:.{min(digits, 12)}f}".rstrip("0").rstrip(".") + "%"


def why(finding: Finding) -> str:
    """Say what a finding rests on: the number at the deciding level beside its margin, or a reason.

    >>> from scotoma.verdict.question import Question
    >>> question = Question("s", "slices_hurt", "all", None, "", None, None, None, "no slices")
    >>> why(Finding(question, "UNSURE", math.nan, math.nan, math.nan, reason="no slices"))
    'no slices'
    """
    deciding = finding.deciding
    if deciding is None:
        return finding.reason
    estimate = deciding.estimate
    if finding.question.level is not None:
        return _why_level(finding.question.level, deciding)
    reason = f"; {finding.reason}" if finding.reason else ""
    return (
        f"{interval(estimate, deciding.kind)} at {level_words(estimate.level)}, margin "
        f"{amount(deciding.margin, deciding.kind)}{reason}"
    )


def _why_level(level: Level, deciding: Deciding) -> str:
    estimate = deciding.estimate
    text = f"{deciding.subject}: {interval(estimate, 'level')}"
    if level.of != "labels":
        text += f" at {level_words(estimate.level)}"
    text += f", limit {limit_words(level)}"
    if level.dense is not None and not math.isnan(level.dense.value):
        text += f"; dense {interval(level.dense, 'level')}"
    return text


def _tested(finding: Finding) -> str:
    """What was tested, and what the answer rests on."""
    comma = "," if finding.question.level is not None else ""
    return f"{finding.question.where}{comma} {why(finding)}"


def sentences(variant: VariantVerdict) -> list[str]:
    """Say what a verdict rests on, a sentence each.

    Args:
        variant: The verdict on one variant.

    Returns:
        The worst findings of a FAIL; for an UNSURE what admits no PASS, or what is open and what
        would settle it; for a PASS what was ruled out, and how finely.
    """
    if variant.verdict == "UNSURE" and variant.blocked:
        return [printable(sentence) for sentence in variant.blocked]
    return {"FAIL": _failed, "UNSURE": _unsure, "PASS": _passed}[variant.verdict](variant)


def too_small(variants: Sequence[VariantVerdict]) -> str:
    """Say once what no PASS of any variant rests on; empty where all is large enough to judge."""
    sizes = [size_of(finding) for variant in variants for finding in variant.too_small]
    names = list(dict.fromkeys(sizes))
    if not names:
        return ""
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return printable(f"Too small to judge: {', '.join(names[:SHOWN])}{more}.")


def admission_lines(notes: Sequence[AdmissionNote]) -> list[str]:
    """Tell what was folded, dropped, guessed or not read, and what admits no PASS: a line a note.

    >>> note = AdmissionNote(rule="reading", subject="age", sentence="age: 3 cells are blank")
    >>> admission_lines([note])
    ['age: 3 cells are blank']
    """
    whole = list(dict.fromkeys(note.sentence.rstrip(".") for note in notes))
    more = len(whole) - NOTES
    if more <= 0:
        return [printable(line) for line in whole]
    return [*map(printable, whole[:NOTES]), f"{more:,} more notes are in audit.json, admission"]


def size_of(finding: Finding) -> str:
    """Name what was too small to judge, with its size.

    >>> from scotoma.verdict.question import Question
    >>> question = Question("s", "slices_hurt", "all", None, "error IS", None, None, None)
    >>> size_of(Finding(question, "NOT JUDGED", math.nan, math.nan, math.nan))
    'error IS (no examples)'
    """
    number = finding.question.number
    n = 0 if number is None else number.n
    size = "no examples" if n == 0 else f"{n:,} example{'' if n == 1 else 's'}"
    return f"{finding.question.where} ({size})"


def _passed(variant: VariantVerdict) -> list[str]:
    passed = [f for f in variant.counted if f.verdict == "PASS"]
    if not passed:
        return [printable("every test is waived" if variant.findings else "no rule asked anything")]
    lines = [_levels_kept(levels)] if (levels := [f for f in passed if f.question.level]) else []
    passed = [f for f in passed if not f.question.level]
    if not passed:
        return lines
    absolute = [f for f in passed if f.deciding is not None and f.deciding.kind == "absolute"]
    coarsest = max(absolute, key=lambda f: f.deciding.margin if f.deciding else 0, default=None)
    count = len(passed)
    line = f"No rise beyond its margin in {'the' if count == 1 else 'any of'} {count:,} "
    line += f"test{'' if count == 1 else 's'}"
    if coarsest is not None and coarsest.deciding is not None:
        margin = f"{100 * coarsest.deciding.margin:.1f} points"
        line += f"; coarsest margin {margin} ({coarsest.question.where})"
    return [printable(line), *lines]


def _levels_kept(kept: Sequence[Finding]) -> str:
    """Say that levels are within their limits, and which comes nearest to its own."""
    nearest = max(kept, key=lambda f: 0.0 if math.isnan(p := f.noninferiority_p) else p)
    count = f"All {len(kept):,} levels keep their limits" if len(kept) > 1 else "The level is kept"
    return printable(f"{count}; nearest {_tested(nearest)}")


def _failed(variant: VariantVerdict) -> list[str]:
    failed = [f for f in variant.counted if f.verdict == "FAIL"]
    failed.sort(key=lambda f: f.harm_p_adjusted)
    return _cut([printable(f"{_tested(f)} ({f.question.rule})") for f in failed])


def _unsure(variant: VariantVerdict) -> list[str]:
    opened = [f for f in variant.counted if f.verdict == "UNSURE"]
    if not opened:
        return ["nothing is large enough to judge"]
    first = variant.outlook
    if first is None:
        reasons = list(dict.fromkeys(f.reason for f in opened if f.reason))
        shown = reasons[0] if reasons else why(opened[0])
        places = [f.question.where for f in opened if f.reason == shown]
        whole = len(places) == len(opened) > 1
        return [printable(shown if whole else f"{opened[0].question.where}: {shown}")]
    count = (
        f"{len(opened):,} of {len(variant.counted):,} tests are open; " if len(opened) > 1 else ""
    )
    return [printable(f"{count}{_tested(first)}, {first.outlook}")]


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    if more <= 0:
        return lines
    return [*lines[:SHOWN], f"and {more} more {'tests fail' if more > 1 else 'test fails'}"]


def scope_words(gate: Gate) -> str:
    """Say what a verdict covers."""
    if gate.audit.scope == "shipped":
        return "It covers these very models on another test set, not another training run."
    return "It covers another training run on another test set of this kind."


def _digits(value: float, kind: str) -> str:
    shown = value if kind == "relative" else 100 * value
    if math.isinf(shown):
        return "+∞" if shown > 0 else "-∞"
    if kind == "level":
        return f"{value:,.3f}"
    if kind == "score":
        return f"{value:+,.4g}"
    if kind == "absolute":
        return f"{shown:+,.2f}" if abs(shown) >= 0.1 or shown == 0 else f"{shown:+.3f}"
    return f"{shown:+,.0f}" if abs(shown) >= 10 else f"{shown:+.1f}"


def _unit(kind: str) -> str:
    return {"relative": "%", "absolute": " points"}.get(kind, "")
