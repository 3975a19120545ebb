"""What does a gate write for machines and readers? junit.xml and summary.md.

Names of classes, groups, rules, variants and of the project are others' words. In XML they lose
the characters that XML cannot hold; in Markdown they stand as code, where nothing is interpreted.
"""

from __future__ import annotations

import math
from xml.etree import ElementTree

from scotoma.config.gate_scores import ScoreRule
from scotoma.printable import code_span, printable
from scotoma.verdict.deciding import Finding
from scotoma.verdict.gate import Gate
from scotoma.verdict.words import (
    admission_lines,
    interval,
    level_words,
    margin_words,
    scope_words,
    sentences,
    too_small,
    why,
)

__all__ = ["junit", "markdown"]

ROWS = 20  # tests of a variant that summary.md lists


def junit(gate: Gate) -> str:
    r"""Write the verdict as JUnit XML: a suite a variant, a case a test.

    A FAIL is a failure; an UNSURE is skipped, or a failure where the rules say `on_unsure: fail`;
    what is waived is skipped. A suite fails exactly where its variant does.

    Args:
        gate: The verdict.

    Returns:
        An XML document.

    >>> import datetime
    >>> from scotoma.config.gate import default_rules
    >>> from scotoma.audit import Audit
    >>> audit = Audit.model_construct(project="a\x1b<b>")
    >>> gate = Gate(default_rules(positive=True), datetime.date(2027, 3, 1), (), (), audit)
    >>> print(junit(gate).splitlines()[1])
    <testsuites name="a &lt;b&gt;" tests="0" failures="0" errors="0" skipped="0" time="0" />
    """
    root = ElementTree.Element("testsuites", name=printable(gate.audit.project))
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
        for finding in variant.findings:
            question = finding.question
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=name,
                name=printable(f"{question.rule}: {question.where}"),
                time="0",
            )
            _outcome(case, finding, fail_unsure=gate.rules.on_unsure == "fail")
        _count(suite, [suite])
    _count(root, list(root))
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _outcome(case: ElementTree.Element, finding: Finding, *, fail_unsure: bool) -> None:
    message = printable(f"{finding.verdict}: {why(finding)}")
    if finding.waiver is not None:
        until = f"waived until {finding.waiver.until}: {finding.waiver.reason}"
        ElementTree.SubElement(case, "skipped", message=printable(f"{until} ({message})"))
    elif finding.verdict == "FAIL" or (finding.verdict == "UNSURE" and fail_unsure):
        failure = ElementTree.SubElement(case, "failure", message=message, type=finding.verdict)
        failure.text = printable(_numbers(finding))
    elif finding.verdict in ("UNSURE", "NOT JUDGED"):
        ElementTree.SubElement(case, "skipped", message=message)


def _numbers(finding: Finding) -> str:
    question = finding.question
    name = "margin" if question.level is None else "limit"
    parts = [f"{name} {margin_words(finding)}"] if margin_words(finding) else []
    parts += [
        f"{one.kind} change {interval(one.estimate, one.kind)} at {level_words(one.estimate.level)}"
        for one in question.margins
    ]
    if not math.isnan(finding.harm_p):
        parts.append(f"harm p {finding.harm_p:.3g}, adjusted {finding.harm_p_adjusted:.3g}")
    if (number := question.number) is not None:
        members = number.members if question.level is None else question.level.members
        parts.append(f"n {number.n}, members {members}")
    return "; ".join(parts)


def _count(element: ElementTree.Element, suites: list[ElementTree.Element]) -> None:
    cases = [case for suite in suites for case in suite.iter("testcase")]
    element.set("tests", f"{len(cases)}")
    element.set("failures", f"{sum(case.find('failure') is not None for case in cases)}")
    element.set("errors", "0")
    element.set("skipped", f"{sum(case.find('skipped') is not None for case in cases)}")
    element.set("time", "0")


def markdown(gate: Gate) -> str:
    """Write the verdict as a page of Markdown, for a pull request or the note of a run.

    Args:
        gate: The verdict.

    Returns:
        The page.
    """
    rules = gate.rules
    scored = isinstance(rules.rules[0], ScoreRule)  # then all are: an audit has one kind
    lines = [
        f"# Gate: {gate.verdict}",
        "",
        f"{code_span(gate.audit.project)}: {gate.audit.examples.test:,} test examples. "
        f"{scope_words(gate)}",
        "",
        f"| gate | variant | members |{'' if scored else ' top-1 % | CIE |'} what decided it |",
        f"|---|---|--:|{'' if scored else '--:|--:|'}---|",
    ]
    for variant in gate.variants:
        reasons = "<br>".join(map(code_span, sentences(variant)))
        top1 = "no labels" if math.isnan(variant.top1) else f"{100 * variant.top1:.2f}"
        classes = "" if scored else f"| {top1} | {variant.cies:,} "
        lines.append(
            f"| {variant.verdict} | {code_span(variant.name)} | {variant.members} "
            f"{classes}| {reasons} |"
        )
    lines += ["", *_tests(gate)]
    waived = [
        f"- {code_span(variant.name)}, {code_span(finding.question.rule)}, "
        f"{code_span(finding.question.where)}: {finding.verdict}, waived until "
        f"{finding.waiver.until}: {code_span(finding.waiver.reason)}"
        for variant in gate.variants
        for finding in variant.findings
        if finding.waiver is not None
    ]
    lines += ["", "## Waived", "", *waived] if waived else []
    lines += ["", "## Read this", ""]
    if small := too_small(gate.variants):
        lines.append(f"- {code_span(small)}")
    lines += [
        f"- {code_span(line)}" for line in (*admission_lines(gate.audit.admission), *gate.warnings)
    ]
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


def _tests(gate: Gate) -> list[str]:
    """List the tests that did not pass; of very many, the first of each variant."""
    rows = []
    for variant in gate.variants:
        opened = [f for f in variant.counted if f.verdict in ("FAIL", "UNSURE")]
        opened.sort(key=lambda finding: finding.verdict)  # FAIL before UNSURE
        name = code_span(variant.name)
        rows += [
            f"| {finding.verdict} | {name} | {code_span(finding.question.rule)} "
            f"| {code_span(finding.question.where)} | {_plain(finding)} | {margin_words(finding)} "
            f"| {code_span(why(finding))} |"
            for finding in opened[:ROWS]
        ]
        if len(opened) > ROWS:
            rows.append(f"| | {name} | | {len(opened) - ROWS:,} more are in gate.json | | | |")
    if not rows:
        return ["Every test passed."]
    level = level_words(gate.audit.level)
    head = (
        f"| | variant | rule | where | change or level, {level} | margin or limit | what decides |"
    )
    return [head, "|---|---|---|---|---|---|---|", *rows]


def _plain(finding: Finding) -> str:
    """Write the change with its pointwise interval, on the scale of the margin that decides."""
    question = finding.question
    if question.level is not None:
        return "" if question.level.mean is None else interval(question.level.mean, "level")
    if question.change is None or not question.margins:
        return ""
    kind = finding.deciding.kind if finding.deciding else question.margins[-1].kind
    # A rule that names a relative margin alone may hang on the sampling margin, which is absolute.
    relative = question.change.relative if kind == "relative" else None
    return interval(relative or question.change.absolute, kind)
