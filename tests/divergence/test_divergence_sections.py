"""What the sections on changed examples show: counts, distances, groups among them, pairs."""

from __future__ import annotations

from typing import Any

import pytest

from scotoma.audit import Audit
from scotoma.audit.findings import Beside, Findings
from scotoma.divergence.gallery_section import gallery_documents, gallery_section
from scotoma.divergence.section import beyond_noise, flips_section, topline_section
from scotoma.document import Pictures, Section
from scotoma.document.charts import filled
from tests.helpers.audits import gate_file, whole
from tests.helpers.sections import chart, table, texts, unlabelled

EXCESS = {"value": 0.0224, "low": 0.0164, "high": 0.0284}
CIE = {
    "cie": {"count": 57, "low": 49, "high": 71, "ties": 1}, "cie_share": {"value": 0.0317},
    "disagreement": {"value": 0.0539, "n": 899}, "floor": {"value": 0.0316}, "excess": EXCESS,
}  # fmt: skip
DISTANCES = {
    "distance": [0.0, 2.0, 4.0], "examples": [90, 6, 4], "n": 100,
    "dense_right": [850, 30, 20], "compressed_right": [440, 6, 4],
    "groups": [{"group": "age=old", "examples": [40, 5, 3]}],
}  # fmt: skip
PRUNED = {
    "cie": CIE,
    "taxicab": DISTANCES,
    "thresholds": [
        {"percentile": 90.0, "value": 4.0, "wanted": 10, "above": 3, "tied": 4},
        {"percentile": 99.0, "value": None, "reason": "it would be 0"},
    ],
    "top1": [{"subset": "taxicab 90", "n": 10, "dense": {"value": 0.7, "n": 9},
              "compressed": {"value": 0.3}}],
    "over_index": [
        {"attribute": "age=old", "n": 50, "n_flagged": 46, "share_in_data": 0.5,
         "share_in_flagged": 0.8070,
         "change": {"value": 0.614, "low": 0.425, "high": 80.0}},
        {"attribute": "age=young", "n": 50, "share_in_data": 0.5,
         "change": {"value": None, "reason": "no CIE"}},
    ],
    "ledger": [{"group": "age=old", "n": 50, "changed": {"value": 0.09, "n": 25},
                "right_to_wrong": {"value": 0.06}, "wrong_to_right": {"value": 0.02},
                "wrong_to_other": {"value": 0.01}}],
}  # fmt: skip
CONTENT: dict[str, Any] = {
    "variants": [
        {"name": "dense", "members": 10}, {"name": "int8", "members": 10},
        {"name": "pruned", "members": 5},
    ],
    "groups": [
        {"key": "all", "name": "all", "train": 200},
        {"key": "age=old", "name": "old", "train": 50, "n": 50},
    ],
    "examples": {"test": 1798, "clusters": 899, "train": 200, "classes": ["cat", "dog"]},
    "accuracy": {
        "dense": {}, "int8": {}, "pruned": {"top1": {"value": 0.92, "low": 0.9, "high": 0.94}},
    },
    "divergence": {"int8": {"cie": {"paired": True}}, "pruned": PRUNED},
}  # fmt: skip


@pytest.fixture
def findings() -> Findings:
    return Findings(whole(CONTENT), None, "pruned")


def section(made: Section | None) -> Section:
    assert made is not None
    return made


def test_accuracy_stands_beside_what_it_hides(findings: Findings) -> None:
    shown = table(section(topline_section(findings)), "topline")
    rows = {row[0]: row[1:] for row in texts(shown)}
    assert rows["pruned"] == [
        "92.00% [90.00, 94.00]", "57 ([49 to 71], 1 tie)", "3.17% (no interval)",
        "5.39% (no interval)", "3.16% (no interval)", "+2.24 [+1.64, +2.84]", "899", "5",
    ]  # fmt: skip
    assert rows["int8"][1] == "0 ([0 to 0], 0 ties)"
    assert rows["int8"][4] == "none: made from dense"
    assert rows["dense"][1:3] == ["the baseline", ""]
    assert "no seed noise and no floor" in shown.note


@pytest.mark.parametrize(
    ("low", "high", "start"),
    [
        (0.01, 0.03, "More than seed noise: +2.00 [+1.00, +3.00] points of CIEs"),
        (-0.01, 0.05, "Not shown to be more than seed noise: +2.00 [−1.00, +5.00]"),
        (-0.03, -0.01, "Not more than seed noise: "),
        (None, None, "Whether it is more than seed noise is unknown: one model."),
    ],
)
def test_seed_noise_is_told_by_the_interval(low: Any, high: Any, start: str) -> None:
    middle = 0.02 if low is None else (low + high) / 2
    excess = {"value": middle, "low": low, "high": high, "reason": "" if low else "one model"}
    divergence = CONTENT["divergence"] | {"pruned": {"cie": CIE | {"excess": excess}}}
    audit = whole({**CONTENT, "divergence": divergence})
    assert beyond_noise(Findings(audit, None, "pruned")).startswith(start)
    failed = {"name": "pruned", "verdict": "FAIL", "sentences": ["error old +90%"]}
    judged = gate_file({"variants": [failed]})
    words = beyond_noise(Findings(audit, judged, "pruned"))
    if low is None or low < 0:
        assert words.startswith("More than seed noise: error old +90%. ")
    shipped = audit.model_copy(update={"scope": "shipped"})
    assert beyond_noise(Findings(shipped, judged, "pruned")).startswith(start)


def test_distances_are_counted_from_there_on(findings: Findings) -> None:
    shown = section(flips_section(findings))
    assert texts(table(shown, "taxicab")) == [
        ["pruned", "0", "90", "100", "90.00%", "90.00%"],
        ["pruned", "2", "6", "10", "50.00%", "20.00%"],
        ["pruned", "4", "4", "4", "50.00%", "20.00%"],
    ]
    one = chart(shown, "taxicab")
    assert "In pruned 90 of 100 examples lie at distance 0" in one.summary
    drawn = filled(one, list(one.table.rows))["data"]["values"]
    assert [(row["from"], row["until"], row["tenth"]) for row in drawn[1:]] == [
        (1.25, 2.75, 4.0), (3.25, 4.75, 4.0),
    ]  # fmt: skip
    assert texts(table(shown, "thresholds")) == [
        ["pruned", "90", "4", "10", "3", "4", ""],
        ["pruned", "99", "", "0", "0", "", "it would be 0"],
    ]


def test_very_many_distances_share_bins() -> None:
    many = {
        "distance": [float(i) for i in range(121)], "examples": [1] * 121, "n": 121,
        "dense_right": [10] * 121, "compressed_right": [5] * 121,
    }  # fmt: skip
    divergence = {"pruned": PRUNED | {"taxicab": many}}
    findings = Findings(whole({**CONTENT, "divergence": divergence}), None, "pruned")
    rows = texts(table(section(flips_section(findings)), "taxicab"))
    assert len(rows) <= 61
    assert sum(int(row[2]) for row in rows) == 121
    assert rows[0][:3] == ["pruned", "0", "1"]


def test_groups_among_the_cies_are_drawn_as_ratios(findings: Findings) -> None:
    shown = section(flips_section(findings))
    assert texts(table(shown, "over_index")) == [
        ["pruned", "old", "25.00%", "50.00%", "46", "80.70%", "+61.4% [+42.5, +8,000.0]"],
        ["pruned", "age=young", "", "50.00%", "0", "no CIE", "no CIE"],
    ]
    one = chart(shown, "over_index")
    old, young = filled(one, list(one.table.rows))["data"]["values"]
    assert (old["at"], old["at_low"], old["at_high"], old["beyond"]) == (1.614, 1.425, 8.0, True)
    assert (young["at"], young["beyond"]) == (None, False)


def test_flips_and_subsets_have_their_rows(findings: Findings) -> None:
    shown = section(flips_section(findings))
    assert texts(table(shown, "flips"))[0] == [
        "pruned", "old", "50", "25", "9.00% (no interval)", "6.00% (no interval)",
        "2.00% (no interval)", "1.00% (no interval)",
    ]  # fmt: skip
    assert "all pairs of a dense and a compressed member" in table(shown, "flips").note
    assert texts(table(shown, "subsets"))[0][:4] == ["pruned", "taxicab percentile 90", "10", "9"]
    assert "n counts clusters" in table(shown, "subsets").note


def card(example: str, label: str | None, dense: str, compressed: str) -> dict[str, Any]:
    return {
        "example_id": example, "label": label, "dense_modal": dense, "dense_votes": 9,
        "compressed_modal": compressed, "compressed_votes": 4, "taxicab": 12.0,
        "attributes": {"age": "old", "hat": "none"},
    }  # fmt: skip


def gallery(label: str | None = "cat", many: int = 14) -> Audit:
    pairs: list[dict[str, Any]] = [
        {"cie": card(f"e{i}", label, "cat", "dog"), "non_cie": card("u", label, "cat", "cat")}
        for i in range(many)
    ]
    pairs[1] = {"cie": card("moved", label and "dog", "cat", "dog"), "non_cie": None}
    content = {**CONTENT, "gallery": {"pruned": pairs}}
    return whole(content) if label else unlabelled(content)


def pictures(shown: Section) -> Pictures:
    (one,) = (part for part in shown.parts if isinstance(part, Pictures))
    return one


def test_a_changed_example_stands_beside_an_unchanged_one() -> None:
    beside = Beside(
        texts={("pruned", "e0"): (("Question", "2 + 2?"),)},
        images={"e0": b"GIF8"},
        remark="Images are small.",
    )
    shown = section(gallery_section(Findings(gallery(), None, "pruned", beside)))
    assert shown.answer[-1].endswith("how many models give it. Images are small.")
    one = pictures(shown)
    assert list(one.pairs) == ["pruned", "int8"]
    assert len(one.pairs["pruned"]) == 12
    first, second, *_ = one.pairs["pruned"]
    assert first.title == "cat: right to wrong, distance 12"
    assert second.title == "dog: wrong to right, distance 12"
    assert [(one.kind, one.name) for one in first.cards] == [("CIE", "e0"), ("Not a CIE", "u")]
    cie = first.cards[0]
    assert cie.answers == [("dense", "cat 9/10", True), ("pruned", "dog 4/5", False)]
    assert cie.about == "age old; hat none"
    assert cie.texts == (("Question", "2 + 2?"),)
    assert cie.picture is not None
    assert (cie.picture.uri, cie.picture.says) == (
        "data:image/gif;base64,R0lGOA==", "CIE: example e0 of class cat",
    )  # fmt: skip
    assert first.cards[1].picture is not None
    assert first.cards[1].picture.reason == "no image"
    assert (len(second.cards), second.missing) == (
        1, "No unchanged example of this class is left.",
    )  # fmt: skip
    assert first.sifted == {"class": ["0"], "group": ["0", "1"], "flip": ["broken"]}
    assert [choice.key for choice in one.filters] == ["class", "group", "flip"]
    assert one.notes["pruned"].startswith("12 of 57 CIEs; scotoma show RUN examples --out")
    assert one.notes["int8"] == "No example changes its modal label."
    assert len(one.table.rows) == 14


def test_without_labels_or_images_a_card_says_what_is_known() -> None:
    findings = Findings(gallery(None), None, "pruned")
    one = pictures(section(gallery_section(findings)))
    first = one.pairs["pruned"][0]
    assert first.title == "distance 12"
    assert first.cards[0].picture is None
    assert first.cards[0].answers[0] == ("dense", "cat 9/10", None)
    assert first.sifted["flip"] == [""]


def test_every_pair_lies_on_a_page_that_links_to_the_others() -> None:
    audit = gallery()
    many = [audit.gallery["pruned"][0]] * 101
    pages = gallery_documents(audit, {"pruned": many}, {})
    assert list(pages) == ["index.html", "v2-1.html", "v2-2.html"]
    assert [title for _, title in pages["index.html"].pages] == [
        "All variants", "pruned, 1 to 100", "pruned, 101 to 101",
    ]  # fmt: skip
    last = pages["v2-2.html"]
    assert last.lead.startswith("CIEs 101 to 101 of 101, the most changed first")
    assert len(pictures(last.sections[0]).pairs["pruned"]) == 1
    assert not next(iter(last.tables())).rows
