"""No answer counts as wrong, without labels as changed, and is judged by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.helpers.audits import accuracy, addresses, changes, rates
from tests.helpers.commands import scotoma

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]

CONFIG = """\
project: silent
source: {{kind: predictions, files: {table}, examples: {table}, key: id, columns: {columns}}}
baseline: fp32
label: {label}
groups: {{sex: {{column: sex}}}}
tracking: {{uri: "off"}}
"""
N = 2000
ONE = "{fp32: fp32, int8: int8}"
Rows = dict[str, Any]


def drawn(silent: float = 0.1, both: bool = False) -> Rows:
    """Three classes; `int8` answers as `fp32` does, and for some women not at all."""
    rng = np.random.default_rng(0)
    label = rng.choice(["a", "b", "c"], N)
    sex = rng.choice(["f", "m"], N)
    dense = np.where(rng.random(N) < 0.9, label, rng.choice(["a", "b", "c"], N)).astype(object)
    compressed = dense.copy()
    gone = (sex == "f") & (rng.random(N) < silent)
    compressed[gone] = None
    if both:
        dense[gone] = None
    return {
        "id": np.arange(N),
        "label": label,
        "sex": sex,
        "fp32": pl.Series(dense.tolist(), dtype=pl.String),
        "int8": pl.Series(compressed.tolist(), dtype=pl.String),
    }


def audited(
    home: Path, rows: Rows, label: str = "{column: label}", kind: str = "csv", columns: str = ONE
) -> tuple[int, str, Any, Any]:
    """Exit code and summary of `scotoma audit --gate`, its audit.json and the only variant."""
    table = home / f"wide.{kind}"
    frame = pl.DataFrame(rows)
    (frame.write_parquet if kind == "parquet" else frame.write_csv)(table)
    text = CONFIG.format(table=table, label=label, columns=columns)
    (home / "audit.yaml").write_text(text)
    run = home / "run"
    code, out, err = scotoma("audit", home / "audit.yaml", "--out", run, "--gate", "--quiet")
    assert code in (0, 1), err
    audit, gate = (json.loads((run / name).read_text()) for name in ("audit.json", "gate.json"))
    return code, " ".join(out.split()), audit, gate["variants"][0]


def rate(audit: Any, group: str, metric: str, part: str = "compressed") -> float:
    rows = [*rates(audit, "int8"), *rates(audit, "int8", "unanswered")]
    (row,) = [
        one for one in rows if (one["group"], one["metric"], one["class"]) == (group, metric, None)
    ]
    value: float = row[part]["value"]
    return value


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_answer_is_wrong(tmp_path: Path, kind: str) -> None:
    rows = drawn()
    code, out, audit, variant = audited(tmp_path, rows, kind=kind)
    silent, women = rows["int8"].is_null().to_numpy(), rows["sex"] == "f"
    wrong = (rows["int8"].to_numpy() != rows["label"]) | silent
    assert rate(audit, "all", "error") == pytest.approx(wrong.mean())
    assert rate(audit, "sex=f", "error") == pytest.approx(wrong[women].mean())
    assert rate(audit, "sex=f", "unanswered") == pytest.approx(silent[women].mean())
    assert rate(audit, "sex=f", "unanswered", "dense") == 0
    assert [row["group"] for row in rates(audit, "int8", "unanswered")] == ["all", "sex=f", "sex=m"]
    assert all(
        row["compressed"]["n"] and row["compressed"]["high"]
        for row in rates(audit, "int8", "unanswered")
    )
    assert accuracy(audit, "int8")["top1"]["value"] == pytest.approx(1 - wrong.mean())
    changed = rows["fp32"].to_numpy() != np.where(silent, "", rows["int8"].to_numpy())
    everyone = changes(audit, "int8")["ledger"][0]
    assert everyone["changed"]["value"] == pytest.approx(changed.mean())
    # It is no class: nobody asks for its recall.
    assert audit["examples"]["classes"] == ["a", "b", "c"]
    impact = addresses(audit, "impact", variant="int8")
    assert [at["class"] for at in impact] == ["a", "b", "c"]
    assert "(no answer)" not in {row["class"] for row in rates(audit, "int8")}
    for c in "abc":  # of each class the examples of it that are missed
        (at,) = [one for one in impact if one["class"] == c]
        of_class = rows["label"] == c
        assert at["compressed"]["number"]["value"] == pytest.approx(1 - wrong[of_class].mean())
    runs = addresses(audit, "fairness", variant="int8")
    assert all(value is not None for at in runs for value in at["mean"]["models"])
    assert code == 1
    failed = {test["where"]: test["rule"] for test in variant["tests"] if test["verdict"] == "FAIL"}
    assert failed["share unanswered f"] == "unanswered"
    assert failed["error f"] == "error_groups"
    (note,) = [one for one in audit["admission"] if one["rule"] == "unanswered"]
    assert note["sentence"] == (
        f"int8 gives no answer to {silent.sum()} of 2,000 examples: they count as wrong"
    )
    assert note["sentence"] in out


def test_no_answer_is_wrong_to_whoever_is_not_in_the_positive_class(tmp_path: Path) -> None:
    """As another class than the positive one, no answer to a negative would be right."""
    rows = drawn()
    _, _, audit, _ = audited(tmp_path, rows, "{column: label, positive: a}")
    silent, truth = rows["int8"].is_null().to_numpy(), rows["label"] == "a"
    positive = rows["int8"].to_numpy() == "a"
    women = rows["sex"] == "f"
    wrong = (positive != truth) | silent
    assert rate(audit, "sex=f", "error") == pytest.approx(wrong[women].mean())
    assert rate(audit, "sex=f", "fpr") == pytest.approx(wrong[women & ~truth].mean())
    assert rate(audit, "sex=f", "fnr") == pytest.approx(wrong[women & truth].mean())
    assert rate(audit, "all", "unanswered") == pytest.approx(silent.mean())


def test_without_labels_no_answer_is_a_change(tmp_path: Path) -> None:
    rows = drawn()
    del rows["label"]
    code, out, audit, variant = audited(tmp_path, rows, "{column: null}")
    silent, women = rows["int8"].is_null().to_numpy(), rows["sex"] == "f"
    (row,) = [r for r in changes(audit, "int8")["ledger"] if r["group"] == "sex=f"]
    assert row["changed"]["value"] == pytest.approx(silent[women].mean())
    assert rates(audit, "int8") == []
    assert rate(audit, "sex=f", "unanswered") == pytest.approx(silent[women].mean())
    assert code == 1
    assert {t["rule"] for t in variant["tests"]} == {"changed", "unanswered"}
    assert "they count as changed" in out


def test_a_missing_score_is_no_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = drawn()
    truth = rng.integers(0, 2, N)
    scores = np.clip(0.6 * truth + 0.4 * rng.random(N), 0, 1)
    gone = rows["int8"].is_null().to_numpy()
    rows |= {"label": truth, "fp32": scores, "int8": np.where(gone, np.nan, scores)}
    label = '{column: label, threshold: 0.5, positive: "at least 0.5"}'
    _, _, audit, _ = audited(tmp_path, rows, label, kind="parquet")
    wrong = ((scores >= 0.5) != truth) | gone
    assert rate(audit, "all", "error") == pytest.approx(wrong.mean())
    assert rate(audit, "all", "unanswered") == pytest.approx(gone.mean())


def test_several_models_are_counted_each(tmp_path: Path) -> None:
    rows = drawn()
    rows |= {"int8b": rows["fp32"], "fp32b": rows["fp32"]}
    columns = "{fp32: [fp32, fp32b], int8: [int8, int8b]}"
    _, out, audit, _ = audited(tmp_path, rows, columns=columns)
    count = int(rows["int8"].is_null().sum())
    assert rate(audit, "all", "unanswered") == pytest.approx(count / (2 * N))
    assert f"no answer to {count} of 4,000 questions (2,000 examples, 2 models)" in out


def test_what_both_sides_leave_open_is_no_harm(tmp_path: Path) -> None:
    """The harmless twin: whom the baseline does not answer, compression takes nothing from."""
    code, _, audit, variant = audited(tmp_path, drawn(both=True))
    assert (code, variant["verdict"]) == (0, "PASS")
    assert rate(audit, "sex=f", "unanswered") == rate(audit, "sex=f", "unanswered", "dense") > 0
    assert len([note for note in audit["admission"] if note["rule"] == "unanswered"]) == 2


def test_where_everything_has_an_answer_nothing_is_asked(tmp_path: Path) -> None:
    code, _, audit, variant = audited(tmp_path, drawn(silent=0.0))
    assert (code, variant["verdict"]) == (0, "PASS")
    assert "unanswered" not in audit["rows"]
    assert {test["rule"] for test in variant["tests"]} == {"error_groups", "classes"}
    rules = tmp_path / "gate.yaml"
    rules.write_text(
        "rules: [{id: u, metric: unanswered, max_increase: {absolute: 0.01}},\n"
        "        {id: e, metric: error, max_increase: {absolute: 0.01}}]\n"
    )
    code, out, _ = scotoma("gate", tmp_path / "run", "--rules", rules, "--json")
    assert code == 0
    (test,) = [t for t in json.loads(out)["variants"][0]["tests"] if t["rule"] == "u"]
    assert (test["verdict"], test["reason"]) == ("NOT JUDGED", "every example has an answer")


def test_missing_answers_have_no_recall_to_ask_for(tmp_path: Path) -> None:
    audited(tmp_path, drawn())
    rules = tmp_path / "gate.yaml"
    rules.write_text(
        "rules: [{id: u, metric: unanswered, over: classes, max_increase: {absolute: 0.01}}]\n"
    )
    code, _, err = scotoma("gate", tmp_path / "run", "--rules", rules)
    assert code == 2
    assert "asks for unanswered, which classes do not have" in " ".join(err.split())


@pytest.mark.parametrize("free", [False, True])
def test_compare_counts_no_answer_as_wrong(tmp_path: Path, free: bool) -> None:
    """As names of classes, and as free text, which is only right or wrong."""
    frame = pl.DataFrame(drawn())
    if free:
        frame = frame.with_columns(
            pl.format("{} {}", name, "id").alias(name) for name in ("label", "fp32", "int8")
        )
    for name in ("fp32", "int8"):
        frame.select("id", "label", "sex", predicted=name).write_csv(tmp_path / f"{name}.csv")
    logs = (tmp_path / "fp32.csv", tmp_path / "int8.csv", "--group", "sex", "--gate", "--json")
    code, out, err = scotoma("compare", *logs)
    assert code == 1, err
    found = json.loads(out)
    silent = frame["int8"].is_null().to_numpy()
    right = (frame["int8"] == frame["label"]).fill_null(False).to_numpy()
    assert found["comparisons"][0]["examples"] == N
    assert found["comparisons"][0]["score"]["after"]["value"] == pytest.approx(right.mean())
    (variant,) = found["gate"]["variants"]
    (test,) = [t for t in variant["tests"] if t["where"] == "share unanswered f"]
    women = (frame["sex"] == "f").to_numpy()
    assert test["verdict"] == "FAIL"
    assert test["absolute"]["value"] == pytest.approx(silent[women].mean())
    assert f"int8 gives no answer to {silent.sum()} of 2,000 examples: they count as wrong" in [
        note["sentence"] for note in found["admission"]
    ]
