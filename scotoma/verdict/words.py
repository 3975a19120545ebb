"""How does a verdict read? Numbers with their interval and margin, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from scotoma.answers.note import AdmissionNote
from scotoma.audit import Quantity
from scotoma.audit.gate import (
    DecidingInterval,
    GateResult,
    JudgedVariant,
    LevelTest,
    TestResult,
    VerdictWord,
)
from scotoma.audit.groups import ENDING_NAMES
from scotoma.document import Unit, show
from scotoma.numbers import FEW_RUNS
from scotoma.printable import printable
from scotoma.verdict.evidence import known

NOTES = 8  # notes of admission that are listed; audit.json has them all
SHOWN = 3  # tests named beside a verdict; gate.json has them all
UNITS: dict[str, Unit] = {
    "absolute": "points",
    "level": "number",
    "relative": "percent",
    "score": "score_change",
}


def amount(value: float, kind: str) -> str:
    """Write a change in the unit of a margin: per cent of the dense rate, percentage points, score.

    >>> amount(1.023, "relative"), amount(0.0123, "absolute"), amount(math.inf, "relative")
    ('+102.3%', '+1.23 points', '+∞%')
    >>> amount(0.8, "level")
    '0.800'
    """
    return show(float(value), UNITS[kind]).value + " points" * (kind == "absolute")


def interval(number: Quantity, kind: str) -> str:
    """Write a change with its interval, or without where it has none.

    >>> from scotoma.numbers import Estimate
    >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
    >>> interval(Quantity.of(change), "absolute")
    '+2.00 [+0.87, +3.13] points'
    """
    if number.value is None:
        return "undefined"
    return show(number, UNITS[kind], FEW_RUNS).number + " points" * (kind == "absolute")


def level_words(level: float) -> str:
    """Write a level in per cent, with the digits that tell it from 100.

    >>> level_words(0.95), level_words(0.9944), level_words(0.999999)
    ('95%', '99.4%', '99.9999%')
    """
    digits = 1 if level < 0.999 else max(1, math.ceil(-math.log10(1 - level)) - 2 + 1)
    return f"{100 * level:.{min(digits, 12)}f}".rstrip("0").rstrip(".") + "%"


def why(test: TestResult) -> str:
    """Say what a test rests on: the number at the deciding level beside its margin, or a reason.

    >>> from scotoma.verdict.gate_test import unanswered
    >>> why(unanswered("s", "slices_hurt", "", reason="no slices"))
    'no slices'
    """
    deciding = test.decided_by
    if deciding is None:
        return test.reason
    number = deciding.interval
    if test.level is not None:
        return _why_level(test.level, deciding)
    reason = f"; {test.reason}" if test.reason else ""
    return (
        f"{interval(number, deciding.kind)} at {level_words(number.level)}, margin "
        f"{amount(deciding.margin, deciding.kind)}{reason}"
    )


def _why_level(level: LevelTest, deciding: DecidingInterval) -> str:
    text = f"{deciding.subject}: {interval(deciding.interval, 'level')}"
    if level.of != "labels":
        text += f" at {level_words(deciding.interval.level)}"
    text += f", limit {level.side} {amount(level.limit, 'level')}"
    if level.dense is not None and level.dense.value is not None:
        text += f"; dense {interval(level.dense, 'level')}"
    return text


def _tested(test: TestResult) -> str:
    """What was tested, and what the answer rests on."""
    comma = "," if test.level is not None else ""
    return f"{test.where}{comma} {why(test)}"


def sentences(
    verdict: VerdictWord,
    tests: Sequence[TestResult],
    blocked: Sequence[str],
    settles: TestResult | None,
) -> list[str]:
    """Say what the verdict on a variant rests on, a sentence each.

    Args:
        verdict: The verdict.
        tests: Its tests.
        blocked: What admits no PASS, as sentences.
        settles: The test whose outlook says what would settle it; None where nothing does.

    Returns:
        The worst tests of a FAIL; for an UNSURE what admits no PASS, or what is open and what would
        settle it; for a PASS what was ruled out, and how finely.
    """
    if verdict == "UNSURE" and blocked:
        return [printable(sentence) for sentence in blocked]
    counted = [test for test in tests if test.waived is None]
    own = [test for test in counted if test.verdict == verdict]
    if verdict == "FAIL":
        return _failed(own)
    if verdict == "UNSURE":
        return [printable(_unsure(own, len(counted), settles))]
    if not own:
        return ["every test is waived" if tests else "no rule asked anything"]
    return list(map(printable, _passed(own)))


def hangs_on(tests: Sequence[TestResult]) -> TestResult | None:
    """The test whose outlook says what would settle an UNSURE variant.

    One harm is enough: the first that would be shown. Where no test leans to FAIL, all must be
    cleared: the last to be. No number of examples says how answers ended.
    """
    opened = [t for t in tests if t.verdict == "UNSURE" and not t.waived and t.outlook is not None]
    harmful = [test for test in opened if test.outlook and test.outlook.leaning == "FAIL"]
    if harmful or not any(_lacks_endings(test) for test in tests):
        return min(harmful, key=_effort) if harmful else max(opened, key=_effort, default=None)
    return None


def _lacks_endings(test: TestResult) -> bool:
    undecided = test.verdict == "UNSURE" and test.decided_by is None and not test.waived
    return undecided and test.metric in ENDING_NAMES


def _effort(test: TestResult) -> tuple[float, float]:
    """Rank what would settle a test: models first, then examples, then nothing that is known."""
    known = test.outlook
    if known is None or known.by is None or known.high is None:
        return 2, 0.0
    return (0 if known.by == "models" else 1), known.high / known.now


def too_small(variants: Sequence[JudgedVariant]) -> str:
    """Say once what no PASS of any variant rests on; empty where all is large enough to judge."""
    if not (names := _sizes(variants)):
        return ""
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return printable(f"Too small to judge: {', '.join(names[:SHOWN])}{more}.")


def _sizes(variants: Sequence[JudgedVariant]) -> list[str]:
    return list(dict.fromkeys(size for variant in variants for size in variant.too_small))


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


def size_of(test: TestResult) -> str:
    """Name what was too small to judge, with its size.

    >>> from scotoma.verdict.gate_test import unanswered
    >>> size_of(unanswered("s", "slices_hurt", "error IS"))
    'error IS (no examples)'
    """
    n = 0 if test.absolute is None else test.absolute.n
    size = "no examples" if n == 0 else f"{n:,} example{'' if n == 1 else 's'}"
    return f"{test.where} ({size})"


def _passed(passed: Sequence[TestResult]) -> Iterable[str]:
    rises = [test for test in passed if test.level is None]
    if rises:
        margins = [
            (test.decided_by.margin, test.where)
            for test in rises
            if test.decided_by is not None and test.decided_by.kind == "absolute"
        ]
        count = len(rises)
        line = f"No rise beyond its margin in {'the' if count == 1 else 'any of'} {count:,} "
        line += f"test{'' if count == 1 else 's'}"
        if margins:
            coarsest, where = max(margins, key=lambda one: one[0])
            line += f"; coarsest margin {100 * coarsest:.1f} points ({where})"
        yield line
    if levels := [test for test in passed if test.level is not None]:
        nearest = max(levels, key=lambda test: test.noninferiority_p or 0.0)
        kept = f"All {len(levels):,} levels keep their limits"
        kept = kept if len(levels) > 1 else "The level is kept"
        yield f"{kept}; nearest {_tested(nearest)}"


def _failed(failed: Sequence[TestResult]) -> list[str]:
    surest = sorted(failed, key=lambda test: known(test.harm_p_adjusted))
    lines = [printable(f"{_tested(test)} ({test.rule})") for test in surest]
    more = len(lines) - SHOWN
    if more <= 0:
        return lines
    return [*lines[:SHOWN], f"and {more} more {'tests fail' if more > 1 else 'test fails'}"]


def _unsure(opened: Sequence[TestResult], counted: int, settles: TestResult | None) -> str:
    if not opened:
        return "nothing is large enough to judge"
    if settles is None or settles.outlook is None:
        first = next((test for test in opened if test.reason and test.outlook is None), opened[0])
        shown = first.reason or why(first)
        whole = sum(test.reason == shown for test in opened) == len(opened) > 1
        of_one_group = first.group != "all" and len({test.group for test in opened}) == 1
        return shown if whole and not of_one_group else f"{first.where}: {shown}"
    count = f"{len(opened):,} of {counted:,} tests are open; " if len(opened) > 1 else ""
    return f"{count}{_tested(settles)}, {settles.outlook.sentence}"


def these_models(compressed: int) -> str:
    """Say which models numbers are about that no other training run enters.

    >>> these_models(1), these_models(5)
    ('these two models', 'these 6 models')
    """
    return f"these {'two' if compressed == 1 else compressed + 1} models"


def scope_words(scope: str) -> str:
    """Say what a verdict covers."""
    if scope == "shipped":
        return "It covers these very models on another test set, not another training run."
    return "It covers another training run on another test set of this kind."


NAMED = 4  # variants listed by name in a sentence


def verdict_sentence(gate: GateResult) -> str:
    """Say the verdict on all variants; what was too small to judge stands beside what may ship."""
    by = {verdict: _of(gate, verdict) for verdict in ("PASS", "FAIL", "UNSURE")}
    parts = [_passing(by["PASS"])] if by["PASS"] else []
    parts += [_failing(by["FAIL"])] if by["FAIL"] else []
    # What keeps a PASS from being given is no matter of size, and its sentence ends the sentence.
    blocked = [one for one in by["UNSURE"] if one.blocked or any(map(_lacks_endings, one.tests))]
    small = [variant for variant in by["UNSURE"] if variant not in blocked]
    parts += [f"UNSURE for {variant_names(small)}: the test set is too small"] if small else []
    if blocked:
        why = (blocked[0].blocked or blocked[0].sentences)[0].rstrip(".")
        parts.append(f"UNSURE for {variant_names(blocked)}: {why}")
    text = "; ".join(parts) + "."
    if by["PASS"]:
        return text
    if len(gate.variants) > 1:
        return f"No variant is shown to be safe to ship: {text}"
    return f"The only variant must not ship by these rules: {text}" if by["FAIL"] else text


def _passing(variants: Sequence[JudgedVariant]) -> str:
    small = _sizes(variants)
    text = f"{variant_names(variants)} may ship by these rules"
    if not small:
        return text
    more = f" and {len(small) - 1:,} more" if len(small) > 1 else ""
    return f"{text}, which could not judge {small[0]}{more}: too small"


def _failing(variants: Sequence[JudgedVariant]) -> str:
    if len(variants) > 1:
        return f"{variant_names(variants)} fail"
    worst = variants[0].failed
    return f"{variant_names(variants)} fails" + (f" on {worst[0].where}" if worst else "")


def to_do(variant: JudgedVariant) -> str:
    """Say what to do with a variant and why.

    Args:
        variant: The verdict on it.
    """
    if variant.verdict == "FAIL":
        failed = variant.failed
        first = f": {failed[0].where} {decided_words(failed[0])}" if failed else ""
        return f"Do not ship{first}{_more(len(failed) - 1, 'fails', 'fail')}."
    if variant.verdict == "PASS":
        tests = sum(test.verdict == "PASS" for test in variant.counted)
        if not tests:
            return f"May ship: {(variant.sentences or ('no rule asked anything',))[0]}."
        of = "in its only test" if tests == 1 else f"in all {tests:,} tests"
        return f"May ship: harm beyond the margin is ruled out {of}."
    if variant.blocked:
        return f"Hold: {variant.blocked[0].rstrip('.')}."
    unsure = [test for test in variant.counted if test.verdict == "UNSURE"]
    settles = hangs_on(unsure)
    if settles is None or settles.outlook is None:
        return f"Hold: {(variant.sentences or ('nothing is large enough to judge',))[0]}."
    words = settles.outlook.sentence.replace("proven: this", "proven. This")
    return (
        f"Hold: {settles.where} {decided_words(settles)}"
        f"{_more(len(unsure) - 1, 'is open', 'are open')}. {words[:1].upper()}{words[1:]}."
    )


def _more(count: int, one: str, several: str) -> str:
    if count < 1:
        return ""
    return f"; 1 more test {one}" if count == 1 else f"; {count:,} more tests {several}"


def decided_words(test: TestResult) -> str:
    """Write the number that decided a test with its interval, beside its margin.

    Args:
        test: A test; one that was not decided gives its reason.
    """
    decided = test.decided_by
    if decided is None:
        return test.reason or "not tested"
    shown = interval(decided.interval, decided.kind)
    if decided.kind == "level":
        return f"{shown} ({decided.subject}), limit {margins_of_test(test)}"
    return f"{shown}, margin {amount(decided.margin, decided.kind)}"


def margins_of_test(test: TestResult) -> str:
    """Write the margins of a test, or its limit."""
    if test.level is not None:
        return f"{test.level.side} {test.level.limit:g}"
    margins = (("relative", test.margins.relative), (test.unit, test.margins.absolute))
    return " and ".join(amount(margin, kind) for kind, margin in margins if margin is not None)


def next_steps(
    gate: GateResult, *, labelled: bool = True, mitigated: str = "", scored: bool = False
) -> list[str]:
    """Say what to do, most pressing first.

    Args:
        gate: The verdict.
        labelled: Whether the examples have labels: without, a FAIL shows change and not harm.
        mitigated: Ways to mitigate a FAIL without training, as a sentence; see `mitigations`.
        scored: Whether examples have scores instead of classes.
    """
    failed, passed = _of(gate, "FAIL"), _of(gate, "PASS")
    steps = []
    if failed and not labelled:
        steps.append(
            f"Before {variant_names(failed)} {_ships(failed)}: label the examples that change; "
            "scotoma show RUN examples --unlabelled ranks them."
        )
    elif failed:
        steps.append(
            f"Do not ship {variant_names(failed)}. Compress less, or train with more examples of "
            f"the groups that it harms; the {'page lists' if scored else 'gallery shows'} changed "
            "examples."
        )
        steps += [mitigated] if mitigated else []
    if passed:
        steps.append(
            f"Before {variant_names(passed)} {_ships(passed)}: read the rules. Nothing else was "
            "tested."
        )
    return steps + _waived(gate)


def _ships(variants: Sequence[JudgedVariant]) -> str:
    return "ships" if len(variants) == 1 else "ship"


def _waived(gate: GateResult) -> list[str]:
    """Name the rules that are waived: without them a PASS would mislead."""
    waived = {
        (variant.name, test.rule, test.waived_until): None
        for variant in gate.variants
        for test in variant.tests
        if test.waived is not None and test.verdict != "PASS"
    }
    return [
        f"Not counted, because it is waived until {until}: {rule} for {name}."
        for name, rule, until in waived
    ]


def _of(gate: GateResult, verdict: str) -> list[JudgedVariant]:
    return [variant for variant in gate.variants if variant.verdict == verdict]


def variant_names(variants: Sequence[JudgedVariant]) -> str:
    """List variants by name."""
    names = [variant.name for variant in variants]
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
