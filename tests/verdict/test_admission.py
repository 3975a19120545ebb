"""No PASS rests on a baseline that is no better than guessing: whole audits by their command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from scotoma.cli import application

app = application(whole=True)

pytestmark = pytest.mark.slow

CONFIG = """\
project: guessing
source: {kind: predictions, files: wide.csv, examples: wide.csv, key: id,
  columns: {fp32: fp32, int8: int8}}
baseline: fp32
label: {column: label}
groups: {sex: {column: sex}}
tracking: {uri: "off"}
"""
NOTE = "no better than its answers dealt at random: preprocessing, class order or labels are"


def audit(home: Path, right: float, lost: float = 0.0, swap: bool = False) -> Result:
    """Audit a pair that is right on a share of 2,000 pictures, `int8` on fewer of women."""
    rng = np.random.default_rng(3)
    names = np.array(["cat", "dog"])
    label = rng.integers(0, 2, 2000)
    sex = rng.choice(["f", "m"], 2000)
    dense = np.where(rng.random(2000) < right, label, 1 - label)
    hit = rng.random(2000) < np.where(sex == "f", lost, 0.0)
    compressed = np.where(hit, 1 - label, dense)
    if swap:
        dense, compressed = 1 - dense, 1 - compressed
    pl.DataFrame(
        {
            "id": np.arange(2000),
            "label": names[label],
            "sex": sex,
            "fp32": names[dense],
            "int8": names[compressed],
        }
    ).write_csv(home / "wide.csv")
    (home / "audit.yaml").write_text(CONFIG.replace("wide.csv", str(home / "wide.csv")))
    return CliRunner().invoke(
        app, ["audit", str(home / "audit.yaml"), "--out", str(home / "run"), "--gate", "--quiet"]
    )


def read(home: Path, name: str) -> Any:
    return json.loads((home / "run" / name).read_text())


def test_a_swapped_class_order_gets_no_pass(tmp_path: Path) -> None:
    result = audit(tmp_path, 0.96, swap=True)
    assert result.exit_code == 0, result.output
    (note,) = [one for one in read(tmp_path, "audit.json")["admission"] if one["rule"] == "chance"]
    assert note["blocks_pass"]
    assert note["sentence"].startswith("dense is right on 4")
    assert NOTE in note["sentence"]
    (variant,) = read(tmp_path, "gate.json")["variants"]
    assert variant["verdict"] == "UNSURE"
    assert variant["sentences"] == variant["blocked"] == [note["sentence"]]
    assert {test["verdict"] for test in variant["tests"]} == {"PASS"}
    # In the same words for every reader.
    page = " ".join((tmp_path / "run" / "report.html").read_text().split())
    summary = " ".join((tmp_path / "run" / "summary.md").read_text().split())
    for text in (page, summary, " ".join(result.stdout.split())):
        assert note["sentence"][1:] in text
    rules = tmp_path / "gate.yaml"
    rules.write_text(
        "on_unsure: fail\nrules: [{id: e, metric: error, max_increase: {relative: 0.2}}]\n"
    )
    strict = CliRunner().invoke(app, ["gate", str(tmp_path / "run"), "--rules", str(rules)])
    assert strict.exit_code == 3, strict.output
    junit = ElementTree.parse(tmp_path / "run" / "junit.xml").getroot()
    (case,) = [one for one in junit.iter("testcase") if one.get("name") == "admission"]
    failure = case.find("failure")
    assert failure is not None
    assert note["sentence"] in (failure.get("message") or "")


def test_the_right_class_order_passes(tmp_path: Path) -> None:
    assert audit(tmp_path, 0.96).exit_code == 0
    assert read(tmp_path, "audit.json")["admission"] == []
    assert read(tmp_path, "gate.json")["verdict"] == "PASS"


def test_a_baseline_a_little_above_guessing_passes(tmp_path: Path) -> None:
    assert audit(tmp_path, 0.57).exit_code == 0
    assert read(tmp_path, "gate.json")["verdict"] == "PASS"


def test_harm_beside_a_baseline_that_guesses_still_fails(tmp_path: Path) -> None:
    result = audit(tmp_path, 0.5, lost=0.4)
    assert result.exit_code == 1, result.output
    (variant,) = read(tmp_path, "gate.json")["variants"]
    assert variant["verdict"] == "FAIL"
    assert NOTE in " ".join(result.stdout.split()) or "not surely better" in result.stdout


def test_a_group_without_a_dense_error_fails(tmp_path: Path) -> None:
    """A baseline that is always right loses 16 of 100 in one group."""
    n = 100
    rows = {
        "id": range(10 * n),
        "label": ["a", "b"] * (5 * n),
        "kind": [f"k{i % 10}" for i in range(10 * n)],
        "fp32": ["a", "b"] * (5 * n),
    }
    answers = list(rows["fp32"])
    for place in range(16):  # of kind 3
        answers[10 * place * 6 + 3] = "a"
    pl.DataFrame(rows | {"int8": answers}).write_csv(tmp_path / "wide.csv")
    config = CONFIG.replace("wide.csv", str(tmp_path / "wide.csv")).replace("sex", "kind")
    (tmp_path / "audit.yaml").write_text(config)
    result = CliRunner().invoke(
        app,
        [
            "audit",
            str(tmp_path / "audit.yaml"),
            "--out",
            str(tmp_path / "run"),
            "--gate",
            "--quiet",
        ],
    )
    assert result.exit_code == 1, result.output
    (variant,) = read(tmp_path, "gate.json")["variants"]
    failed = [test for test in variant["tests"] if test["verdict"] == "FAIL"]
    assert [test["group"] for test in failed if test["rule"] == "error_groups"] == ["kind=k3"]
    assert failed[0]["decided_by"]["kind"] == "absolute"
    assert "+16.00" in variant["sentences"][0]


@pytest.mark.parametrize(("shuffled", "verdict"), [(False, "PASS"), (True, "UNSURE")])
def test_numbers_must_be_better_than_dealt_ones(
    tmp_path: Path, shuffled: bool, verdict: str
) -> None:
    """A regression whose rows were joined wrongly errs as much as its answers dealt at random."""
    rng = np.random.default_rng(0)
    truth = 10 * rng.normal(size=1200)
    dense = truth + 3 * rng.normal(size=1200)
    dense = rng.permutation(dense) if shuffled else dense
    rows = {"id": np.arange(1200), "label": truth, "sex": rng.choice(["f", "m"], 1200)}
    rows |= {"fp32": dense, "int8": dense + 0.1 * rng.normal(size=1200)}
    pl.DataFrame(rows).write_csv(tmp_path / "wide.csv")
    config = CONFIG.replace("wide.csv", str(tmp_path / "wide.csv"))
    config = config.replace("{kind: predictions", "{kind: scores, measure: absolute_error")
    (tmp_path / "audit.yaml").write_text(config)
    result = CliRunner().invoke(
        app, ["audit", str(tmp_path / "audit.yaml"), "--out", str(tmp_path / "run"), "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert read(tmp_path, "gate.json")["verdict"] == verdict
    notes = [note["sentence"] for note in read(tmp_path, "audit.json")["admission"]]
    assert len([note for note in notes if NOTE in note]) == shuffled


@pytest.mark.parametrize(("skilled", "verdict"), [(True, "PASS"), (False, "UNSURE")])
def test_several_labels_must_be_better_than_their_frequency(
    tmp_path: Path, skilled: bool, verdict: str
) -> None:
    """Who knows only that 9 of 10 have a cat and 1 of 10 a dog is right on 82% of all labels."""
    rng = np.random.default_rng(0)
    n, shares = 1200, {"cat": 0.9, "dog": 0.1}
    truth = {name: (rng.random(n) < share).astype(int) for name, share in shares.items()}
    answers = {
        name: np.where(rng.random(n) < 0.9, truth[name], 1 - truth[name])
        if skilled
        else (rng.random(n) < share).astype(int)
        for name, share in shares.items()
    }
    ids = {"example_id": np.arange(n)}
    pl.DataFrame(ids | {"sex": rng.choice(["f", "m"], n)} | truth).write_csv(tmp_path / "ex.csv")
    sides = [pl.DataFrame(ids | {"variant": [name] * n} | answers) for name in ("fp32", "int8")]
    pl.concat(sides).write_csv(tmp_path / "answers.csv")
    (tmp_path / "audit.yaml").write_text(
        "project: labels\n"
        f"source: {{kind: predictions, files: {tmp_path}/answers.csv,\n"
        f"  examples: {tmp_path}/ex.csv}}\n"
        "baseline: fp32\nlabel: {columns: [cat, dog], thresholds: 0.5}\n"
        'groups: {sex: {column: sex}}\ntracking: {uri: "off"}\n'
    )
    result = CliRunner().invoke(
        app, ["audit", str(tmp_path / "audit.yaml"), "--out", str(tmp_path / "run"), "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert read(tmp_path, "gate.json")["verdict"] == verdict
    notes = [note["sentence"] for note in read(tmp_path, "audit.json")["admission"]]
    assert len([note for note in notes if NOTE in note]) == (not skilled)
