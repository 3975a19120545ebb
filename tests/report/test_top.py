"""The top of the page: who reads only that is not misled, and a reviewer finds five answers."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from scotoma.report.answers import answers, facts, in_focus, next_steps, verdict_sentence
from tests.report.drawing import audit_of, gate_of, readable
from tests.report.reading import Page, cell, points


def section(page: str, name: str) -> str:
    """Text of a section, on one line."""
    (inside,) = re.findall(rf'<section aria-labelledby="{name}".*?</section>', page, re.DOTALL)
    return " ".join(Page(inside).text.split())


def test_the_verdict_comes_first_with_what_decided_it(audit: Any) -> None:
    text = section(audit.page, "verdict")
    assert re.match(rf"Verdict: \S {audit.gate['verdict']} ", text)
    assert verdict_sentence(gate_of(audit.gate)) in text
    assert audit.page.index('id="verdict"') < audit.page.index('id="questions"')
    decided = section(audit.page, "gate")
    for variant in audit.gate["variants"]:
        assert re.search(rf"{re.escape(variant['name'])} \S {variant['verdict']} ", decided)
        for line in variant["sentences"]:
            assert " ".join(line.split()) in decided


def test_four_numbers_stand_at_the_top_each_with_interval_and_n(audit: Any) -> None:
    text = section(audit.page, "verdict")
    name = in_focus(audit_of(audit.content), gate_of(audit.gate)).name
    rows = [r for r in audit.content["subgroups"][name] if r["metric"] == "error"]
    cie = audit.content["divergence"][name]["cie"]
    whole = next(row for row in rows if row["group"] == "all")["absolute"]
    known = [row for row in rows if row["compressed"]["effective_events"] >= 10]
    worst = max(known, key=lambda row: row["absolute"]["low"])
    turned = {**whole, "value": -whole["value"], "low": -whole["high"], "high": -whole["low"]}
    for shown in (points(turned), points(cie["excess"]), points(worst["absolute"])):
        assert shown in text
    assert text.count("; n ") == 4
    assert f"{cie['cie']['count']} CIEs" in text


def test_five_questions_are_answered_each_a_click_from_its_evidence(audit: Any) -> None:
    page = Page(audit.page)
    text = section(audit.page, "questions")
    name = in_focus(audit_of(audit.content), gate_of(audit.gate)).name
    asked = (
        "Which variant may ship?",
        f"Whom does {name} harm, and how certain is it?",
        "Which images change?",
        "Is the change more than seed noise?",
        "What would settle it?",
    )
    places = [text.index(question) for question in asked]
    assert places == sorted(places)
    (inside,) = re.findall('<section aria-labelledby="questions".*?</section>', audit.page, re.S)
    links = [a["href"][1:] for tag, a in Page(inside).tags if tag == "a"]
    assert links == ["gate", "groups", "gallery", "topline", "gate"]
    assert set(links) <= {a.get("id") for _, a in page.tags}
    excess = points(audit.content["divergence"][name]["cie"]["excess"])
    assert f"Yes: {excess} points of CIEs beyond seed noise." in text
    failed = next(v for v in audit.gate["variants"] if v["name"] == name)
    assert "; ".join(failed["sentences"])[1:] in text
    # Where the links lead, the evidence stands.
    assert cell(audit.content["accuracy"][name]["top1"]) in section(audit.page, "topline")
    assert f"Error of each group: {name} beside dense" in section(audit.page, "groups")
    assert "Dense modal" in section(audit.page, "gallery")


@pytest.mark.parametrize("positive", [None, "cat"])
def test_change_of_accuracy_is_the_difference_of_the_two_beside_it(
    make_audit: Any, positive: str | None
) -> None:
    audited = make_audit(positive=positive, members=5)
    fact = facts(readable(audited.content), "prune-0.9")[0]
    before, after = (float(rate.rstrip("%")) for rate in fact.beside.split(" to "))
    change = float(fact.shown.value.replace("\u2212", "-"))
    assert change == pytest.approx(after - before, abs=0.011)
    assert ("cat against the rest" in fact.what) is (positive is not None)


def beyond_noise(audited: Any, verdict: str, excess: dict[str, Any]) -> str:
    """The answer about seed noise, by the verdict on the variant and its excess of CIEs."""
    content, gate = copy.deepcopy(audited.content), copy.deepcopy(audited.gate)
    content["divergence"]["prune-0.9"]["cie"]["excess"] |= excess
    (judged,) = (v for v in gate["variants"] if v["name"] == "prune-0.9")
    judged["verdict"] = verdict
    judged["sentences"] = ["error b +90% [+40, +140] at 99%, margin +20% (error_groups)"]
    found = answers(readable(content), gate_of(gate), "prune-0.9")[3]
    assert found.question == "Is the change more than seed noise?"
    return found.text


def excess(low: float, high: float) -> dict[str, Any]:
    return {"value": (low + high) / 2, "low": low, "high": high, "note": "", "reason": ""}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.03, "Yes: "), (-0.01, 0.03, "Not shown: "), (-0.03, -0.01, "No: ")],
)
def test_seed_noise_is_told_by_the_interval(audit: Any, low: float, high: float, said: str) -> None:
    assert beyond_noise(audit, "UNSURE", excess(low, high)).startswith(said)


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.03), (-0.03, -0.01)])
def test_harm_that_the_gate_shows_is_more_than_seed_noise(
    audit: Any, low: float, high: float
) -> None:
    text = beyond_noise(audit, "FAIL", excess(low, high))
    assert text.startswith("Yes: error b +90% [+40, +140] at 99%")
    assert "Not shown" not in text
    assert f"{points(excess(low, high) | {'note': ''})} points" in text


def test_harm_of_one_model_says_nothing_of_seed_noise(shipped: Any) -> None:
    assert beyond_noise(shipped, "FAIL", {}).startswith("Unknown: ")


@pytest.mark.parametrize("verdict", ["PASS", "UNSURE"])
def test_whom_it_harms_is_answered_as_the_gate_does(audit: Any, verdict: str) -> None:
    gate = copy.deepcopy(audit.gate)
    (judged,) = (v for v in gate["variants"] if v["name"] == "prune-0.9")
    judged["verdict"] = verdict

    def whom(gate: dict[str, Any] | None) -> str:
        return answers(readable(audit.content), gate_of(gate), "prune-0.9")[1].text

    assert "FAIL" in {test["verdict"] for test in judged["tests"]}  # then it is waived
    assert whom(gate).startswith("Largest rise: ")
    assert whom(None) == whom(gate)
    for test in judged["tests"]:
        test["verdict"] = verdict
    assert whom(gate) == f"No harm beyond a margin is shown. {whom(None)}"


def test_an_excess_stands_beside_the_two_shares_that_it_is_made_of(make_audit: Any) -> None:
    few = make_audit(members=6)
    name = in_focus(audit_of(few.content), gate_of(few.gate)).name
    cie = few.content["divergence"][name]["cie"]
    before, after = cie["floor"]["value"], cie["disagreement"]["value"]
    assert after - before == pytest.approx(cie["excess"]["value"])
    text = section(few.page, "verdict")
    shares = f"differ on {100 * after:.2f}%, two dense ones on {100 * before:.2f}%"
    assert f"a dense and a compressed model {shares}" in text
    assert "floor not estimable" not in text


def test_what_cannot_be_estimated_is_never_drawn_as_0(shipped: Any) -> None:
    text = section(shipped.page, "verdict")
    assert "Few models." in text
    assert "excess not estimable (one model per side" in text
    assert "Is the change more than seed noise? Unknown:" in section(shipped.page, "questions")
    assert "it says nothing about the next training run" in text


def test_what_to_do_names_every_kind_of_verdict() -> None:
    def variant(name: str, verdict: str, *said: str) -> dict[str, Any]:
        return {"name": name, "verdict": verdict, "sentences": list(said), "tests": []}

    gate = {
        "variants": [
            variant("a", "PASS"),
            variant("b", "UNSURE", "about 12 to 30 members would settle this"),
            variant("c", "UNSURE", "about 12 to 30 members would settle this"),
            variant("d", "FAIL", "error male +40%"),
        ]
    }
    waived = {"verdict": "FAIL", "rule": "cie", "waived": "old", "waived_until": "2027-03-01"}
    gate["variants"][0]["tests"] = [waived | {"where": "CIE excess", "harm_p_adjusted": 0.01}]
    first, second, third, last = next_steps(gate_of(gate))
    assert last == "Not counted, because it is waived until 2027-03-01: cie for a."
    assert first.startswith("Do not ship d.")
    assert second == "b and c: about 12 to 30 members would settle this."
    assert third.startswith("Before a ships: read the rules.")
    assert verdict_sentence(gate_of(gate)) == (
        "a may ship by these rules; d fails; UNSURE for b and c: the audit is too small to say."
    )
