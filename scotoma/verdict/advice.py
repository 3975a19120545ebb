"""What should a reader do? The verdict a variant in a sentence, and the next steps."""

from __future__ import annotations

from collections.abc import Sequence

from scotoma.audit.gate import GateResult, JudgedVariant, LevelTest, TestResult
from scotoma.document import Unit, show
from scotoma.numbers import FEW_RUNS
from scotoma.verdict.words import hangs_on

NAMED = 4  # variants listed by name in a sentence
SMALL = 1  # tests that are too small, named in a sentence
UNITS: dict[str, Unit] = {
    "absolute": "points",
    "level": "number",
    "relative": "percent",
    "score": "score_change",
}


def verdict_sentence(gate: GateResult) -> str:
    """Say the verdict on all variants; what was too small to judge stands beside what may ship."""
    by = {verdict: _of(gate, verdict) for verdict in ("PASS", "FAIL", "UNSURE")}
    parts = [_passing(by["PASS"])] if by["PASS"] else []
    parts += [_failing(by["FAIL"])] if by["FAIL"] else []
    # What keeps a PASS from being given is no matter of size, and its sentence ends the sentence.
    blocked = [variant for variant in by["UNSURE"] if variant.blocked]
    small = [variant for variant in by["UNSURE"] if not variant.blocked]
    parts += [f"UNSURE for {variant_names(small)}: the test set is too small"] if small else []
    if blocked:
        parts.append(f"UNSURE for {variant_names(blocked)}: {blocked[0].blocked[0].rstrip('.')}")
    text = "; ".join(parts) + "."
    if by["PASS"]:
        return text
    if len(gate.variants) > 1:
        return f"No variant is shown to be safe to ship: {text}"
    return f"The only variant must not ship by these rules: {text}" if by["FAIL"] else text


def _passing(variants: Sequence[JudgedVariant]) -> str:
    small = list(dict.fromkeys(size for variant in variants for size in variant.too_small))
    text = f"{variant_names(variants)} may ship by these rules"
    if not small:
        return text
    more = f" and {len(small) - SMALL:,} more" if len(small) > SMALL else ""
    return f"{text}, which could not judge {_listed(small)}{more}: too small"


def _listed(small: Sequence[str]) -> str:
    return ", ".join(small[:SMALL])


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
    words = settles.outlook.sentence.replace("proven: it", "proven. It")
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
    shown = show(decided.interval, UNITS[decided.kind], FEW_RUNS).number
    if decided.kind == "level":
        return f"{shown} ({decided.subject}), limit {margins_of_test(test)}"
    if decided.kind == "absolute":
        return f"{shown} points, margin {show(decided.margin, 'points').value}"
    return f"{shown}, margin {show(float(decided.margin), UNITS[decided.kind]).value}"


def margins_of_test(test: TestResult) -> str:
    """Write the margins of a test, or its limit."""
    if test.level is not None:
        return _limit(test.level)
    both = []
    if test.margins.relative is not None:
        both.append(show(100 * test.margins.relative, "percent").value)
    if test.margins.absolute is not None:
        scored = test.metric == "mean_score"
        shown = show(test.margins.absolute, "score_change" if scored else "points").value
        both.append(shown if scored else f"{shown} points")
    return " and ".join(both)


def _limit(level: LevelTest) -> str:
    """Write the limit of a level."""
    return f"{level.side} {level.limit:g}"


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
