"""The verdict on an audit: rules, waivers, families, what a variant hangs on."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scotoma.audit import GateFile
from scotoma.audit.gate import Forecast
from scotoma.audit.gate import TestResult as Answer
from scotoma.config.gate import parse_rules
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import Estimate
from scotoma.numbers.enough import sampling_margin
from scotoma.verdict.gate import exit_code, verdict_of
from scotoma.verdict.gate_test import unanswered, why_too_small
from scotoma.verdict.words import hangs_on
from tests.helpers.audits import class_rows, judge, rows_at
from tests.verdict.test_deciding import RULE, TODAY, rules

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
    assert [f.where for f in calm.variants[0].tests] == [
        "FPR men",
        "FPR women",
        "error all",
        "CIE excess",
        "recall loss of class 0 beyond accuracy's",
        "recall loss of class 1 beyond accuracy's",
    ]
    harmed = judge(whole_audit({"men": 0.0, "women": 1.5}, n=4000), chosen, TODAY)
    assert (harmed.verdict, harmed.exit_code) == ("FAIL", 1)
    failed = {f.where for f in harmed.variants[0].tests if f.verdict == "FAIL"}
    assert "FPR women" in failed
    assert "FPR men" not in failed


def test_a_rule_that_finds_nothing_is_unsure_and_says_why(whole_audit: Any) -> None:
    text = (
        "rules:\n"
        "  - {id: slices, metric: slices_hurt, margin: 0.01}\n"
        "  - {id: classes, metric: fpr, over: classes, max_increase: {relative: 0.2}}\n"
    )
    (variant,) = judge(whole_audit(), parse_rules(text, "g"), TODAY).variants
    assert [(f.verdict, f.reason) for f in variant.tests] == [
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

    at = {"variant": "prune-0.9"}
    rows = [
        row
        for place, x in enumerate(rises)
        for row in rows_at(at | {"facts": {"text": f"job = {place}"}}, {"slices.effect": rise(x)})
    ]
    audit = whole_audit() | {"slices": {"prune-0.9": {}}}
    audit["rows"]["slices"] = [*rows, *rows_at(at, {"change": rise(0.0)})]
    chosen = parse_rules("rules: [{id: s, metric: slices_hurt, margin: 0.01}]", "g")
    findings = judge(audit, chosen, TODAY).variants[0].tests
    assert [finding.verdict for finding in findings] == verdicts
    unconfirmed = {"confirm": False, "mode": "batch"}
    audit["slices"]["prune-0.9"]["settings"] = unconfirmed
    (finding,) = judge(audit, chosen, TODAY).variants[0].tests
    assert finding.verdict == "UNSURE"
    assert finding.reason.startswith("slices.mode batch confirms no slice")
    asked = [finding.where for finding in findings]
    named = [f"error of slice job = {place}" for place in range(len(rises))]
    assert asked == (named or ["error of all examples, as no slice stands out"])


@pytest.mark.parametrize(
    ("loss", "verdict"), [(0.05, "FAIL"), (-0.05, "PASS"), (0.01, "UNSURE"), (0.003, "UNSURE")]
)
def test_a_class_is_hurt_where_its_recall_falls(
    whole_audit: Any, loss: float, verdict: str
) -> None:
    """Half a point of standard error, one of margin."""
    audit = whole_audit()
    own = audit["rows"]["impact"]
    own[:] = [row for row in own if row["class"] == own[0]["class"]]
    (row,) = (row for row in own if row["what"] == "beyond accuracy")
    row["number"] |= {"value": loss, "se": 0.005, "df": 20.0, "effective_events": 50.0}
    chosen = parse_rules("rules: [{id: c, metric: classes_hurt, margin: 0.01}]", "g")
    (finding,) = judge(audit, chosen, TODAY).variants[0].tests
    assert finding.verdict == verdict
    assert finding.harm_p == pytest.approx(stats.t(20).sf((loss - 0.01) / 0.005))


def test_a_rise_from_nothing_fails_nobody_and_is_pointed_out(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    for row in audit["subgroups"]["prune-0.9"]:
        for part in ("dense", "compressed", "relative", "absolute"):
            row[part]["effective_events"] = 0.0
    gate = judge(audit, rules(), TODAY)
    assert [f.verdict for f in gate.variants[0].tests] == ["PASS", "UNSURE"]
    (warning,) = gate.warnings
    assert warning.startswith(
        "prune-0.9: FPR women has too few effective events to show harm (0), but it rises by at "
        "least "
    )


WAIVED = RULE + "waivers: [{rule: fpr, variant: prune-0.9, reason: not shipped, until: 2027-03-01}]"


def test_a_waiver_holds_up_to_its_last_day(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    chosen = parse_rules(WAIVED, "gate.yaml")
    before = judge(audit, chosen, TODAY)
    assert (before.verdict, before.warnings) == ("PASS", ())
    assert [f.verdict for f in before.variants[0].tests] == ["PASS", "FAIL"]
    after = judge(audit, chosen, TODAY + datetime.timedelta(days=1))
    assert after.verdict == "FAIL"
    assert after.warnings == (
        "the waiver of fpr for prune-0.9 expired after 2027-03-01: not shipped",
    )


def test_a_waiver_changes_no_other_test(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    text = WAIVED.replace("rules: [", "rules: [{id: cie, metric: cie_share_excess, max: 0.0}, ")
    waived = judge(audit, parse_rules(text, "g"), TODAY).variants[0].tests
    bare = judge(audit, parse_rules(text.partition("waivers")[0], "g"), TODAY).variants[0].tests
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
            [f.harm_p_adjusted for f in variant.tests],
            [f.harm_p_adjusted for f in lone.tests],
        )


def test_unsure_ends_with_0_or_3_as_the_rules_say(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.3, "women": 0.3}, n=1500)
    assert judge(audit, rules(), TODAY).verdict == "UNSURE"
    assert judge(audit, rules(), TODAY).exit_code == 0
    assert judge(audit, rules("on_unsure: fail"), TODAY).exit_code == 3


# --- which groups are asked about -----------------------------------------------------------------


@pytest.fixture(scope="module")
def crossed(whole_audit: Any) -> dict[str, Any]:
    """Two attributes and one of their intersections, which has 40 examples."""
    audit: dict[str, Any] = whole_audit(
        {"sex=male": 0.0, "sex=female": 0.0, "age=old": 1.5}, n=4000
    )
    sizes = {"sex=male": 4000, "sex=female": 4000, "age=old": 4000, "sex=male,age=old": 40}
    rows = [row for row in audit["subgroups"]["prune-0.9"] if row["group"] == "sex=male"]
    cell = copy.deepcopy(rows)
    for row in cell:
        row["group"] = "sex=male,age=old"
        row["absolute"] |= Estimate.on_scale(0.0, 0.05, 30.0, n=40, members=10).as_dict()
        for part in ("dense", "compressed", "relative", "absolute"):
            row[part]["n"] = 40
    audit["subgroups"]["prune-0.9"] += cell
    audit["groups"] = [audit["groups"][0]] + [
        {"key": key, "name": key.replace(",", " & "), "n": n} for key, n in sizes.items()
    ]
    return audit


def asked(audit: dict[str, Any], chosen: str, top: str = "") -> dict[str, str]:
    text = f"rules: [{{id: e, metric: error, max_increase: {{absolute: 0.02}}{chosen}}}]\n{top}"
    (variant,) = judge(audit, parse_rules(text, "gate.yaml"), TODAY).variants
    return {finding.group: finding.verdict for finding in variant.tests}


EVERY = ["sex=male", "sex=female", "age=old", "sex=male,age=old"]
CHOICES = [
    ("", EVERY),
    (", attributes: [sex]", ["sex=male", "sex=female"]),
    (", attributes: [sex, age]", EVERY),
    (", exclude: ['sex=male']", ["sex=female", "age=old"]),
    (", exclude: ['sex=male,age=old']", ["sex=male", "sex=female", "age=old"]),
    (", exclude: ['age=old,sex=male']", None),  # the key as the audit writes it
    (", min_examples: 40", EVERY),
    (", min_examples: 41", ["sex=male", "sex=female", "age=old"]),
    (", attributes: [age], min_examples: 41", ["age=old"]),
]


@pytest.mark.parametrize(("chosen", "groups"), CHOICES)
def test_a_rule_asks_about_the_groups_that_it_chooses(
    crossed: dict[str, Any], chosen: str, groups: list[str] | None
) -> None:
    if groups is None:
        with pytest.raises(DataError, match="which no test example has"):
            asked(crossed, chosen)
    else:
        assert list(asked(crossed, chosen)) == groups


def test_a_rule_that_chooses_no_group_is_unsure(crossed: dict[str, Any]) -> None:
    text = "rules: [{id: e, metric: error, max_increase: {relative: 0.2}, min_examples: 4001}]"
    (variant,) = judge(crossed, parse_rules(text, "gate.yaml"), TODAY).variants
    assert [(f.verdict, f.reason) for f in variant.tests] == [
        ("UNSURE", "the audit has no such groups")
    ]


MISSPELT = {
    "must": (
        "",
        "must: [sexx]",
        "must names 'sexx', which no test example has; did you mean 'sex'?",
    ),
    "must, a key": (
        "",
        "must: ['sex=mal']",
        "must names 'sex=mal', which no test example has; did you mean 'sex=male'?",
    ),
    "attributes": (
        ", attributes: [agee]",
        "",
        "attributes of rule e names 'agee', which no test example has; did you mean 'age'?",
    ),
    "exclude": (
        ", exclude: ['age=young']",
        "",
        "exclude of rule e names 'age=young', which no test example has; did you mean 'age=old'",
    ),
    "a waiver": (
        "",
        "waivers: [{rule: e, variant: prune-0.9, group: women, reason: x, until: 2027-03-01}]",
        "group of the waiver of rule e names 'women', which no test example has",
    ),
}


@pytest.mark.parametrize("place", MISSPELT)
def test_a_misspelt_group_is_refused_in_one_sentence(crossed: dict[str, Any], place: str) -> None:
    chosen, top, sentence = MISSPELT[place]
    with pytest.raises(DataError) as caught:
        asked(crossed, chosen, top)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_group_too_small_to_judge_is_unsure_only_where_it_must_be_judged(
    crossed: dict[str, Any],
) -> None:
    """40 examples at 5%: 2 errors expected, and no change at all is known to 9 points."""
    cell = "sex=male,age=old"
    assert asked(crossed, "")[cell] == "NOT JUDGED"
    assert asked(crossed, "", f"must: ['{cell}']")[cell] == "UNSURE"
    # An attribute that must be judged names its own groups, not the intersections with others.
    assert asked(crossed, "", "must: [age]")[cell] == "NOT JUDGED"


def test_a_waiver_may_be_for_one_group(crossed: dict[str, Any]) -> None:
    waiver = "{rule: e, variant: prune-0.9, group: age=old, reason: x, until: 2027-03-01}"
    text = "rules: [{id: e, metric: error, max_increase: {absolute: 0.02}}]\n"
    (bare,) = judge(crossed, parse_rules(text, "g"), TODAY).variants
    (variant,) = judge(crossed, parse_rules(f"{text}waivers: [{waiver}]", "g"), TODAY).variants
    assert (bare.verdict, variant.verdict) == ("FAIL", "PASS")
    waived = [f.group for f in variant.tests if f.waived is not None]
    assert waived == ["age=old"]


# --- margins that a test set can resolve ----------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "n", "limit"),
    [(0.1, 900, 0.005), (0.1, 90_000, 0.005), (0.0, 98, 0.01), (0.5, 400, 0.04), (0.999, 50, 0.2)],
)
def test_the_sampling_margin_is_that_of_the_paper_and_pencil(
    rate: float, n: int, limit: float
) -> None:
    """margin = max(limit, 2 sqrt(p (1 - p) / n)), p the dense rate, 1/(n + 2) at least."""
    p = max(rate, 1 / (n + 2))
    p = min(p, 1 - 1 / (n + 2))
    assert sampling_margin(rate, n) == pytest.approx(2 * (p * (1 - p) / n) ** 0.5)
    expected = max(limit, 2 * (p * (1 - p) / n) ** 0.5)
    fewer = n * rate < 10 and 3.92 / (n + 4) > expected
    small = fewer or expected > max(limit, 0.1)
    assert bool(why_too_small(rate, n, margin=limit, coarsest=0.1)) == small


@given(
    rate=st.floats(0, 1), n=st.integers(1, 5000), limit=st.floats(0, 0.3),
    coarsest=st.floats(0.001, 0.5),
)  # fmt: skip
def test_too_small_is_the_slow_twins_answer(
    rate: float, n: int, limit: float, coarsest: float
) -> None:
    own = sampling_margin(rate, n)
    margin = max(limit, own)
    never = n * rate < 10 and 3.92 / (n + 4) > margin
    coarse = margin > limit and margin > coarsest
    assert bool(why_too_small(rate, n, margin=limit, coarsest=coarsest)) == (never or coarse)


def test_the_margin_is_known_before_compression(whole_audit: Any) -> None:
    """Whatever compression does, the margin that a PASS keeps stays where it was."""
    margins = []
    for harm in (0.0, 1.5):
        audit = whole_audit({"men": 0.0, "women": harm}, n=4000)
        findings = judge(audit, rules(), TODAY).variants[0].tests
        margins.append([finding.margins.clearing for finding in findings])
        rows = [row["dense"] for row in audit["subgroups"]["prune-0.9"] if row["metric"] == "fpr"]
        known = [(row["value"], row["n"]) for row in rows[1:]]  # the first is of all
        slow = [max(0.005, 2 * (rate * (1 - rate) / n) ** 0.5) for rate, n in known]
        assert margins[-1] == pytest.approx(slow)
    assert margins[0] == margins[1]


# --- more than 20 classes -------------------------------------------------------------------------


def classes(
    whole_audit: Any, losses: Sequence[float], *, n: int = 400, share: float = 0.01
) -> GateFile:
    """The verdict on losses of recall, fractions, of classes in which 1% of answers changed."""
    audit = whole_audit()
    variance = share / n
    audit["rows"]["impact"] = [
        row for place, loss in enumerate(losses) for row in class_rows(
            "prune-0.9", f"c{place}",
            {"dense": 0.8, "compressed": 0.8 - loss,
             "beyond accuracy": Estimate.on_scale(
                 loss, variance**0.5, 50.0, n=n, members=5, events=60.0
             ).as_dict()},
            {"examples": variance, "members": 0.0, "residual": 0.0},
        )
    ]  # fmt: skip
    chosen = parse_rules("rules: [{id: c, metric: classes_hurt, margin: 0.01}]", "g")
    return judge(audit, chosen, TODAY)


def test_many_classes_are_judged_by_the_spread_of_their_losses(whole_audit: Any) -> None:
    noise = np.random.default_rng(0).normal(0, 0.005, 100)
    (few,) = classes(whole_audit, noise[:20]).variants
    assert few.tests[0].where == "recall loss of class c0 beyond accuracy's"
    assert len(few.tests) == 20
    calm = classes(whole_audit, noise).variants[0]
    first, *rest = calm.tests
    assert first.where == "spread of the recall losses of 100 classes beyond accuracy's"
    assert (calm.verdict, first.verdict, len(rest)) == ("PASS", "PASS", 100)
    assert {f.verdict for f in rest} == {"NOT JUDGED"}
    assert calm.too_small == ()  # they are judged, together
    spread = noise + np.random.default_rng(1).normal(0, 0.05, 100)
    harmed = classes(whole_audit, spread).variants[0]
    assert (harmed.verdict, harmed.tests[0].verdict) == ("FAIL", "FAIL")


def test_one_class_of_many_that_is_lost_fails_by_itself(whole_audit: Any) -> None:
    noise = np.random.default_rng(0).normal(0, 0.005, 100)
    noise[7] += 0.2
    variant = classes(whole_audit, noise).variants[0]
    failed = [f.class_name for f in variant.tests if f.verdict == "FAIL"]
    assert "c7" in failed


# --- what a variant hangs on ----------------------------------------------------------------------


def leaning(towards: str, by: str | None, high: float | None, now: int = 10) -> Answer:
    known = {"leaning": towards, "by": by, "low": high and high / 2, "high": high, "now": now}
    outlook = Forecast.model_validate(known | {"passing_margin": 0.02, "sentence": ""})
    return unanswered("fpr", "fpr", "FPR old", outlook=outlook)


@pytest.mark.parametrize(
    ("findings", "chosen"),
    [
        # One harm is enough to fail: the first that models would show, or else examples.
        ([leaning("FAIL", "models", 40), leaning("FAIL", "models", 30)], 1),
        ([leaning("FAIL", "models", 40), leaning("PASS", "models", 20)], 0),
        ([leaning("FAIL", "examples", 20), leaning("FAIL", "models", 200)], 1),
        ([leaning("FAIL", None, None), leaning("FAIL", "examples", 900)], 1),
        # All must be cleared to pass: the last of them.
        ([leaning("PASS", "models", 40), leaning("PASS", "models", 60)], 1),
        ([leaning("PASS", "models", 60), leaning("PASS", "examples", 20)], 1),
        ([leaning("PASS", None, None), leaning("PASS", "examples", 900)], 0),
    ],
)
def test_the_outlook_of_a_variant_is_the_first_harm_or_the_last_to_clear(
    findings: list[Answer], chosen: int
) -> None:
    assert hangs_on(findings) is findings[chosen]


def test_a_variant_of_which_nothing_is_large_enough_is_unsure(whole_audit: Any) -> None:
    small, passed = (
        unanswered("fpr", "fpr", "FPR old", verdict=verdict) for verdict in ("NOT JUDGED", "PASS")
    )
    assert verdict_of([small]) == "UNSURE"
    assert verdict_of([small, passed]) == "PASS"


# --- the variant that is shipped ------------------------------------------------------------------


def test_the_exit_code_may_be_that_of_the_variant_that_is_shipped(whole_audit: Any) -> None:
    audit = whole_audit({"men": 0.0, "women": 1.5}, n=4000)
    calm = whole_audit(n=20_000, paired=True, variants=("int8",))
    for part in ("subgroups", "divergence", "accuracy"):
        audit[part]["int8"] = calm[part]["int8"]
    audit["rows"]["impact"] += calm["rows"]["impact"]
    audit["variants"].append({"name": "int8", "kind": "int8", "members": 10})
    gate = judge(audit, rules(), TODAY)
    assert exit_code(gate) == 1
    assert (exit_code(gate, "prune-0.9"), exit_code(gate, "int8")) == (1, 0)
    with pytest.raises(ConfigError) as caught:
        exit_code(gate, "int9")
    assert str(caught.value) == (
        "--variant must name a variant that was judged, got 'int9'; did you mean 'int8'?"
    )
    with pytest.raises(ConfigError, match="got 'dense'"):
        exit_code(gate, "dense")
