"""Examples without labels: what an audit says of them, what it leaves out, what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from scotoma.audit import Audit, read_audit
from scotoma.config import load_config, parse_config
from scotoma.errors import ConfigError
from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.steps.bias import bias
from scotoma.steps.divergence import divergence
from scotoma.steps.prepare import prepare
from scotoma.steps.slices import slices
from scotoma.steps.verdict import verdict
from scotoma.tracking.records import audit_records, member_records
from tests.helpers import external_predictions as elsewhere
from tests.helpers.commands import scotoma

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]

LABELLED = elsewhere.CONFIG + "variants: [dense, {predictions: [int8], paired: true}]\n"
UNLABELLED = LABELLED.replace("{column: label, positive: cat}", "{column: null, positive: cat}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same predictions with labels and without: runs `run` and `labelled`."""
    home = elsewhere.write(tmp_path_factory.mktemp("field"), models=5)
    (home / "audit.yaml").write_text(LABELLED)
    labelled = Run.create(home / "labelled", load_config(home / "audit.yaml").completed())
    for step in (prepare, divergence, bias, slices, verdict):
        step(labelled)
    table = pl.read_csv(home / "examples.csv")
    table.drop("label").write_csv(home / "examples.csv")
    elsewhere.audited(home, UNLABELLED)
    return home


def audit_of(home: Path, name: str) -> Audit:
    return read_audit(home / name / "audit.json")


def test_what_needs_no_label_is_what_an_audit_with_labels_finds(home: Path) -> None:
    audits = [audit_of(home, name) for name in ("run", "labelled")]
    without, known = (audit.divergence["int8"] for audit in audits)
    assert without.cie == known.cie
    assert without.over_index == known.over_index
    assert without.taxicab.groups == known.taxicab.groups
    first, second = (audit.numbers("divergence", "int8") for audit in audits)
    kinds = ("right_to_wrong", "wrong_to_right", "wrong_to_other")
    parts = {f"ledger.{kind}" for kind in kinds}
    assert {row.what for row in second} - {row.what for row in first} == parts | {
        "top1.dense", "top1.compressed",
    }  # fmt: skip
    assert [row for row in second if row.what in {one.what for one in first}] == first
    for at in audits[1].at("divergence", "int8", "ledger."):
        total = sum(at[kind].number.value or 0.0 for kind in kinds)
        assert at["changed"].number.value == pytest.approx(total, abs=1e-12)
    outcomes = [audit_of(home, name).at("clarify", "int8") for name in ("run", "labelled")]
    by_metric = [
        {
            (at["change"].metric, at["change"].fact("disadvantaged")): at
            for at in ats
            if "change" in at
        }
        for ats in outcomes
    ]
    assert {metric for metric, _ in by_metric[0]} == {"DPPL", "DI", "CDDPL"}
    for key, row in by_metric[0].items():
        for part in ("dense", "compressed", "change"):
            own, other = (at[part].number for at in (row, by_metric[1][key]))
            assert (own.value or 0) == pytest.approx(other.value or 0, rel=1e-9)
            assert (own.low or 0) == pytest.approx(other.low or 0, rel=1e-9)


def test_the_error_of_a_group_rises_by_no_more_than_its_changed_labels(home: Path) -> None:
    rows = audit_of(home, "run").numbers("divergence", "int8", what="ledger.changed")
    changed = {row.group: row.number for row in rows}
    labelled = audit_of(home, "labelled")
    rows = labelled.numbers("rates", "int8", metric="error", what="absolute")
    assert {row.group for row in rows} == set(changed)
    assert all((row.number.value or 0) <= (changed[row.group].value or 0) for row in rows)


def test_what_needs_labels_is_left_out_and_said_once(home: Path) -> None:
    content = (home / "run" / "audit.json").read_text()
    audit = audit_of(home, "run")
    assert not {"accuracy", "gaps", "impact", "rates"} & {*audit.rows}
    assert audit.at("divergence", "int8", "top1.") == []
    assert all(row.what != "labels" for row in audit.numbers("clarify"))
    assert {row.metric for row in audit.numbers("fairness", "int8")} == {"DP", "DI", "SPSF"}
    assert audit.slices["int8"].settings["metric"] == "flip"
    assert content.count(audit.examples.unlabelled) == 1
    assert "needs label" not in content.replace(audit.examples.unlabelled, "")
    assert '"unlabelled"' not in (home / "labelled" / "audit.json").read_text()
    page = (home / "run" / "report.html").read_text()
    assert page.count(f'<p class="warning"><bdi>{audit.examples.unlabelled}') == 1
    assert not re.search(r"<h2[^>]*>(Which (groups|classes) are affected|How far can one)", page)
    assert "True label" not in page
    assert "Right to wrong" not in page


def test_the_default_gate_asks_what_needs_no_labels(home: Path) -> None:
    gate = json.loads((home / "run" / "gate.json").read_text())
    assert [rule["metric"] for rule in gate["rules"]["rules"]] == ["cie_share_excess"]
    assert gate["variants"][0]["top1"] is None


def test_rules_that_need_labels_are_refused(home: Path, tmp_path: Path) -> None:
    for rule in (
        "{id: r, metric: error, over: all, max_increase: {absolute: 0.1}}",
        "{id: r, metric: classes_hurt, margin: 0.1}",
        "{id: r, metric: slices_hurt, margin: 0.1}",
    ):
        (tmp_path / "gate.yaml").write_text(f"rules: [{rule}]")
        code, _, err = scotoma("gate", home / "run", "--rules", tmp_path / "gate.yaml")
        assert code == 4
        assert "rule 'r' needs labels, and the test examples have none" in err


def test_a_rule_about_changed_labels_is_decided_by_their_interval(
    home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    rows = audit_of(home, "run").numbers("divergence", "int8", what="ledger.changed")
    by_group = {row.group: row.number for row in rows}
    highest = max(q.high or 0.0 for q in by_group.values())
    verdicts = []
    for margin in (1.05 * highest, 0.001):
        (tmp_path / "gate.yaml").write_text(
            f"rules: [{{id: changed, metric: labels_changed, over: groups, max: {margin:.4f}}}]"
        )
        rules = ("--rules", tmp_path / "gate.yaml")
        _, out, _ = scotoma("gate", tmp_path / "run", *rules, "--json", "--quiet")
        (variant,) = json.loads(out)["variants"]
        verdicts.append(variant["verdict"])
        assert {test["group"] for test in variant["tests"]} == set(by_group) - {"all"}
    assert verdicts == ["PASS", "FAIL"]


def test_one_model_a_side_is_judged_by_its_changed_labels() -> None:
    from scotoma.config.gate import default_rules

    (rule,) = default_rules(positive=True, shipped=True, labelled=False).rules
    assert (rule.metric, rule.id) == ("labels_changed", "changed")


def test_mlflow_gets_what_there_is(home: Path) -> None:
    audit = audit_of(home, "run")
    dense, int8 = audit_records(audit, None, "2027-03", {})[1][::-1]
    names = {name for name, _, _ in int8.metrics}
    assert {"changed_worst", "cie_share", "detail/divergence/cie/count"} <= names
    assert "detail/sex is f/divergence/ledger/changed" in names
    assert not any("accuracy" in name for record in (dense, int8) for name, _, _ in record.metrics)
    member = {"index": 0, "seed": 0, "sha256": "x"}
    members = {v.name: [member] for v in audit.variants}
    logged = {name for name, _, _ in member_records(audit, {}, members, "", {})[0].metrics}
    assert "detail/fairness/sex/DP" in logged
    assert "accuracy" not in logged


def test_what_to_label_first_is_ranked(home: Path) -> None:
    for name in ("run", "labelled"):
        _, out, _ = scotoma("show", home / name, "examples", "--unlabelled", "--json", "--quiet")
        content = json.loads(out)
        rows = content["examples"]
        scores = pl.read_parquet(home / name / "divergence.parquet").filter(pl.col("taxicab") > 0)
        assert {row["example_id"] for row in rows} == set(scores["example_id"])
        distances = [row["taxicab"] for row in rows]
        assert distances == sorted(distances, reverse=True)
        assert all("label" not in row and row["why"] for row in rows)
        cies = [row for row in rows if row["cie"]]
        # Of so few CIEs nearly all are needed: Cochran's n with the correction for N.
        endless = 1.96**2 / 4 / 0.05**2
        needed = round(endless / (1 + (endless - 1) / len(cies)))
        assert sum(row["sample"] for row in rows) == sum(row["sample"] for row in cies) == needed
        assert f"{len(rows)} examples differ, {len(cies)} of them CIEs" in content["advice"][0]
    assert scotoma("show", home / "run", "examples", "--unlabelled", "--percentile", "90")[0] == 2


def test_commands_work_or_say_why_not(home: Path) -> None:
    assert "have no labels" in scotoma("audit", "--plan", home / "audit.yaml")[1]
    code, out, _ = scotoma("compare", home / "run", home / "labelled")
    assert code == 0
    assert "only CIE excesses are compared" in " ".join(out.split())
    rows = scotoma("show", home / "run", "examples", "--csv")[1]
    assert rows.startswith("variant,rank,example_id,dense_modal")


def test_classes_are_those_that_are_predicted_unless_they_are_listed(
    home: Path, tmp_path: Path
) -> None:
    assert audit_of(home, "run").examples.classes == ("=dog()", "bird, small", "cat")
    shutil.copytree(home / "preds", tmp_path / "preds")
    shutil.copy(home / "examples.csv", tmp_path)
    listed = UNLABELLED.replace(
        "examples: examples.csv", "examples: examples.csv\n  classes: [cat, dog]"
    )
    run = elsewhere.audited(tmp_path, listed)
    answered = Predictions.read(run.predictions("dense"), rows=0).classes
    assert answered == ("cat", "dog", "=dog() (no label)", "bird, small (no label)")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("label: none\nvariants: [dense, {prune: [0.5]}]", "source.kind digits-s trains networks"),
        (
            "label: none\nsource: {kind: onnx, models: m, images: i, attributes: a.csv}\n"
            "variants: [dense, {onnx: [int8]}]",
            "source.classes must name the classes in the order",
        ),
        ("label: {positive: cat}\nvariants: [dense, {prune: [0.5]}]", "label.column is missing"),
    ],
)
def test_a_configuration_that_lacks_labels_wrongly_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        parse_config(text, "a.yaml")
