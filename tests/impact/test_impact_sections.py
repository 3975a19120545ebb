"""What the sections on groups, classes and labels show: cells, order, and what is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from scotoma.audit import Audit
from scotoma.audit.findings import Findings
from scotoma.document import Section, Table
from scotoma.impact.classes_section import classes_section, shown_classes
from scotoma.impact.groups_section import groups_section, whom
from scotoma.impact.labels_section import labels_section
from tests.helpers.audits import class_rows, gate_file, rows_at, whole
from tests.helpers.sections import chart, table, texts, unlabelled

VARIANTS = [{"name": "dense"}, {"name": "int8"}, {"name": "pruned"}]
GROUPS = [
    {"key": "all", "name": "all", "n": 1798},
    {"key": "age=old", "name": "old", "n": 899},
    {"key": "age=young", "name": "young", "n": 899},
]


def rate(group: str, metric: str = "error", low: float | None = 0.08, **more: Any) -> Any:
    row = {
        "group": group,
        "metric": metric,
        "dense": {"value": 0.1, "low": 0.09, "high": 0.12, "n": 899},
        "compressed": {
            "value": 0.2, "low": 0.18, "high": 0.22, "n": 899, "effective_events": 90,
        },
        "absolute": {"value": 0.1, "low": low, "high": 0.12, "n": 899},
        "relative": {"value": 1.0, "low": 0.8, "high": 1.2, "note": "few events"},
    }  # fmt: skip
    return row | more


def gap_rows(p_adjusted: float | None) -> dict[str, Any]:
    facts = {"attribute": "age", "group_a": "age=young", "group_b": "age=old"}
    address = {"variant": "pruned", "metric": "error", "facts": facts}
    gap = {"value": 0.029, "low": 0.016, "high": 0.043}
    rises = {"rise_a": 0.01, "rise_b": 0.039}
    return {"gaps": rows_at(address, rises | {"gap": gap, "p": 0.001, "p_adjusted": p_adjusted})}


ROWS = [rate("all"), rate("age=old"), rate("age=young", low=None)]
CONTENT: dict[str, Any] = {
    "variants": VARIANTS, "groups": GROUPS, "rows": gap_rows(0.002),
    "examples": {"test": 1798, "clusters": 1798, "classes": ["a", "b", "c"]},
    "subgroups": {"pruned": [*ROWS, rate("all", "fnr", **{"class": "b"})], "int8": ROWS[:1]},
}  # fmt: skip


@pytest.fixture
def audit() -> Audit:
    return whole(CONTENT)


def section(made: Section | None) -> Section:
    assert made is not None
    return made


def test_a_group_has_its_rates_before_and_after_in_its_row(audit: Audit) -> None:
    shown = section(groups_section(Findings(audit, None, "pruned")))
    rates = table(shown, "groups")
    assert [row[:2] for row in texts(rates)] == [
        ["pruned", "all"], ["pruned", "old"], ["pruned", "young"], ["int8", "all"],
    ]  # fmt: skip
    assert texts(rates)[1][2:] == [
        "899", "10.00% [9.00, 12.00]", "20.00% [18.00, 22.00]", "+10.00 [+8.00, +12.00]",
        "+100.0% [+80.0, +120.0] (few events)", "+2.90 [+1.60, +4.30] (than young)",
    ]  # fmt: skip
    assert [column.drawn for column in rates.columns].count(True) == 1
    one = chart(shown, "rates")
    assert one.by == "choice"
    assert [row["choice"] for row in rates.rows] == ["pruned"] * 3 + ["int8"]
    assert all(row["drawn"] for row in rates.rows)
    by_class = table(shown, "class_rates")
    assert by_class.most == 0
    assert texts(by_class)[0][:4] == ["pruned", "b", "fnr", "all"]


def test_the_answer_names_error_group_and_gap(audit: Audit) -> None:
    answer = whom(Findings(audit, None, "pruned"))
    assert answer[0] == "Highest error after compression: all, 20.00% [18.00, 22.00], n 899."
    assert answer[1].startswith("Most affected: error of all, +10.00 [+8.00, +12.00] points")
    assert answer[2] == "Error rises 2.9 points [1.6, 4.3] more for old than for young."
    passed = gate_file({"variants": [{"name": "pruned", "verdict": "PASS"}]})
    assert whom(Findings(audit, passed, "pruned"))[0].startswith("No harm beyond a margin is")
    failed = gate_file(
        {"variants": [{"name": "pruned", "verdict": "FAIL", "tests": [{"verdict": "FAIL"}]}]}
    )
    assert whom(Findings(audit, failed, "pruned"))[0].startswith("Highest error")


def test_a_gap_of_too_few_says_so_and_nothing_is_said_of_no_numbers() -> None:
    few = whole({**CONTENT, "rows": gap_rows(None)})
    shown = section(groups_section(Findings(few, None, "pruned")))
    assert texts(table(shown, "groups"))[1][-1].endswith("(than young; too few to show harm)")
    nothing = whole({**CONTENT, "subgroups": {}, "rows": {}})
    assert whom(Findings(nothing, None, "pruned")) == [
        "No group's rise can be estimated; the table gives the reasons."
    ]


def test_rates_of_a_positive_class_are_named_by_who_is_called_what() -> None:
    rows = [rate("all"), rate("all", "fpr"), rate("all", "fnr")]
    examples = {"classes": ["deny", "approve"], "positive": "approve", "test": 9, "clusters": 9}
    content = {**CONTENT, "subgroups": {"pruned": rows}, "examples": examples, "rows": {}}
    rates = table(section(groups_section(Findings(whole(content), None, "pruned"))), "groups")
    assert [row[2] for row in texts(rates)] == [
        "error", "deny called approve", "approve called deny",
    ]  # fmt: skip
    assert [row["choice"] for row in rates.rows] == [
        "pruned: error", "pruned: deny called approve", "pruned: approve called deny",
    ]  # fmt: skip
    assert "false negatives are approve called otherwise" in rates.note


def test_only_the_groups_that_change_most_are_drawn() -> None:
    groups = [{"key": "all", "name": "all"}] + [
        {"key": f"g={i}", "name": f"g{i}"} for i in range(40)
    ]
    rows = [rate("all")] + [rate(f"g={i}", low=i / 100) for i in range(40)]
    content = {**CONTENT, "groups": groups, "subgroups": {"pruned": rows}, "rows": {}}
    one = chart(section(groups_section(Findings(whole(content), None, "pruned"))), "rates")
    drawn = {str(row["group"]) for row in one.table.rows if row["drawn"]}
    assert drawn == {"all", *(f"g{i}" for i in range(17, 40))}
    assert "Drawn: 24 of 41 groups" in one.summary
    assert len(one.table.rows) == 41


def test_without_labels_there_are_no_rates() -> None:
    ledger = [
        {"group": "all", "changed": {"value": 0.05, "low": 0.04, "high": 0.06}},
        {"group": "age=old", "changed": {"value": 0.3, "low": 0.2, "high": 0.4}},
    ]
    content = {**CONTENT, "subgroups": {}, "rows": {}, "divergence": {"pruned": {"ledger": ledger}}}
    findings = Findings(unlabelled(content), None, "pruned")
    assert groups_section(findings) is None
    assert classes_section(findings) is None
    assert whom(findings) == [
        "old: 30.00% [20.00, 40.00] of its predictions change, so that its error rises by at most "
        "40.00%. Whether for better or worse only labels can tell."
    ]


def lost(name: str, loss: dict[str, Any], p: float | None = None, *recalls: float) -> Any:
    """The rows of one class."""
    before, after = recalls or (None, None)
    whole = {"dense": before, "compressed": after, "beyond accuracy": loss, "p, adjusted": p}
    return class_rows("pruned", name, whole)


CLASSES = [
    *lost("a", {"value": 0.01, "low": -0.01, "high": 0.03, "n": 90}, 0.4, 0.9, 0.85),
    *lost("b", {"value": 0.05, "low": 0.02, "high": 0.08, "n": 110}, 0.002),
    *lost("c", {"value": None, "reason": "no examples"}),
    *lost("d", {"value": -0.05, "low": -0.08, "high": -0.02, "n": 110}, 0.0004),
]


def test_classes_go_from_the_largest_loss_to_the_largest_gain() -> None:
    audit = whole({**CONTENT, "rows": {"impact": CLASSES}})
    shown = table(section(classes_section(Findings(audit, None, "pruned"))), "classes")
    rows = {row[1]: row for row in texts(shown)}
    assert list(rows) == ["b", "a", "d", "c"]
    assert rows["b"][2:] == [
        "110", "+5.00 [+2.00, +8.00]", "+10.00 [+8.00, +12.00]", "0.002", "▼ loses more",
    ]  # fmt: skip
    assert rows["a"][4:] == ["+5.00 (no interval was computed)", "0.400", "no"]
    assert rows["d"][5:] == ["<0.001", "▲ loses less"]
    assert rows["c"][3:] == ["no examples", "no examples", "no examples", "no"]
    assert list(shown.marked) == [0, 2]
    assert shown.most == 4


def test_the_other_of_two_classes_loses_what_the_positive_one_gains_falsely() -> None:
    rows = [rate("all", "fpr", absolute={"value": 0.3, "low": 0.2, "high": 0.4})]
    examples = {"classes": ["a", "b"], "positive": "b"}
    content = {**CONTENT, "examples": examples, "subgroups": {"pruned": rows}, "rows": {}}
    audit = whole({**content, "rows": {"impact": CLASSES[:8]}})
    shown = table(section(classes_section(Findings(audit, None, "pruned"))), "classes")
    rows_of = {row[1]: row[4] for row in texts(shown)}
    assert rows_of["a"] == "+30.00 [+20.00, +40.00]"


def test_of_very_many_classes_the_extremes_have_intervals() -> None:
    many = [row for i in range(100) for row in lost(str(i), {"value": i / 1000})]
    audit = whole({**CONTENT, "rows": {"impact": many}})
    shown = shown_classes(audit, "pruned")
    assert (shown[0], shown[29], shown[30], shown[-1]) == ("99", "70", "29", "0")
    assert shown_classes(audit, "int8") == []


def precision(variant: str, mean: float, change: float | None = None) -> list[dict[str, Any]]:
    at = {"variant": variant, "metric": "average precision"}
    numbers: dict[str, Any] = {
        "average precision": {"value": mean, "low": mean - 0.1, "high": mean + 0.1}
    }
    if change is not None:
        numbers["change"] = {"value": change, "low": change - 0.01, "high": change + 0.01}
    of_cup = numbers | {"average precision": {"value": mean}, "positives": 12}
    return [*rows_at(at, numbers), *rows_at(at | {"class": "cup"}, of_cup)]


def labels(average: list[dict[str, Any]]) -> Table | Section:
    changed = {
        "CIEs": 31, "floor": {"value": 0.02}, "disagreement": {"value": 0.05},
        "excess": {"value": 0.03, "low": 0.01, "high": 0.05},
    }  # fmt: skip
    rows = [row for name in ("int8", "pruned") for row in rows_at({"variant": name}, changed)]
    described = {"names": ["cup", "cat"], "attribute": "label", "examples": 600}
    audit = whole({**CONTENT, "rows": {"labels": rows + average}, "labels": described})
    return section(labels_section(Findings(audit, None, "pruned")))


def test_whole_examples_and_labels_have_tables_of_their_own() -> None:
    average = [*precision("dense", 0.7), *precision("int8", 0.6, -0.1)]
    shown = labels(average)
    assert isinstance(shown, Section)
    assert texts(table(shown, "labels_changed"))[0] == [
        "int8", "31", "5.00% (no interval)", "2.00% (no interval)", "+3.00 [+1.00, +5.00]",
    ]  # fmt: skip
    assert texts(table(shown, "average_precision")) == [
        ["int8", "Mean over labels (mAP)", "", "70.00% [60.00, 80.00]", "−10.00 [−11.00, −9.00]"],
        ["int8", "cup", "12", "70.00% (no interval)", "−10.00 [−11.00, −9.00]"],
    ]
    without = labels([])
    assert isinstance(without, Section)
    assert without.answer[-1].startswith("No scores were kept")
    assert labels_section(Findings(whole(CONTENT), None, "pruned")) is None
