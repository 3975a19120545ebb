"""What the first screen and the gate's section show: sentences, cells and drawn rows."""

from __future__ import annotations

from typing import Any

import pytest

from scotoma.audit import Audit
from scotoma.audit.findings import Findings, in_focus
from scotoma.audit.gate import GateFile
from scotoma.config.gate import default_rules
from scotoma.document import Facts
from scotoma.document.charts import filled
from scotoma.verdict.gate_section import gate_section
from scotoma.verdict.section import verdict_section
from scotoma.verdict.words import decided_words, next_steps, to_do, verdict_sentence
from tests.helpers.audits import gate_file, whole
from tests.helpers.sections import chart, table, texts, unlabelled

VARIANTS: list[dict[str, Any]] = [
    {"name": "dense", "members": 10},
    {"name": "int8", "members": 10, "bits": 8, "paired": True},
    {"name": "prune-0.9", "members": 10, "sparsity": 0.9},
    {"name": "prune-0.5", "members": 10, "sparsity": 0.5},
]
OF_ALL = {
    "group": "all", "metric": "error",
    "dense": {"value": 0.0548}, "compressed": {"value": 0.0805, "effective_events": 90},
    "absolute": {"value": 0.0257, "low": 0.0173, "high": 0.034, "n": 1798},
    "relative": {"value": 0.468},
}  # fmt: skip
OF_OLD = {
    "group": "age=old", "metric": "error",
    "dense": {"value": 0.1, "n": 899}, "compressed": {"value": 0.2, "n": 899,
    "effective_events": 90}, "relative": {"value": 1.0},
    "absolute": {"value": 0.1, "low": 0.08, "high": 0.12, "n": 899, "se": 0.01},
}  # fmt: skip
DIFFERING = {"value": 0.0539, "low": 0.0462, "high": 0.0629, "n": 899}
CONTENT: dict[str, Any] = {
    "variants": VARIANTS,
    "groups": [{"key": "all", "name": "all", "n": 1798}, {"key": "age=old", "name": "old"}],
    "examples": {"test": 1798, "clusters": 899, "classes": ["a", "b", "c"]},
    "subgroups": {name: [OF_ALL] for name in ("int8", "prune-0.9", "prune-0.5")},
    "divergence": {
        "int8": {"cie": {"paired": True}, "flips": {"value": 0.001, "n": 899}},
        "prune-0.9": {"cie": {"disagreement": DIFFERING, "floor": {"value": 0.0316}}},
        "prune-0.5": {"cie": {"disagreement": DIFFERING}},
    },
}


def one_test(where: str, verdict: str, **more: Any) -> dict[str, Any]:
    """A test of the gate, decided by a change in points."""
    interval = {"value": 0.0224, "low": 0.0135, "high": 0.0312, "n": 899, "level": 0.995}
    decided = {"kind": "absolute", "margin": 0.01, "interval": interval}
    shown = {
        "rule": "cie", "metric": "cie_share_excess", "where": where, "verdict": verdict,
        "decided_by": decided, "margins": {"absolute": 0.01}, "harm_p_adjusted": 0.001,
    }  # fmt: skip
    return shown | more


OUTLOOK = {
    "leaning": "PASS", "now": 10,
    "sentence": "probably harmless, but not proven: this test would pass today if you "
    "accepted 2.05 points",
}  # fmt: skip
SMALL = one_test("recall of class 0", "NOT JUDGED", decided_by=None, reason="too small")
RELATIVE = one_test(
    "error old", "FAIL", rule="error_groups", metric="error", harm_p_adjusted=0.02,
    margins={"relative": 0.2, "absolute": 0.005},
    decided_by={"kind": "relative", "margin": 0.2,
                "interval": {"value": 0.482, "low": 0.203, "high": 2.825, "n": 899}},
)  # fmt: skip
LEVEL = one_test(
    "clarify.DI", "UNSURE", metric="clarify.DI", margins={},
    level={"side": "at least", "limit": 0.8, "neutral": 1.0, "of": "mean"},
    decided_by={"kind": "level", "margin": 0.8, "subject": "the mean of 10 models",
                "interval": {"value": 0.9, "low": 0.7, "high": 1.1, "n": 40}},
)  # fmt: skip
GATE = {
    "verdict": "FAIL", "variants_tried": 3, "warnings": ["Mind the step."],
    "rules": default_rules(positive=False).model_dump(mode="json"),
    "variants": [
        {"name": "int8", "verdict": "PASS", "too_small": ["recall of class 0 (83 examples)"],
         "tests": [one_test("CIE excess", "PASS"), SMALL]},
        {"name": "prune-0.9", "verdict": "FAIL",
         "tests": [RELATIVE, one_test("CIE excess", "FAIL"), LEVEL]},
        {"name": "prune-0.5", "verdict": "UNSURE", "outlook": f"error all {OUTLOOK['sentence']}",
         "tests": [one_test("error all", "UNSURE", outlook=OUTLOOK), LEVEL]},
    ],
}  # fmt: skip


@pytest.fixture
def audit() -> Audit:
    return whole(CONTENT)


@pytest.fixture
def gate() -> GateFile:
    return gate_file(GATE)


def test_the_worst_verdict_is_in_focus(audit: Audit, gate: GateFile) -> None:
    assert in_focus(audit, gate).name == "prune-0.9"
    assert in_focus(audit, None).name == "prune-0.9"  # the most compressed
    passed = gate_file({**GATE, "variants": [v | {"verdict": "PASS"} for v in GATE["variants"]]})
    assert in_focus(audit, passed).name == "prune-0.9"


def test_a_variant_has_one_sentence_to_act_on(gate: GateFile) -> None:
    assert [to_do(variant) for variant in gate.variants] == [
        "May ship: harm beyond the margin is ruled out in its only test.",
        "Do not ship: CIE excess +2.24 [+1.35, +3.12] points, margin +1.00 points; 1 more test "
        "fails.",
        "Hold: error all +2.24 [+1.35, +3.12] points, margin +1.00 points; 1 more test is open. "
        "Probably harmless, but not proven. This test would pass today if you accepted 2.05 "
        "points.",
    ]
    assert verdict_sentence(gate) == (
        "int8 may ship by these rules, which could not judge recall of class 0 (83 examples): too "
        "small; prune-0.9 fails on CIE excess; UNSURE for prune-0.5: the test set is too small."
    )


def test_numbers_that_decide_stand_in_their_unit(gate: GateFile) -> None:
    tests = [test for variant in gate.variants for test in variant.tests]
    words = {test.where: decided_words(test) for test in tests}
    assert words["error old"] == "+48.2% [+20.3, +282.5], margin +20.0%"
    assert words["clarify.DI"] == (
        "0.900 [0.700, 1.100] (the mean of 10 models), limit at least 0.8"
    )
    assert words["recall of class 0"] == "too small"


def test_a_pass_is_given_beside_what_blocks_it() -> None:
    blocked = {"name": "int8", "verdict": "UNSURE", "blocked": ["8 rows were guessed."]}
    judged = gate_file({"variants": [blocked]})
    assert verdict_sentence(judged) == "UNSURE for int8: 8 rows were guessed."
    assert to_do(judged.variants[0]) == "Hold: 8 rows were guessed."
    nothing = gate_file({"variants": [{"name": "int8", "verdict": "PASS"}]})
    assert to_do(nothing.variants[0]) == "May ship: no rule asked anything."


def test_steps_are_for_every_kind_of_verdict(gate: GateFile) -> None:
    steps = next_steps(gate, mitigated="Without training again: x.")
    assert [step.split(":")[0].split(".")[0] for step in steps] == [
        "Do not ship prune-0", "Without training again", "Before int8 ships",
    ]  # fmt: skip
    (first, *_) = next_steps(gate, labelled=False)
    assert first.startswith("Before prune-0.9 ships: label the examples")
    waived = {"waived": "old", "waived_until": "2027-03-01"}
    own = [{"name": "int8", "verdict": "PASS", "tests": [one_test("x", "FAIL", **waived)]}]
    assert next_steps(gate_file({"variants": own}))[-1] == (
        "Not counted, because it is waived until 2027-03-01: cie for int8."
    )


def test_the_first_table_has_a_row_a_variant(audit: Audit, gate: GateFile) -> None:
    section = verdict_section(Findings(audit, gate, "prune-0.9"))
    assert (section.verdict, list(section.warnings)) == ("FAIL", ["Mind the step."])
    shown = table(section, "variants")
    rows = {row[0]: row[1:] for row in texts(shown)}
    assert list(rows) == ["int8", "prune-0.9", "prune-0.5"]
    verdict, _, accuracy, flips, affected = rows["prune-0.9"]
    assert verdict == "FAIL"
    assert accuracy == "−2.57 [−3.40, −1.73] (94.52% to 91.95%; n 1,798)"
    assert flips == "5.39% [4.62, 6.29] (two dense models 3.16%; n 899)"
    assert affected == "+2.57 [+1.73, +3.40] (error of all; n 1,798)"
    assert rows["int8"][3].startswith("0.10% (no interval; same models before and after; n 899)")
    assert "Widest margin of a test that passed: 1.00 points (CIE excess)" in shown.note
    assert "another training run" in shown.note


def test_a_group_that_loses_more_than_the_rest_is_named() -> None:
    whole_of = OF_ALL | {"absolute": OF_ALL["absolute"] | {"se": 0.004}}
    rows = {"subgroups": {"prune-0.9": [whole_of, OF_OLD], "int8": [], "prune-0.5": []}}
    groups = [{"key": "all", "name": "all", "n": 1798}, {"key": "age=old", "name": "old", "n": 89}]
    shown = whole({**CONTENT, **rows, "groups": groups})
    row = texts(table(verdict_section(Findings(shown, None, "prune-0.9")), "variants"))[1]
    assert row[3] == "+10.00 [+8.00, +12.00] (error of old; n 899)"
    assert texts(table(verdict_section(Findings(shown, None, "int8")), "variants"))[0][1] == (
        "the error of all examples was not measured"
    )


def test_without_labels_the_most_changed_group_stands_there(gate: GateFile) -> None:
    ledger = [
        {"group": "all", "changed": {"value": 0.05, "low": 0.04, "high": 0.06, "n": 10}},
        {"group": "age=old", "changed": {"value": 0.3, "low": 0.2, "high": 0.4, "n": 7}},
    ]
    divergence = {name: {"ledger": ledger} for name in ("int8", "prune-0.9", "prune-0.5")}
    content = {**CONTENT, "subgroups": {}, "divergence": divergence}
    section = verdict_section(Findings(unlabelled(content), gate, "int8"))
    shown = table(section, "variants")
    assert [column.key for column in shown.columns] == [
        "variant", "gate", "do", "flips", "affected",
    ]  # fmt: skip
    assert texts(shown)[0][-1] == "30.00% [20.00, 40.00] (old: changed; n 7)"
    assert section.steps[0].startswith("Before prune-0.9 ships: label")


def test_few_models_and_no_gate_are_said() -> None:
    few = [one | {"members": 4} for one in VARIANTS]
    section = verdict_section(Findings(whole({**CONTENT, "variants": few}), None, "int8"))
    assert (section.verdict, section.title) == ("", "Verdict: none")
    assert section.warnings[0].startswith("Few models: a variant has fewer than 5.")
    assert section.answer == ["No gate was applied to this audit. scotoma gate RUN judges it."]


def test_every_test_stands_in_the_gate_with_the_interval_that_decides(
    audit: Audit, gate: GateFile
) -> None:
    section = gate_section(Findings(audit, gate, "prune-0.9"))
    assert section is not None
    shown = table(section, "gate")
    titles = [column.title for column in shown.columns]
    rows = [dict(zip(titles, row, strict=True)) for row in texts(shown)]
    assert [(row["Variant"], row["Test"], row["Gate"]) for row in rows] == [
        ("prune-0.9", "error old", "FAIL"),
        ("prune-0.9", "CIE excess", "FAIL"),
        ("prune-0.9", "clarify.DI ≥ 0.8, mean", "UNSURE"),
        ("int8", "CIE excess", "PASS"),
        ("int8", "recall of class 0", "NOT JUDGED"),
        ("prune-0.5", "error all", "UNSURE"),
        ("prune-0.5", "clarify.DI ≥ 0.8, mean", "UNSURE"),
    ]
    by = {(row["Variant"], row["Test"]): row for row in rows}
    old = by["prune-0.9", "error old"]
    assert old["Change, relative"] == "+48.2% [+20.3, +282.5]"
    assert (old["Margin or limit"], old["n"]) == ("+20.0% and +0.50 points", "899")
    assert old["In margins"] == "+2.410 [+1.015, +14.125]"
    assert by["int8", "CIE excess"]["Change, points"] == "+2.24 [+1.35, +3.12]"
    level = by["prune-0.9", "clarify.DI ≥ 0.8, mean"]
    assert level["Level"] == "0.900 [0.700, 1.100] (the mean of 10 models)"
    assert level["In margins"] == "+0.500 [−0.500, +1.500]"  # turned: the limit lies below
    assert by["int8", "recall of class 0"]["What would settle it"] == "too small"
    assert by["prune-0.5", "error all"]["What would settle it"] == OUTLOOK["sentence"]
    (rules,) = (part for part in section.parts if isinstance(part, Facts))
    assert rules.rows[0][1].startswith("a variant fails if the error of any group rises by more")


def test_what_is_drawn_lies_inside_the_axis(audit: Audit, gate: GateFile) -> None:
    section = gate_section(Findings(audit, gate, "prune-0.9"))
    assert section is not None
    one = chart(section, "gate")
    assert "FAIL (triangles): 2; UNSURE (diamonds): 3; PASS (circles): 1." in one.summary
    assert "1 not judged are left out." in one.summary
    drawn = filled(one, list(one.table.rows))["data"]["values"]
    old = next(row for row in drawn if row["test"] == "error old")
    assert (old["at"], old["at_low"], old["at_high"]) == (2.41, pytest.approx(1.015), 6.0)
    assert (old["goes_left"], old["goes_right"], old["drawn"]) == (False, True, True)
    small = next(row for row in drawn if row["verdict"] == "NOT JUDGED")
    assert not small["drawn"]
    assert gate_section(Findings(audit, None, "prune-0.9")) is None
