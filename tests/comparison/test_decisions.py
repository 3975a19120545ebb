"""`scotoma compare --positive`: FNR, FPR and selection of each group, before everything else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import confusion_matrix

from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

N = 2_000
RNG = np.random.default_rng(4)
LABEL = np.where(RNG.random(N) < 0.5, "yes", "no")
SEX = RNG.choice(["f", "m"], N)
DENSE = np.where(RNG.random(N) < 0.1, np.where(LABEL == "yes", "no", "yes"), LABEL)
INT8 = np.where((SEX == "f") & (DENSE == "yes") & (RNG.random(N) < 0.3), "no", DENSE)


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "dense.csv", tmp_path / "int8.csv"
    for path, said in zip(paths, (DENSE, INT8), strict=True):
        columns = {"id": np.arange(N), "label": LABEL, "predicted": said, "sex": SEX}
        pl.DataFrame(columns).write_csv(path)
    return paths


def expected(said: np.ndarray, rows: np.ndarray) -> dict[str, tuple[float, int]]:
    """Rates and what they are counted among, by scikit-learn."""
    (tn, fp), (fn, tp) = confusion_matrix(LABEL[rows] == "yes", said[rows] == "yes")
    return {
        "fnr": (fn / (fn + tp), fn + tp),
        "fpr": (fp / (fp + tn), fp + tn),
        "selected": ((tp + fp) / rows.sum(), rows.sum()),
    }


def test_the_rates_are_those_of_scikit_learn_and_lead_the_page(logs: tuple[Path, Path]) -> None:
    asked = ("compare", *logs, "--group", "sex", "--positive", "yes")
    found = measured(*asked)
    (comparison,) = found["comparisons"]
    assert comparison["positive"] == "yes"
    rates = {(row["group"], row["metric"]): row for row in comparison["decisions"]}
    groups = {"all": np.ones(N, bool), "sex=f": SEX == "f", "sex=m": SEX == "m"}
    assert set(rates) == {(g, metric) for g in groups for metric in ("fnr", "fpr", "selected")}
    for group, rows in groups.items():
        before, after = expected(DENSE, rows), expected(INT8, rows)
        for metric, (value, n) in after.items():
            row = rates[group, metric]
            assert row["after"]["value"] == pytest.approx(value)
            assert row["before"]["value"] == pytest.approx(before[metric][0])
            assert row["change"]["value"] == pytest.approx(value - before[metric][0])
            assert row["after"]["n"] == n
            assert row["after"]["low"] < value < row["after"]["high"]

    out = scotoma(*asked)[1]
    assert out.index("Decisions: 'yes' is the favourable label") < out.index("\nscore: ")
    order = re.findall(r"^(?:all|sex=\w) +(FNR|FPR|selected) +[\d,]+ ", out, re.MULTILINE)
    assert order == ["FNR"] * 3 + ["FPR"] * 3 + ["selected"] * 3
    rules = {test["rule"] for variant in found["gate"]["variants"] for test in variant["tests"]}
    assert {"fnr_groups", "fpr_groups"} <= rules
    assert found["gate"]["verdict"] == "FAIL"
    assert measured(*asked[:-2])["comparisons"][0]["decisions"] == []


def test_an_audit_of_it_knows_the_favourable_answer(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--group", "sex", "--positive", "yes", "--out", tmp_path / "run", "--quiet")
    code, _, err = scotoma("compare", *logs, *options)
    assert code == 0, err
    assert pl.read_json(tmp_path / "run" / "audit.json")["examples"][0]["positive"] == "yes"


@pytest.mark.parametrize(
    ("positive", "sentence"),
    [("maybe", "--positive must be a value of the label, got 'maybe': choose among 'no', 'yes'")],
)
def test_what_is_no_answer_is_refused(
    positive: str, sentence: str, logs: tuple[Path, Path]
) -> None:
    code, out, err = scotoma("compare", *logs, "--positive", positive)
    assert (code, out) == (2, "")
    assert sentence in err


def test_scores_without_classes_have_no_favourable_answer(tmp_path: Path) -> None:
    paths = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in paths:
        pl.DataFrame({"id": range(60), "correct": [1, 0] * 30}).write_csv(path)
    code, out, err = scotoma("compare", *paths, "--positive", "yes")
    assert (code, out) == (2, "")
    assert "--positive needs tables whose answers are class names" in err
