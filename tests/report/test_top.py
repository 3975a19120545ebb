"""The top of the page: who reads only that is not misled."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from scotoma.audit.worst_change import worst_change
from scotoma.report.answers import (
    beyond_noise,
    in_focus,
    next_steps,
    verdict_sentence,
    whom,
)
from scotoma.report.overview import variant_rows
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
    heads = ("verdict", "groups", "gallery", "slices", "reading", "gate", "methods")
    places = [audit.page.index(f'<h2 id="{head}"') for head in heads]
    assert places == sorted(places)
    decided = section(audit.page, "gate")
    for variant in audit.gate["variants"]:
        assert re.search(rf"{re.escape(variant['name'])} \S {variant['verdict']} ", decided)
        for line in variant["sentences"]:
            assert " ".join(line.split()) in decided


def test_each_variant_has_one_row_of_numbers_with_intervals_and_n(audit: Any) -> None:
    rows = Page(audit.page).table("Each variant beside dense")
    assert list(rows) == [v["name"] for v in audit.gate["variants"]]
    shown = readable(audit.content)
    for judged in audit.gate["variants"]:
        name = judged["name"]
        word, accuracy, flips, affected, *margin = rows[name]
        assert word.endswith(judged["verdict"])
        (whole,) = (
            row["absolute"]
            for row in audit.content["subgroups"][name]
            if (row["group"], row["metric"], row["class"]) == ("all", "error", None)
        )
        turned = {**whole, "value": -whole["value"], "low": -whole["high"], "high": -whole["low"]}
        assert accuracy.startswith(points(turned))
        assert accuracy.endswith(f"; n {whole['n']}")
        assert flips.startswith(cell(shown.divergence[name].differing.model_dump()))
        worst = worst_change(shown, name)
        assert worst is not None
        assert affected.startswith(points(worst.absolute.model_dump()))
        assert f"error of {worst.group}; n {worst.absolute.n}" in affected
        widest = max(
            (
                (test["decided_by"]["margin"], test["where"])
                for test in judged["tests"]
                if test["decided_by"] and test["decided_by"]["kind"] == "absolute"
            ),
            default=None,
            key=lambda pair: pair[0],
        )
        coarsest = f"{100 * widest[0]:.1f} points, {widest[1]}" if widest else "none"
        if margin:
            assert margin == [coarsest]
        else:  # said once where all variants have the same
            text = section(audit.page, "verdict")
            said = re.search(r"Coarsest margin of every variant: (.*?) ?; harm below it", text)
            assert said is not None
            assert said[1] == coarsest


def test_nothing_is_said_twice_before_something_is_unfolded(audit: Any) -> None:
    """No table of the folded parts repeats one of those above them."""
    captions = list(Page(audit.page).tables)
    assert len(captions) == len(set(captions))
    name = in_focus(audit_of(audit.content), gate_of(audit.gate)).name
    assert sum(f"Error of each group: {name}" in caption for caption in captions) == 1
    assert not re.search(r"<details open[^>]*>\s*<summary><h2", audit.page)


@pytest.mark.parametrize("positive", [None, "cat"])
def test_change_of_accuracy_is_the_difference_of_the_two_beside_it(
    make_audit: Any, positive: str | None
) -> None:
    audited = make_audit(positive=positive, members=5)
    rows = variant_rows(readable(audited.content), None)
    (fact,) = (row.accuracy for row in rows if row.variant == "prune-0.9")
    assert fact is not None
    rates, _, whose = fact.beside.partition(", ")
    before, after = (float(rate.rstrip("%")) for rate in rates.split(" to "))
    change = float(fact.shown.value.replace("\u2212", "-"))
    assert change == pytest.approx(after - before, abs=0.011)
    assert (whose == "cat against the rest") is (positive is not None)


def noise_answer(audited: Any, verdict: str, excess: dict[str, Any]) -> str:
    """The answer about seed noise, by the verdict on the variant and its excess of CIEs."""
    content, gate = copy.deepcopy(audited.content), copy.deepcopy(audited.gate)
    content["divergence"]["prune-0.9"]["cie"]["excess"] |= excess
    (judged,) = (v for v in gate["variants"] if v["name"] == "prune-0.9")
    judged["verdict"] = verdict
    judged["sentences"] = ["error b +90% [+40, +140] at 99%, margin +20% (error_groups)"]
    return beyond_noise(readable(content), gate_of(gate), "prune-0.9")


def excess(low: float, high: float) -> dict[str, Any]:
    return {"value": (low + high) / 2, "low": low, "high": high, "note": "", "reason": ""}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.01, 0.03, "More than seed noise: "),
        (-0.01, 0.03, "Not shown to be more than seed noise: "),
        (-0.03, -0.01, "Not more than seed noise: "),
    ],
)
def test_seed_noise_is_told_by_the_interval(audit: Any, low: float, high: float, said: str) -> None:
    assert noise_answer(audit, "UNSURE", excess(low, high)).startswith(said)


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.03), (-0.03, -0.01)])
def test_harm_that_the_gate_shows_is_more_than_seed_noise(
    audit: Any, low: float, high: float
) -> None:
    text = noise_answer(audit, "FAIL", excess(low, high))
    assert text.startswith("More than seed noise: error b +90% [+40, +140] at 99%")
    assert "Not shown" not in text
    assert f"{points(excess(low, high) | {'note': ''})} points" in text


def test_harm_of_one_model_says_nothing_of_seed_noise(shipped: Any) -> None:
    assert noise_answer(shipped, "FAIL", {}).startswith(
        "Whether it is more than seed noise is unknown: "
    )


@pytest.mark.parametrize("verdict", ["PASS", "UNSURE"])
def test_no_harm_is_said_to_be_shown_only_where_no_test_failed(audit: Any, verdict: str) -> None:
    gate = copy.deepcopy(audit.gate)
    (judged,) = (v for v in gate["variants"] if v["name"] == "prune-0.9")
    judged["verdict"] = verdict

    shown = readable(audit.content)
    assert "FAIL" in {test["verdict"] for test in judged["tests"]}  # then it is waived
    without = whom(shown, None, "prune-0.9")
    assert without.startswith("Highest error after compression: b, ")
    assert whom(shown, gate_of(gate), "prune-0.9") == without
    for test in judged["tests"]:
        test["verdict"] = verdict
    assert whom(shown, gate_of(gate), "prune-0.9") == (
        f"No harm beyond a margin is shown. {without}"
    )


def test_what_cannot_be_estimated_is_never_drawn_as_0(shipped: Any) -> None:
    text = section(shipped.page, "verdict")
    assert "Few models." not in text  # these models are the subject, and no others
    unknown = "Whether it is more than seed noise is unknown: excess not estimable (one model"
    assert unknown in section(shipped.page, "gallery")
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
    assert second == "Hold b and c until settled: about 12 to 30 members would settle this."
    assert third.startswith("Before a ships: read the rules.")
    assert verdict_sentence(gate_of(gate)) == (
        "a may ship by these rules; d fails; UNSURE for b and c: the test set is too small."
    )
