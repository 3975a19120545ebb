"""What the section on corrupted pictures shows: cells of its tables, and what its charts draw."""

from __future__ import annotations

from typing import Any

from scotoma.audit.findings import Beside, Findings
from scotoma.document import Facts, Section
from scotoma.document.charts import drawings, filled
from scotoma.document.pictures import Picture
from scotoma.robustness.section import robustness_section
from tests.helpers import audits
from tests.helpers.audits import whole
from tests.helpers.sections import chart, kept, table, texts

GROUPS = [{"key": "all", "name": "everyone"}, {"key": "s=f", "name": "women"}]


def number(value: float, n: int = 0, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "n": n} | more


def loss(
    group: str = "all", metric: str = "error", beyond: float = 0.03, variant: str = "int8",
    **more: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    numbers = {
        "dense": number(0.8), "compressed": number(0.7), "absolute": number(beyond, 1500),
        "relative": number(0.04), "log_odds": number(0.2),
    }  # fmt: skip
    at = {"variant": variant, "group": group, "metric": metric, "facts": {"family": "all"}}
    return rows_at(at, numbers | more, "losses")


def rows_at(address: dict[str, Any], numbers: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return audits.rows_at(address, {f"{part}.{what}": one for what, one in numbers.items()})


REPORT: dict[str, Any] = {
    "profile": "cifar-c",
    "examples": 2000,
    "test": 20000,
    "severities": [1, 3],
    "corruptions": [{"kind": "fog"}, {"kind": "snow"}],
    "left_out": {"frost": "too large"},
    "sets": [
        {"name": "x.1", "n": 400, "classes": 10},
        {"name": "CIEs of int8", "n": 40, "classes": 9, "masked": True,
         "selected_against": "one half of the models"},
    ],
}  # fmt: skip
INT8 = {"variant": "int8"}
SETS = [
    *rows_at({"facts": {"name": "x.1"}}, {"dense": number(0.5)}, "sets"),
    *rows_at({"facts": {"name": "CIEs of int8"}}, {"dense": number(0.5)}, "sets"),
    *rows_at(
        INT8 | {"facts": {"name": "x.1"}},
        {"accuracy": number(0.45, 400), "difference": number(-0.05), "absolute": number(0.01)},
        "sets.rows",
    ),
]
LOSSES = [
    *loss(misled={"value": 0.125, "n": 1200}, log_odds=number(-0.2)),
    *loss(metric="top5", beyond=0.011),
    *loss("s=f", contrast=number(0.02, 700), p_adjusted=0.004),
    *loss("s=f", "fpr", beyond=-0.015),
    *loss("s=f", variant="pruned", contrast=number(-0.05), p_adjusted=0.3),
]
ROWS = [
    *(
        {"variant": name, "facts": {"family": family, "severity": severity},
         "what": "curves.accuracy", "number": number(at, 900)}
        for name, at in (("dense", 0.9), ("int8", 0.6))
        for family in ("noise", "all")
        for severity in (0, 3)
    ),
    *rows_at(INT8 | {"facts": {"kind": "all"}},
             {"accuracy": number(0.6), "ce": number(1.25)}, "by_corruption"),
    *LOSSES,
    {"facts": {"family": "all"}, "what": "floor", "number": number(0.001)},
    *rows_at({"group": "s=f", "facts": {"family": "all"}},
             {"change": number(12.5), "similarity": {}},
             "distortion"),
    *rows_at(INT8 | {"facts": {"severity": 0}},
             {"cie_share": {}, "taxicab": {}, "flips": number(0.03, 80)}, "disagreement"),
    *rows_at(INT8 | {"facts": {"severity": 3}},
             {what: {} for what in ("cie_share", "taxicab", "flips")}, "disagreement"),
    *rows_at(INT8 | {"group": "s=f", "facts": {"family": "clean"}},
             {"gap": number(0.06, 30)}, "confidence.rows"),
    *rows_at({"variant": "dense", "group": "all", "facts": {"family": "all"}},
             {"gap": number(0.05, 60)}, "confidence.rows"),
    *rows_at(INT8 | {"group": "s=f", "facts": {"pictures": "all", "measure": "energy"}},
             {"auroc": number(0.6)}, "confidence.detection"),
    *rows_at(INT8 | {"group": "all", "facts": {"name": "x.1", "measure": "energy"}},
             {"auroc": number(0.7, 50), "auroc_change": number(-0.02)}, "confidence.detection"),
    *rows_at(INT8 | {"facts": {"family": "all", "matched": "dense-step-9"}},
             {"clean": number(0.71), "matched_clean": number(0.72),
              "absolute": {}, "relative": {}, "log_odds": {}},
             "matched"),
    *SETS,
]  # fmt: skip


def section(report: dict[str, Any], rows: list[dict[str, Any]], focus: str = "") -> Section:
    content = {
        "variants": [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}],
        "groups": GROUPS,
        "robustness": report,
        "rows": {"robustness": rows},
    }
    made = robustness_section(Findings(whole(content), focus=focus))
    assert made is not None
    return made


SHOWN = section(REPORT, ROWS)


def test_what_all_examples_lose_stands_beside_the_floor_and_one_pair_of_models() -> None:
    (row,) = table(SHOWN, "corrupted").rows
    cells = dict(
        zip(
            [column.key for column in table(SHOWN, "corrupted").columns],
            texts(table(SHOWN, "corrupted"))[0],
            strict=True,
        )
    )
    assert row["variant"] == "int8"
    assert cells == {
        "variant": "int8",
        "family": "all corruptions (depends on the scale)",
        "n": "1,500",
        "dense": "80.00% [79.00, 81.00]",
        "compressed": "70.00% [69.00, 71.00]",
        "absolute": "+3.00 [+2.00, +4.00]",
        "floor": "+0.10 [−0.90, +1.10]",
        "relative": "+4.00 [+3.00, +5.00]",
        "log_odds": "−0.200 [−0.210, −0.190]",
        "ce": "1.250 [1.240, 1.260]",
        "top5_loss": "+1.10 [+0.10, +2.10]",
        "misled": "12.50% (of 1,200 pairs)",
    }


def test_groups_are_ranked_within_a_variant_and_the_largest_that_is_shown_is_said() -> None:
    drawn = chart(SHOWN, "corrupted-groups")
    own = texts(drawn.table)
    assert [row[:4] for row in own] == [
        ["int8", "women", "all corruptions", "1,500"],
        ["pruned", "women", "all corruptions", "1,500"],
    ]
    assert own[0][4:] == [
        "+3.00 [+2.00, +4.00]", "−1.50 [−2.50, −0.50]", "+2.00 [+1.00, +3.00]", "0.004",
        "12.500 [12.490, 12.510]", "undefined (no reason was recorded)",
    ]  # fmt: skip
    assert "Largest: women under all corruptions in int8, +2.00 [+1.00, +3.00]" in drawn.summary
    (first, second) = filled(drawn, list(drawn.table.rows))["data"]["values"]
    assert (first["beyond"], first["p"], second["beyond"]) == (2.0, 0.004, -5.0)
    focused = chart(section(REPORT, ROWS, "pruned"), "corrupted-groups")
    assert [one.choice for one in drawings(focused)] == ["pruned", "int8"]


def test_curves_start_with_all_corruptions_and_intervals_stand_side_by_side() -> None:
    curves = chart(SHOWN, "curves")
    assert texts(curves.table)[:2] == [
        ["all corruptions", "clean", "dense", "90.00% [89.00, 91.00]", "900"],
        ["all corruptions", "3", "dense", "90.00% [89.00, 91.00]", "900"],
    ]
    places = [row["place"] for row in curves.table.rows][:4]
    assert places == [-0.15, 2.85, 0.0, 3.0]
    assert curves.table.most == 4
    assert [one.choice for one in drawings(curves)] == ["all corruptions", "noise"]


def test_what_was_corrupted_is_said() -> None:
    assert SHOWN.answer[0] == (
        "The same models on worse versions of 2,000 of 20,000 test pictures: 2 corruptions "
        "(cifar-c), severities 1, 3. Not made: frost."
    )


def test_confidence_of_all_examples_stands_before_that_of_groups() -> None:
    sure = table(SHOWN, "sure")
    assert [row[:4] for row in texts(sure)] == [
        ["dense", "all corruptions", "everyone", "+5.00 [+4.00, +6.00]"],
        ["int8", "clean pictures", "women", "+6.00 [+5.00, +7.00]"],
    ]
    assert sure.most == 1
    assert texts(table(SHOWN, "detection")) == [
        ["int8", "x.1", "energy", "70.00% [69.00, 71.00]", "−2.00 [−3.00, −1.00]", "50"]
    ]
    assert [row[:2] for row in texts(table(SHOWN, "disagreement"))] == [
        ["int8", "clean"],
        ["int8", "3"],
    ]


def test_a_set_that_was_chosen_against_models_is_no_measure_of_robustness() -> None:
    rows = texts(table(SHOWN, "sets"))
    assert rows[0][:3] == ["x.1", "dense", "50.00% [49.00, 51.00]"]
    assert rows[1] == ["x.1", "int8", "45.00% [44.00, 46.00]", "−5.00 [−6.00, −4.00]",
                       "+1.00 [0.00, +2.00]", "400"]  # fmt: skip
    (facts,) = (part for part in SHOWN.parts if isinstance(part, Facts))
    said = dict(facts.rows)
    assert said["x.1"] == "Pictures of 10 classes."
    assert "9 classes, among which alone models choose. One half of" in said["CIEs of int8"]
    assert "none measures robustness" in said["CIEs of int8"]
    against = REPORT["sets"][1] | {"name": "imagenet-a"}
    named = rows_at({"facts": {"name": "imagenet-a"}}, {"dense": number(0.5)}, "sets")
    (facts,) = (
        part for part in section({"sets": [against]}, named).parts if isinstance(part, Facts)
    )  # fmt: skip
    assert "because one half of the models fails on them" in facts.rows[0][1]


def test_other_sets_alone_are_called_so() -> None:
    made = section({"sets": REPORT["sets"]}, SETS)
    assert (made.title, made.answer) == ("Other test sets", [])
    assert [getattr(part, "id", "none") for part in made.parts] == ["sets", ""]


def test_what_corruptions_look_like_is_shown_and_said() -> None:
    audit = whole({"variants": [{"name": "dense"}], "robustness": REPORT | {"sets": []}})
    made = robustness_section(Findings(audit, beside=Beside(strip=b"GIF8")))
    assert made is not None
    (picture,) = (part for part in made.parts if isinstance(part, Picture))
    assert picture.uri.startswith("data:image/gif")
    assert picture.says.endswith("at severities 1, 3")


def test_without_any_there_is_no_section() -> None:
    assert robustness_section(Findings(whole({}))) is None


def test_it_says_what_a_reviewer_has_read() -> None:
    said, read = kept(SHOWN)
    assert said == read
