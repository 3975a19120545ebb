"""The verdict on an audit: rules, waivers, families, what a variant hangs on."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scotoma.config.gate import parse_rules
from scotoma.power import MembersRange
from scotoma.uncertainty import Estimate
from scotoma.verdict import Finding, VariantVerdict
from tests.audits import judge
from tests.verdict.test_deciding import RULE, TODAY, question, rules

# --- an audit -------------------------------------------------------------------------------------


def test_an_audit_without_harm_passes_and_with_harm_fails(whole_audit: Any) -> None:
    text = (
        "rules:\n"
        "  - {id: fpr, metric: fpr, max_increase: {relative: 0.2, absolute: 0.005}}\n"
        "  - {id: all, metric: error, over: all, max_increase: {relative: 0.2}}\n"
        "  - {id: cie, metric: cie_share_excess, max: 0.01}\n"
        "  - {id: classes, metric: classes_hurt, margin: 0.01}\n"
    )
    chosen = parse_rules(text, "gate.yaml")
    calm = judge(whole_audit(n=20_000, paired=True), chosen, TODAY)
    assert (calm.verdict, calm.exit_code) == ("PASS", 0)
    assert [f.question.where for f in calm.variants[0].findings] == [
        "FPR men",
        "FPR women",
        "error all",
        "CIE excess",
        "recall loss of class 0",
        "recall loss of class 1",
    ]
    harmed = judge(whole_audit({"men": 0.0, "women": 1.5}, n=4000), chosen, TODAY)
    assert (harmed.verdict, harmed.exit_code) == ("FAIL", 1)
    failed = {f.question.where for f in harmed.variants[0].findings if f.verdict == "FAIL"}
    assert "FPR women" in failed
    assert "FPR men" not in failed


def test_a_rule_that_finds_nothing_is_unsure_and_says_why(whole_audit: Any) -> None:
    text = (
        "rules:\n"
        "  - {id: slices, metric: slices_hurt, margin: 0.01}\n"
        "  - {id: classes, metric: fpr, over: classes, max_increase: {relative: 0.2}}\n"
    )
    (variant,) = judge(whole_audit(), parse_rules(text, "g"), TODAY).variants
    assert [(f.verdict, f.reason) for f in variant.findings] == [
        ("UNSURE", "the audit measured no slices"),
        ("UNSURE", "label.positive makes the fpr one rate; ask over groups or all"),
    ]


@pytest.mark.parametrize(
    ("rises", "verdicts"),
    [([0.2, 0.011], ["FAIL", "UNSURE"]), ([], ["PASS"]), ([0.002], ["PASS"])],
)
def test_slices_are_hurt_where_their_error_rises_beyond_the_margin(
    whole_audit: Any, rises: list[float], verdicts: list[str]
) -> None:
    """A fifth of a point of standard error; without a slice the whole counts: no rise."""

    def rise(value: float) -> dict[str, Any]:
        return Estimate.on_scale(value, 0.002, 9.0, n=300, members=10).as_dict()

    slices = [{"text": f"job = {place}", "effect": rise(x)} for place, x in enumerate(rises)]
    audit = whole_audit() | {"slices": {"prune-0.9": {"slices": slices, "change": rise(0.0)}}}
    chosen = parse_rules("rules: [{id: s, metric: slices_hurt, margin: 0.01}]", "g")
    findings = judge(audit, chosen, TODAY).variants[0].findings
    assert [finding.verdict for finding in findings] == verdicts
    asked = [finding.question.where for finding in findings]
    named = [f"error of slice job = {place}" for place in range(len(rises))]
    assert asked == (named or ["error of all examples, as no slice stands out"])


@pytest.mark.parametrize(
    ("normalised", "verdict"), [(-5.0, "FAIL"), (5.0, "PASS"), (-1.0, "UNSURE"), (0.0, "UNSURE")]
)
def test_a_class_is_hurt_where_its_recall_falls(
    whole_audit: Any, normalised: float, verdict: str
) -> None:
    """The audit has gains of recall in points; half a point of standard error, one of margin."""
    audit = whole_audit()
    row = audit["classes"]["prune-0.9"][0] | {"normalised": normalised, "se": 0.5, "df": 20.0}
    audit["classes"]["prune-0.9"] = [row | {"effective_events": 50.0, "reason": ""}]
    chosen = parse_rules("rules: [{id: c, metric: classes_hurt, margin: 0.01}]", "g")
    (finding,) = judge(audit, chosen, TODAY).variants[0].findings
    assert finding.verdict == verdict
    assert finding.harm_p == pytest.approx(stats.t(20).sf((-normalised - 1) / 0.5))


def test_a_rise_from_nothing_is_not_tested_and_pointed_out(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    for row in audit["subgroups"]["prune-0.9"]:
        for part in ("dense", "compressed", "relative", "absolute"):
            row[part]["effective_events"] = 0.0
    gate = judge(audit, rules(), TODAY)
    assert gate.verdict == "UNSURE"
    (warning,) = gate.warnings
    assert warning.startswith(
        "prune-0.9: FPR women is not tested (0 effective events, min.effective_events asks for "
        "10), but it rises by at least "
    )


WAIVED = RULE + "waivers: [{rule: fpr, variant: prune-0.9, reason: not shipped, until: 2027-03-01}]"


def test_a_waiver_holds_up_to_its_last_day(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    chosen = parse_rules(WAIVED, "gate.yaml")
    before = judge(audit, chosen, TODAY)
    assert (before.verdict, before.warnings) == ("PASS", ())
    assert [f.verdict for f in before.variants[0].findings] == ["PASS", "FAIL"]
    after = judge(audit, chosen, TODAY + datetime.timedelta(days=1))
    assert after.verdict == "FAIL"
    assert after.warnings == (
        "the waiver of fpr for prune-0.9 expired after 2027-03-01: not shipped",
    )


def test_a_waiver_changes_no_other_test(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    text = WAIVED.replace("rules: [", "rules: [{id: cie, metric: cie_share_excess, max: 0.0}, ")
    waived = judge(audit, parse_rules(text, "g"), TODAY).variants[0].findings
    bare = judge(audit, parse_rules(text.partition("waivers")[0], "g"), TODAY).variants[0].findings
    np.testing.assert_equal([f.harm_p_adjusted for f in waived], [f.harm_p_adjusted for f in bare])


def test_a_waiver_of_a_variant_that_is_not_there_is_named(whole_audit: Any) -> None:
    text = WAIVED.replace("prune-0.9", "prune-0.99")
    (warning,) = judge(whole_audit(), parse_rules(text, "g"), TODAY).warnings
    assert warning == "the waiver of fpr is for prune-0.99, which this audit does not have"


@pytest.mark.parametrize("correct", ["bh", "none"])
def test_corrections_that_are_no_gates_are_warned_about(whole_audit: Any, correct: str) -> None:
    (warning,) = judge(whole_audit(), rules(f"correct: {correct}"), TODAY).warnings
    assert warning.startswith(f"correct: {correct} ")
    assert warning.endswith("; use holm")


def test_each_variant_is_a_family_of_its_own(whole_audit: Any) -> None:
    lone = judge(whole_audit(), rules(), TODAY).variants[0]
    names = tuple(f"prune-0.{place}" for place in range(1, 9))
    many = judge(whole_audit(variants=names), rules(), TODAY).variants
    for variant in many:
        np.testing.assert_equal(
            [f.harm_p_adjusted for f in variant.findings],
            [f.harm_p_adjusted for f in lone.findings],
        )


def test_unsure_ends_with_0_or_3_as_the_rules_say(whole_audit: Any) -> None:
    audit = whole_audit(n=300)
    assert judge(audit, rules(), TODAY).verdict == "UNSURE"
    assert judge(audit, rules(), TODAY).exit_code == 0
    assert judge(audit, rules("on_unsure: fail"), TODAY).exit_code == 3


def needing(towards: str, high: float, examples: float = math.nan) -> Finding:
    needed = MembersRange("old", towards, high / 2, high, 10, 900, examples=examples)
    return Finding(question(), "UNSURE", 0.1, 0.2, 0.9, needed=needed)


@pytest.mark.parametrize(
    ("findings", "chosen"),
    [
        # One harm is enough to fail: the first that members would show.
        ([needing("harm", 40), needing("harm", 30), needing("clear", 20)], 1),
        ([needing("harm", math.inf, 900), needing("harm", 30)], 1),
        # All must be cleared to pass: the last, and where members cannot, the most examples.
        ([needing("clear", 40), needing("clear", 60)], 1),
        ([needing("clear", 60), needing("clear", math.inf, 900)], 1),
        ([needing("clear", math.inf, 2000), needing("clear", math.inf, 900)], 0),
    ],
)
def test_the_outlook_of_a_variant_is_the_first_harm_or_the_last_to_clear(
    findings: list[Finding], chosen: int
) -> None:
    variant = VariantVerdict("prune-0.9", 10, tuple(findings))
    assert variant.outlook is findings[chosen]
