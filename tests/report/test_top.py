"""The top of the page: who reads only that is not misled, and a reviewer finds five answers."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from scotoma.report.answers import answers, in_focus, next_steps, verdict_sentence
from tests.report.drawing import audit_of, gate_of, readable
from tests.report.reading import Page, cell, points, relative


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
    known = [row["relative"] for row in rows if row["relative"]["low"] is not None]
    worst = max(known, key=lambda found: found["low"])
    turned = {**whole, "value": -whole["value"], "low": -whole["high"], "high": -whole["low"]}
    for shown in (points(turned), points(cie["excess"]), relative(worst)):
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


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.03, "Yes: "), (-0.01, 0.03, "Not shown: "), (-0.03, -0.01, "No: ")],
)
def test_seed_noise_is_told_by_the_interval(audit: Any, low: float, high: float, said: str) -> None:
    content = copy.deepcopy(audit.content)
    excess = content["divergence"]["prune-0.9"]["cie"]["excess"]
    excess |= {"value": (low + high) / 2, "low": low, "high": high}
    found = answers(readable(content), gate_of(audit.gate), "prune-0.9")[3]
    assert found.question == "Is the change more than seed noise?"
    assert found.text.startswith(said)


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
        "a may ship by these rules; d fails; UNSURE for b and c: the test set is too small."
    )
