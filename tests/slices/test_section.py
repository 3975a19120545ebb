"""What the section on slices shows: cells of its tables, and which rows a page shows."""

from __future__ import annotations

from typing import Any

import pytest

from scotoma.audit import Audit
from scotoma.audit.findings import Findings
from scotoma.document import Facts, Section
from scotoma.document.charts import filled
from scotoma.slices.section import slices_section
from tests.helpers.audits import rows_at, whole
from tests.helpers.sections import chart, kept, scored, table, texts, unlabelled

VARIANTS = [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}]
ROW = {
    "text": "income < 30",
    "size": 899,
    "about_images": {"image sharpness": "variance of the Laplacian"},
}
DISCOVERED = {
    "slices.effect": {"value": 0.0445, "low": 0.025, "high": 0.064, "n": 449},
    "slices.discovery.p": 0.001, "slices.discovery.q": 0.01,
}  # fmt: skip
CONFIRMED = {"slices.confirmation.p": 0.004, "slices.confirmation.q": 0.02}
RISE = {"value": 0.0256, "low": 0.017, "high": 0.034}
UNDEFINED = {"value": None, "low": None, "high": None, "reason": "no labels"}
LATTICE = {
    "text": ["age = old", "income < 30", "income >= 30"],
    "cross": [1, 1, 1],
    "size": [200, 899, 901],
    "support": [0.1, 0.5, 0.5],
    "effect": [0.08, 0.03, None],
    "p": [0.2, 0.0001, None],
    "reported": [False, True, False],
}


def search(**more: Any) -> dict[str, Any]:
    found = {
        "summary": "found 1 slice",
        "slices": [ROW],
        "slice_count": 1,
        "lattice": LATTICE,
    }
    return found | more


def section(audit: Audit) -> Section:
    made = slices_section(Findings(audit, focus="pruned"))
    assert made is not None
    return made


def content(
    searches: dict[str, Any], change: Any = RISE, tests: dict[str, Any] = CONFIRMED
) -> dict[str, Any]:
    rows = []
    for name, one in searches.items():
        for found in one["slices"]:
            at = {"variant": name, "facts": {"text": found["text"]}}
            rows += rows_at(at, DISCOVERED | tests)
        rows += rows_at({"variant": name}, {"change": change})
    return {"variants": VARIANTS, "slices": searches, "rows": {"slices": rows}}


@pytest.fixture
def shown() -> Section:
    none = search(summary="found nothing", slices=[], notes=["income is missing"])
    return section(whole(content({"int8": none, "pruned": search()})))


def test_a_slice_has_its_rise_with_interval_n_and_what_tested_it(shown: Section) -> None:
    reported = table(shown, "slices")
    assert texts(reported) == [
        ["pruned", "income < 30 (about the image: image sharpness is the variance of the "
         "Laplacian)", "899", "+4.45 [+2.50, +6.40]", "449", "0.001", "0.004", "0.020"]
    ]  # fmt: skip
    assert "all slices proposed" in reported.note


def test_the_variant_in_focus_is_said_first(shown: Section) -> None:
    assert shown.answer[-1] == "pruned: Found 1 slice."
    (others,) = (one for one in shown.parts if isinstance(one, Facts))
    assert others.rows == [("int8", "Found nothing. Income is missing.")]


def test_a_candidate_that_is_reported_has_the_confirmed_rise_and_others_their_own(
    shown: Section,
) -> None:
    candidates = chart(shown, "slices")
    assert texts(candidates.table)[:2] == [
        ["pruned", "income < 30", "yes", "899", "50.00%", "+4.45 [+2.50, +6.40]", "<0.001"],
        ["pruned", "age = old", "no", "200", "10.00%", "+8.00", "0.200"],
    ]
    assert candidates.title == "Slices by their size and their rise, points"
    assert "+2.56 [+1.70, +3.40]" in candidates.summary
    drawn = filled(candidates, list(candidates.table.rows))["data"]["values"]
    assert [(row["support"], row["rise"], row["all"]) for row in drawn[:2]] == [
        (50.0, 4.45, 2.56),
        (10.0, 8.0, 2.56),
    ]
    assert drawn[0]["rise_low"] == 2.5
    assert drawn[0]["named"] == "income < 30"
    assert drawn[1]["named"] is None


def test_a_search_without_confirmation_says_that_it_exaggerates() -> None:
    plain = search(settings={"confirm": False}, slice_count=7)
    made = section(whole(content({"pruned": plain}, tests={})))
    reported = table(made, "slices")
    assert [column.key for column in reported.columns][-2:] == ["p", "q"]
    assert "exaggerates" in made.answer[1]
    assert "all slices tested" in reported.note
    assert "The audit found 7" in reported.note


def test_scores_have_the_change_of_their_mean() -> None:
    made = section(scored(content({"pruned": search()}), {"unit": "%"}))
    reported = table(made, "slices")
    assert texts(reported)[0][3] == "+0.04450 [+0.02500, +0.06400]"
    assert reported.columns[3].title == "Change of the mean, %"
    assert chart(made, "slices").title == "Slices by their size: Change of the mean, %"
    assert chart(made, "slices").table.rows[0]["all"] == 0.0256


def test_without_labels_a_rise_is_of_the_labels_that_change() -> None:
    made = section(unlabelled(content({"pruned": search()}, UNDEFINED)))
    assert "share of labels that change" in table(made, "slices").note
    assert "Dashed" not in chart(made, "slices").summary


def test_without_a_search_there_is_no_section() -> None:
    assert slices_section(Findings(whole({"variants": VARIANTS}))) is None


def test_it_says_what_a_reviewer_has_read(shown: Section) -> None:
    said, read = kept(shown)
    assert said == read
