"""What decided the verdict? The rules in words, and every test beside its margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scotoma.audit.findings import Findings
from scotoma.audit.gate import GateResult, JudgedVariant, TestResult
from scotoma.audit.groups import ENDING_NAMES, RATE_NAMES
from scotoma.config.gate import GateRules, Rule
from scotoma.document import Cell, Chart, Column, Facts, Interval, Noted, Section, Table, show
from scotoma.numbers import FEW_RUNS
from scotoma.verdict.rules import rule_kind
from scotoma.verdict.words import UNITS, margins_of_test

DRAWN = 19  # tests drawn of a variant, those nearest to failing first
MOST_ROWS = 10  # on the page; the CSV file has all
WIDEST = (-2.0, 6.0)  # ends of the axis at most, in margins; what lies beyond ends in an arrow
ORDER = ("FAIL", "UNSURE", "PASS", "NOT JUDGED")
KINDS = {
    "absolute": "Change, points",
    "relative": "Change, relative",
    "level": "Level",
    "score": "Change of the score",
}


def gate_section(findings: Findings) -> Section | None:
    """The rules, and a row a test; None without a verdict."""
    gate = findings.gate
    if gate is None:
        return None
    many = gate.variants_tried
    rules = [(rule.id, f"a variant fails if {rule_words(rule)}") for rule in gate.rules.rules]
    return Section(
        "gate",
        "Gate: rules and tests",
        [
            f"{many} variant{' was' if many == 1 else 's were'} judged, each on its own: picking "
            "the best of many favours luck.",
            "A variant fails if one test fails, and passes only if all pass that its test set is "
            "large enough to judge.",
        ],
        [
            *([_chart(gate, findings.focus)] if any(v.tests for v in gate.variants) else []),
            Facts([*rules, ("", f"{certainty_words(gate.rules)}.")], "Rules"),
        ],
        folded=True,
        about="every test beside its margin",
        link="Gate",
    )


def _chart(gate: GateResult, focus: str) -> Chart:
    tests = [test for variant in gate.variants for test in variant.tests]
    many = {verdict: sum(test.verdict == verdict for test in tests) for verdict in ORDER}
    small = many["NOT JUDGED"]
    level = any(test.level is not None for test in tests)
    return Chart(
        "gate",
        "Every test beside its margin",
        f"Tests that FAIL (triangles): {many['FAIL']:,}; UNSURE (diamonds): {many['UNSURE']:,}; "
        f"PASS (circles): {many['PASS']:,}. At 1, dashed, lies the margin."
        + f" {small:,} not judged are left out." * bool(small)
        + " A level is drawn by its distance from fair, in that of its limit." * level,
        _table(gate, focus),
        "gate",
        by="variant",
        first=focus,
    )


def _table(gate: GateResult, focus: str) -> Table:
    variants = sorted(gate.variants, key=lambda variant: variant.name != focus)
    rows = [row for variant in variants for row in _rows(variant)]
    shown = [kind for kind in KINDS if any(row.get(kind) is not None for row in rows)]
    return Table(
        "gate",
        "Every test of the gate",
        (
            Column("variant", "Variant"),
            Column("test", "Test"),
            Column("gate", "Gate", "verdict"),
            *(Column(kind, KINDS[kind], UNITS[kind]) for kind in shown),
            Column("margin", "Margin or limit"),
            Column("margins", "In margins", "change"),
            Column("n", "n", "count"),
            Column("next", "What would settle it"),
            Column("rule", "Rule"),
        ),
        rows,
        "Intervals are at the level that decides, adjusted for all tests of the variant. Tests "
        "that did not pass come first.",
        stub=2,
        known=FEW_RUNS,
        most=MOST_ROWS,
    )


def _rows(variant: JudgedVariant) -> Iterator[dict[str, Cell]]:
    rank = 0
    for test in _nearest(variant.tests):
        rank += test.verdict in ORDER[:3]
        decided = test.decided_by
        held: dict[str, Cell] = {}
        if decided is not None:
            held[decided.kind] = (
                Noted(decided.interval, decided.subject) if decided.subject else decided.interval
            )
        margins = _in_margins(test)
        yield {
            "variant": variant.name,
            "test": _label(test),
            "rule": test.rule,
            "gate": _gate(test),
            **held,
            "margin": margins_of_test(test),
            "margins": margins,
            "n": decided.interval.n if decided else test.absolute and test.absolute.n,
            "next": _next(test),
            "drawn": test.verdict in ORDER[:3] and rank <= DRAWN,
            "verdict": test.verdict,
            **_clipped(margins),
        }


def _gate(test: TestResult) -> Cell:
    if test.waived is None:
        return test.verdict
    return Noted(test.verdict, f"waived until {test.waived_until}: {test.waived}")


def _next(test: TestResult) -> str:
    if test.decided_by is None:
        return test.reason or "not tested"
    if test.outlook is not None:
        return test.outlook.sentence
    return "" if test.verdict in ("PASS", "FAIL") else test.reason


def _nearest(tests: Sequence[TestResult]) -> list[TestResult]:
    def height(test: TestResult) -> float:
        shown = _in_margins(test)
        return float("-inf") if shown is None or shown.high is None else shown.high

    return sorted(tests, key=lambda test: (ORDER.index(test.verdict), -height(test)))


def _label(test: TestResult) -> str:
    """What a row is called: of a level with its limit, which another rule may set elsewhere."""
    if test.level is None:
        return test.where
    sign = "\u2265" if test.level.side == "at least" else "\u2264"
    mean = ", mean" if test.level.of == "mean" else ""
    return f"{test.where} {sign} {test.level.limit:g}{mean}"


def _in_margins(test: TestResult) -> Interval | None:
    """The deciding interval in margins: 0 where nothing changes or both sides are alike, 1 at it.

    Of a level: its distance from fairness over that of its limit.
    """
    decided, level = test.decided_by, test.level
    if decided is None:
        return None
    zero = 0.0 if level is None else level.neutral
    unit, held = decided.margin - zero, decided.interval
    if not unit or held.value is None:
        return None
    low, high = (None if end is None else (end - zero) / unit for end in (held.low, held.high))
    if unit < 0:
        low, high = high, low
    return Interval((held.value - zero) / unit, low, high, held.n, held.reason, held.note)


def _clipped(margins: Interval | None) -> dict[str, Cell]:
    """The ends as drawn, inside the axis, and which of them lie beyond it."""
    if margins is None or margins.value is None:
        return {}
    least, most = WIDEST

    def inside(end: float | None) -> float | None:
        return None if end is None else min(max(end, least), most)

    return {
        "at": inside(margins.value),
        "at_low": inside(margins.low),
        "at_high": inside(margins.high),
        "goes_left": margins.low is not None and margins.low < least,
        "goes_right": margins.high is not None and margins.high > most,
        "says": show(margins, "change").value,
    }


OVER = {"groups": "any group", "classes": "any class", "all": "all examples together"}
CORRECTED = {
    "holm": "adjusted by Holm",
    "bh": "adjusted by Benjamini-Hochberg",
    "none": "unadjusted",
}


def rule_words(rule: Rule) -> str:
    """Say a rule as a sentence.

    >>> from scotoma.config.gate_changes import ChangeRule, CieRule, MaxIncrease
    >>> from scotoma.config.gate_levels import LevelRule
    >>> rule_words(ChangeRule(id="fpr", metric="fpr",
    ...                       max_increase=MaxIncrease(relative=0.2, absolute=0.005)))
    'the FPR of any group rises by more than 20.0% of what it was and by more than 0.50 points'
    >>> rule_words(CieRule(id="cie", metric="cie_share_excess", max=0.01))
    'CIEs beyond seed noise are more than 1.00% of the examples'
    >>> rule_words(LevelRule(id="di", metric="clarify.DI", attributes=["sex"], min=0.8))
    'clarify.DI of sex is not at least 0.8 in every model and in the worst of the next 16 training \
runs'
    """
    says = rule_kind(rule).says
    if not isinstance(says, str):
        return says(rule)
    known: dict[str, Any] = {"margin": 0.0, "over": "", "top": 1, "scale": "absolute", **dict(rule)}
    kinds, margin = " or ".join(known.get("kinds") or ()), known.get("max", known["margin"])
    scored, parts = "max_worse" in known, list[str]()
    limits = dict(known.get("max_increase", known.get("max_worse", ())))
    if (share := limits.get("relative")) is not None:
        parts.append(f"{100 * share:g}%" if scored else f"{100 * share:.1f}% of what it was")
    if (rise := limits.get("absolute")) is not None:
        parts.append(f"{rise:g}" if scored else f"{100 * rise:.2f} points")
    if (points := limits.get("points")) is not None:
        parts.append(f"{points:g} points")
    return says.format(
        over=OVER.get(known["over"], "a slice that nobody named"),
        by=" and ".join(f"by more than {part}" for part in parts),
        share=f"{100 * margin:.2f}%", points=f"{100 * margin:.2f} points",
        rate=(RATE_NAMES | ENDING_NAMES).get(rule.metric, "error beyond its reference's"),
        top="top-5 " if known["top"] == 5 else "",
        what="relative robustness" if known["scale"] == "relative" else "accuracy",
        under=kinds or "corruption", kinds=f" under {kinds}" if kinds else "",
    )  # fmt: skip


def certainty_words(rules: GateRules) -> str:
    """Say how certain the gate has to be.

    >>> from scotoma.config.gate import default_rules
    >>> certainty_words(default_rules(positive=True))
    'FAIL needs 97.5% certainty, adjusted by Holm over the tests of a variant, and 10 effective \
events; PASS needs 97.5% for each, at a margin of at least two standard errors of the dense rate'
    """
    certain = f"{100 * (1 - rules.alpha / 2):g}%"
    scored = rules.rules[0].metric == "mean_score"  # then that of all is
    events = "examples that carry the change" if scored else "events"
    margin = "" if scored else ", at a margin of at least two standard errors of the dense rate"
    return (
        f"FAIL needs {certain} certainty, {CORRECTED[rules.correct]} over the tests of a variant, "
        f"and {rules.min.effective_events:g} effective {events}; PASS needs {certain} for each"
        f"{margin}"
    )
