"""What the section on seeds shows: members, the one-model trap, fairness over training runs."""

from __future__ import annotations

from typing import Any

import pytest

from scotoma.audit.findings import Findings
from scotoma.document import Section
from scotoma.document.charts import drawings, filled
from scotoma.runs import THIS_TEST_SET
from scotoma.runs.seeds_section import seeds_section
from tests.helpers.audits import rows_at, whole
from tests.helpers.sections import chart, kept, table, texts, unlabelled

VARIANTS = [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}]


def number(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": value - 0.01, "high": value + 0.02} | more


def fairness(
    variant: str, metric: str, values: list[float], *, attribute: str = "sex", reason: str = "",
    **more: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    mean = sum(values) / len(values)
    rows = rows_at(
        {"variant": variant, "metric": metric, "facts": {"attribute": attribute}},
        {"mean": {"value": mean, "reason": reason}, "MaxDiff": max(values) - min(values),
         "sigma": number(0.03, note=f"{THIS_TEST_SET}; takes the runs as normal")} | more,
    )  # fmt: skip
    rows[0]["models"] = values
    return rows


CONTENT: dict[str, Any] = {
    "variants": VARIANTS,
    "accuracy": {
        "dense": {"members": [0.9, 0.92, 0.94]},
        "int8": {"members": [0.9, 0.91, 0.92]},
        "pruned": {"members": [0.8, 0.86, 0.89]},
    },
    "one_model": {
        "relative": 0.2,
        "absolute": 0.005,
        "variants": {
            "int8": [{"members": 1, "wrong": 0.25, "draws": 1200},
                     {"members": 3, "wrong": None, "draws": 0}],
            "pruned": [{"members": 1, "wrong": 0.61, "draws": 100}],
        },
    },
    "rows": {"fairness": [
        *fairness("dense", "DI", [0.1, 0.3]), *fairness("dense", "BA", [0.01, 0.02]),
        *fairness("pruned", "DI", [0.15, 0.21], **{
            "difference": number(-0.02), "Cohen's d": number(0.5), "U p, adjusted": 0.03,
            "raw Levene p, adjusted": 0.4, "raw spread": number(1.5),
        }),
        *fairness("pruned", "BA", [0.02, 0.02], reason="no positives"),
    ]},
}  # fmt: skip


def section(content: dict[str, Any]) -> Section:
    made = seeds_section(Findings(whole(content), focus="pruned"))
    assert made is not None
    return made


SHOWN = section(CONTENT)


def test_the_spread_of_members_is_that_of_their_accuracies() -> None:
    rows = texts(table(SHOWN, "members"))
    assert rows[0] == ["dense", "3", "92.00%", "2.00%", "90.00%", "94.00%"]
    assert rows[2] == ["pruned", "3", "85.00%", "4.58%", "80.00%", "89.00%"]
    assert (
        SHOWN.answer[1] == "Members of pruned differ by up to 9.00 points of accuracy (3 members)."
    )
    drawn = chart(SHOWN, "members")
    assert [row["values"] for row in filled(drawn, list(drawn.table.rows))["data"]["values"]] == [
        "90 92 94",
        "90 91 92",
        "80 86 89",
    ]
    assert len(drawings(drawn)) == 1


def test_the_trap_says_how_often_few_models_contradict_all() -> None:
    trap = table(SHOWN, "trap")
    assert [column.title for column in trap.columns] == [
        "Variant",
        "1 model a side",
        "3 models a side",
    ]
    assert texts(trap) == [
        ["int8", "25.00% (of 1,200 draws)", "not drawn (too few members)"],
        ["pruned", "61.00% (of 100 draws)", "not drawn (too few members)"],
    ]
    assert "more than 20.00% and +0.50 points" in trap.note
    assert (
        "Of pruned, one dense and one compressed model contradict all models in 61.00% of 100"
        in (SHOWN.answer[2])
    )


def test_fairness_is_compared_over_training_runs_with_the_variant_in_focus_first() -> None:
    own = table(SHOWN, "fairness")
    rows = texts(own)
    assert rows[0] == [
        "pruned", "sex", "fairness.DI", "2", "0.180", "0.060", "0.030 [0.020, 0.050]",
        "−0.0200 [−0.0300, 0.0000]", "+0.500 [+0.490, +0.520]", "0.030", "1.500 [1.490, 1.520]",
        "0.400",
    ]  # fmt: skip
    assert rows[1][7] == "no positives"
    assert rows[2][7] == ""


def test_every_member_is_drawn_for_each_metric_and_the_widest_is_said() -> None:
    drawn = chart(SHOWN, "fairness")
    assert [one.choice for one in drawings(drawn)] == ["fairness.DI", "fairness.BA"]
    assert "The widest: fairness.DI of sex in dense, from 0.100 to 0.300 over 2 members." in (
        drawn.summary
    )
    assert "2 of 4 members and attributes lie beyond it" in drawn.summary
    rules = [row["rule"] for row in filled(drawn, list(drawn.table.rows))["data"]["values"]]
    assert rules == [0.2, None, 0.2, None]
    assert [row["place"] for row in drawn.table.rows] == [2, 2, 0, 0]


def test_attributes_that_move_most_are_drawn() -> None:
    moved = [
        row for k in range(8)
        for row in fairness("dense", "DI", [0.1, 0.1 + k / 100], attribute=f"a{k}")
    ]  # fmt: skip
    rows = table(section(CONTENT | {"rows": {"fairness": moved}}), "fairness").rows
    assert [row["drawn"] for row in rows] == [0, 0, 1, 1, 1, 1, 1, 1]


def test_one_member_has_no_spread_and_no_trap() -> None:
    alone = {name["name"]: {"members": [0.9]} for name in VARIANTS}
    made = section({"variants": VARIANTS, "accuracy": alone})
    assert [part.id for part in made.parts] == ["members"]  # type: ignore[union-attr]
    assert texts(table(made, "members"))[0] == ["dense", "1", "90.00%", "", "90.00%", "90.00%"]
    assert "too few members" in made.answer[-1]


@pytest.mark.parametrize("runs", [{}, CONTENT["rows"]])
def test_without_labels_fairness_alone_is_left(runs: dict[str, Any]) -> None:
    made = seeds_section(Findings(unlabelled({"variants": VARIANTS, "rows": runs})))
    parts = [part.id for part in made.parts] if made else []  # type: ignore[union-attr]
    assert parts == (["fairness"] if runs else [])


def test_it_says_what_a_reviewer_has_read() -> None:
    said, read = kept(SHOWN)
    assert said == read
