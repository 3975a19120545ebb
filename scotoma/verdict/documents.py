"""What does a gate write for machines and readers? junit.xml and summary.md.

Names of classes, groups, rules, variants and of the project are others' words. In XML they lose
the characters that XML cannot hold; in Markdown they stand as code, where nothing is interpreted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from scotoma.answers.note import AdmissionNote
from scotoma.audit import GateFile
from scotoma.audit.gate import TestResult
from scotoma.printable import code_span, printable
from scotoma.verdict.words import (
    admission_lines,
    interval,
    level_words,
    margins_of_test,
    scope_words,
    too_small,
    why,
)

ROWS = 20  # tests of a variant that summary.md lists


def junit(gate: GateFile) -> str:
    """Write the verdict as JUnit XML: a suite a variant, a case a test.

    A FAIL is a failure; an UNSURE is skipped, or a failure where the rules say `on_unsure: fail`;
    what is waived is skipped. A suite fails exactly where its variant does.

    Args:
        gate: The verdict.

    Returns:
        An XML document.
    """
    root = ElementTree.Element("testsuites", name=printable(gate.project))
    for variant in gate.variants:
        name = printable(variant.name)
        suite = ElementTree.SubElement(root, "testsuite", name=name)
        properties = ElementTree.SubElement(suite, "properties")
        facts = {"verdict": variant.verdict, "members": f"{variant.members}"}
        for key, value in facts.items():
            ElementTree.SubElement(properties, "property", name=key, value=value)
        for sentence in variant.blocked:
            case = ElementTree.SubElement(
                suite, "testcase", classname=name, name="admission", time="0"
            )
            kind = "failure" if gate.rules.on_unsure == "fail" else "skipped"
            ElementTree.SubElement(case, kind, message=printable(f"UNSURE: {sentence}"))
        for test in variant.tests:
            where = printable(f"{test.rule}: {test.where}")
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=where, time="0")
            _outcome(case, test, fail_unsure=gate.rules.on_unsure == "fail")
        _count(suite, [suite])
    _count(root, list(root))
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _outcome(case: ElementTree.Element, test: TestResult, *, fail_unsure: bool) -> None:
    message = printable(f"{test.verdict}: {why(test)}")
    if test.waived is not None:
        until = f"waived until {test.waived_until}: {test.waived}"
        ElementTree.SubElement(case, "skipped", message=printable(f"{until} ({message})"))
    elif test.verdict == "FAIL" or (test.verdict == "UNSURE" and fail_unsure):
        failure = ElementTree.SubElement(case, "failure", message=message, type=test.verdict)
        failure.text = printable("; ".join(_numbers(test)))
    elif test.verdict in ("UNSURE", "NOT JUDGED"):
        ElementTree.SubElement(case, "skipped", message=message)


def _numbers(test: TestResult) -> Iterable[str]:
    if words := margins_of_test(test):
        yield f"{'margin' if test.level is None else 'limit'} {words}"
    absolute = None if test.margins.absolute is None else test.absolute
    for kind, one in (("relative", test.relative), (test.unit, absolute)):
        if one is not None:
            yield f"{kind} change {interval(one, kind)} at {level_words(one.level)}"
    if test.harm_p is not None and test.harm_p_adjusted is not None:
        yield f"harm p {test.harm_p:.3g}, adjusted {test.harm_p_adjusted:.3g}"
    number = test.absolute if test.level is None else test.level.mean
    if number is not None:
        yield f"n {number.n}, members {number.members}"


def _count(element: ElementTree.Element, suites: list[ElementTree.Element]) -> None:
    cases = [case for suite in suites for case in suite.iter("testcase")]
    failed, skipped = (
        sum(case.find(kind) is not None for case in cases) for kind in ("failure", "skipped")
    )
    counts = {"tests": len(cases), "failures": failed, "errors": 0, "skipped": skipped, "time": 0}
    element.attrib |= {name: str(count) for name, count in counts.items()}


def markdown(gate: GateFile, admission: Sequence[AdmissionNote] = ()) -> str:
    """Write the verdict as a page of Markdown, for a pull request or the note of a run.

    Args:
        gate: The verdict.
        admission: What the audit folded, dropped, guessed or did not read.

    Returns:
        The page.
    """
    rules = gate.rules
    scored = rules.rules[0].metric == "mean_score"  # then that of all is: an audit has one kind
    lines = [
        f"# Gate: {gate.verdict}",
        "",
        f"{code_span(gate.project)}: {gate.examples.test:,} test examples. "
        f"{scope_words(gate.scope)}",
        "",
        f"| gate | variant | members |{'' if scored else ' top-1 % | CIE |'} what decided it |",
        f"|---|---|--:|{'' if scored else '--:|--:|'}---|",
    ]
    for variant in gate.variants:
        reasons = "<br>".join(map(code_span, variant.sentences))
        top1 = "no labels" if variant.top1 is None else f"{100 * variant.top1:.2f}"
        classes = "" if scored else f"| {top1} | {variant.cies:,} "
        lines.append(
            f"| {variant.verdict} | {code_span(variant.name)} | {variant.members} "
            f"{classes}| {reasons} |"
        )
    lines += ["", *_tests(gate)]
    waived = [
        f"- {code_span(variant.name)}, {code_span(test.rule)}, {code_span(test.where)}: "
        f"{test.verdict}, waived until {test.waived_until}: {code_span(test.waived)}"
        for variant in gate.variants
        for test in variant.tests
        if test.waived is not None
    ]
    lines += ["", "## Waived", "", *waived] if waived else []
    lines += ["", "## Read this", ""]
    if small := too_small(gate.variants):
        lines.append(f"- {code_span(small)}")
    lines += [f"- {code_span(line)}" for line in (*admission_lines(admission), *gate.warnings)]
    if len(gate.variants) > 1:
        lines.append(
            f"- {len(gate.variants)} variants were judged, each on its own: "
            "picking the best of many favours luck."
        )
    tail = 100 * rules.alpha / 2
    corrected = {"holm": ", after Holm,", "bh": ", after Benjamini-Hochberg,", "none": ""}
    lines += [
        f"- FAIL: harm beyond a margin is shown{corrected[rules.correct]} at {tail:g}%, one-sided. "
        f"PASS: every test rules out harm beyond its margin at {tail:g}%. UNSURE: neither.",
        f"- To show harm, a change needs {rules.min.effective_events:g} effective examples that "
        "carry it."
        if scored
        else "- A PASS rests on margins of at least two standard errors of the dense rate.\n- To "
        f"show harm, a rate needs {rules.min.effective_events:g} effective events in the "
        "compressed population.",
        f"- Judged as of {gate.as_of.isoformat()}.",
    ]
    return "\n".join(lines) + "\n"


def _tests(gate: GateFile) -> list[str]:
    """List the tests that did not pass; of very many, the first of each variant."""
    rows = []
    for variant in gate.variants:
        opened = [test for test in variant.counted if test.verdict in ("FAIL", "UNSURE")]
        opened.sort(key=lambda test: test.verdict)  # FAIL before UNSURE
        name = code_span(variant.name)
        rows += [
            f"| {test.verdict} | {name} | {code_span(test.rule)} | {code_span(test.where)} "
            f"| {_plain(test)} | {margins_of_test(test)} | {code_span(why(test))} |"
            for test in opened[:ROWS]
        ]
        if len(opened) > ROWS:
            rows.append(f"| | {name} | | {len(opened) - ROWS:,} more are in gate.json | | | |")
    if not rows:
        return ["Every test passed."]
    level = level_words(gate.level)
    head = (
        f"| | variant | rule | where | change or level, {level} | margin or limit | what decides |"
    )
    return [head, "|---|---|---|---|---|---|---|", *rows]


def _plain(test: TestResult) -> str:
    """Write the change with its pointwise interval, on the scale of the margin that decides."""
    if test.level is not None:
        return "" if test.level.mean is None else interval(test.level.mean, "level")
    if test.absolute is None:
        return ""
    kind: str = test.unit
    if test.decided_by is not None:
        kind = test.decided_by.kind
    elif test.margins.absolute is None:
        kind = "relative"
    # A rule that names a relative margin alone may hang on the sampling margin, which is absolute.
    return interval(test.relative if kind == "relative" and test.relative else test.absolute, kind)
