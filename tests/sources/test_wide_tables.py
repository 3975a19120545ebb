"""Predictions in a column a model, and in arrays: drafted, checked and read as a long table is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.config import load_config, parse_config
from scotoma.errors import ConfigError, DataError
from scotoma.predictions.external import PredictionRequest, read_external
from scotoma.predictions.patterns import find_tables
from scotoma.predictions.tables import models_by_variant
from scotoma.sources.predictions import PredictionsSource
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.usefixtures("steps_here")

N = 240
RANDOM = np.random.default_rng(3)
LABEL = RANDOM.choice(["no", "yes"], N)
PEOPLE = {"sex": RANDOM.choice(["f", "m"], N), "age": RANDOM.integers(18, 91, N)}


def said(error: float) -> np.ndarray:
    return np.where(RANDOM.random(N) < error, np.where(LABEL == "yes", "no", "yes"), LABEL)


PREDICTED = {"pred_fp32": said(0.1), "pred_int8": said(0.15), "pred_prune_50": said(0.2)}
VARIANTS = {"fp32": ["pred_fp32"], "int8": ["pred_int8"], "prune_50": ["pred_prune_50"]}


def written(home: Path, way: str) -> list[str]:
    """The files of one way, and the arguments of `scotoma init` for them."""
    ids = {"case": [f"c{n}" for n in range(N)]}
    wide = pl.DataFrame({**PEOPLE, "label": LABEL, **PREDICTED})
    if way == "one table":
        pl.DataFrame({**ids, **wide.to_dict()}).write_csv(home / "t.csv")
        return ["t.csv"]
    if way == "no ids":
        wide.write_csv(home / "t.csv", separator=";")
        return ["t.csv"]
    if way == "arrays":
        np.savez(home / "t.npz", label=LABEL, **PEOPLE, **PREDICTED)
        return ["t.npz"]
    if way == "two tables":
        pl.DataFrame({**ids, **PEOPLE, "label": LABEL}).write_parquet(home / "t.parquet")
        shuffled = RANDOM.permutation(N)
        pl.DataFrame({**ids, **PREDICTED})[shuffled].write_csv(home / "p.csv")
        return ["t.parquet", "--predictions", "p.csv"]
    pl.DataFrame({**PEOPLE, "label": LABEL}).write_csv(home / "t.csv")
    np.savez(home / "p.npz", **PREDICTED)
    return ["t.csv", "--predictions", "p.npz", "--predicted", "pred_*"]


@pytest.mark.parametrize("way", ["one table", "no ids", "arrays", "two tables", "arrays beside"])
def test_what_init_drafts_is_checked_and_read_as_it_was_written(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = scotoma("init", *written(tmp_path, way))
    assert code == 0, err
    assert "predictions of 'fp32', 'int8', 'prune_50' in columns 'pred_fp32'" in err
    config = load_config(tmp_path / "audit.yaml")
    source = config.source
    assert isinstance(source, PredictionsSource)
    assert source.columns == VARIANTS
    assert source.id_column == (None if way in ("no ids", "arrays", "arrays beside") else "case")
    assert (config.baseline, list(config.groups.attributes)) == ("fp32", ["sex", "age"])
    code, _, err = scotoma("audit", "--plan", "audit.yaml", "--quiet")
    assert code == 0, err

    tables = find_tables(source.files, source.id_column, source.columns)
    keys = [f"c{n}" for n in range(N)] if source.id_column else [str(n) for n in range(N)]
    asked = PredictionRequest(models_by_variant(tables), keys, ["no", "yes"])
    for variant, answer in read_external(tables, asked).items():
        expected = (PREDICTED[VARIANTS[variant][0]] == "yes").astype(int)
        assert answer.predicted[:, 0].tolist() == expected.tolist()


def test_several_columns_are_several_models(tmp_path: Path) -> None:
    both = np.stack([said(0.1), said(0.2)], axis=1)
    np.savez(tmp_path / "t.npz", label=LABEL, dense=both, int8=both[:, ::-1], **PEOPLE)
    code, out, err = scotoma("init", str(tmp_path / "t.npz"), "--json")
    assert code == 0, err
    draft = json.loads(out)
    assert draft["source"]["columns"] == {
        "dense": ["dense_0", "dense_1"],
        "int8": ["int8_0", "int8_1"],
    }
    config = parse_config(json.dumps(draft), "draft").completed()
    assert config.population.models == 2


CONFIG: dict[str, Any] = {
    "source": {"kind": "predictions", "files": "t.csv", "examples": "t.csv"},
    "label": {"column": "label"},
}


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"files": "{variant}.csv", "columns": {"a": "b"}}, "source.columns names variants and"),
        ({"columns": {"a": "x", "b": ["y", "x"]}}, "source.columns names 'x' twice"),
        ({"columns": {"a": []}}, "source.columns.a must hold at least one entry"),
    ],
)
def test_columns_that_cannot_be_meant_are_refused(source: dict[str, Any], sentence: str) -> None:
    content = CONFIG | {"source": CONFIG["source"] | source}
    with pytest.raises(ConfigError, match=sentence):
        parse_config(json.dumps(content), "audit.yaml")


def test_a_wide_table_without_its_column_or_scores_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"example_id": ["a"], "fp32": ["x"], "int8": ["x"]}).write_csv(tmp_path / "t.csv")
    asked = PredictionRequest({"dense": ["0"]}, ["a"], ["x"])
    pattern = str(tmp_path / "t.csv")
    with pytest.raises(DataError, match="must have the column 'fp23', got example_id, fp32"):
        read_external(find_tables(pattern, columns={"dense": ["fp23"]}), asked)
    with pytest.raises(DataError, match=r"none for scores; set keep_scores: false"):
        read_external(
            find_tables(pattern, columns={"dense": ["fp32"]}), replace(asked, scores=True)
        )
    with pytest.raises(DataError, match=r"or the column of each variant in source\.columns"):
        read_external(find_tables(str(tmp_path / "{variant}.csv")),
                      PredictionRequest({"t": ["0"]}, ["a"], ["x"]))  # fmt: skip


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": [0, 1], "p": [[0.2, 0.8], [0.5, 0.5]]}, "holds scores of shape .*argmax"),
        ({"y": [0, 1], "p": [0, 1, 1]}, "must have one value per example, got 2 in 'y' and 3 in"),
        ({"y": np.array([{}, 1], object)}, "cannot be read as .npz"),
        ({"y": np.zeros((2, 2, 2))}, "must hold text or numbers, one an example"),
    ],
)
def test_arrays_that_are_no_table_are_refused(
    arrays: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    code, _, err = scotoma("init", str(tmp_path / "t.npz"), "--label", "y", "--json")
    assert code == 4
    assert pl.Series([err]).str.contains(sentence)[0], err
    (tmp_path / "t.npz").write_bytes(b"PK nothing")
    assert scotoma("init", str(tmp_path / "t.npz"), "--json")[0] == 4


def test_a_table_without_predictions_says_what_to_give(tmp_path: Path) -> None:
    pl.DataFrame({"label": ["x", "y"], "smoker": ["x", "y"]}).write_csv(tmp_path / "t.csv")
    code, _, err = scotoma("init", str(tmp_path / "t.csv"), "--json")
    assert code == 2
    assert "init needs predictions of two models, got none in 't.csv'; name their columns" in err


def test_check_takes_the_errors_that_the_predictions_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = np.where(LABEL == "yes", "no", "yes")
    errs = (PEOPLE["sex"] == "m") & (np.arange(N) % 5 == 0)  # never on women
    frame = pl.DataFrame({**PEOPLE, "label": LABEL, "pred_fp32": np.where(errs, wrong, LABEL)})
    frame.with_columns(pred_int8=pl.Series(LABEL)).write_csv("t.csv")
    assert scotoma("init", "t.csv", "--group", "sex", "--quiet")[0] == 0
    code, out, err = scotoma("audit", "--plan", "audit.yaml", "--json")
    assert code == 0, err
    printed = json.loads(out)
    assert printed["assumed"]["error"] is None
    assert printed["error"] == pytest.approx(errs.mean())
    rows = {row["key"]: row for row in printed["groups"]}
    assert rows["sex=m"]["errors"] == pytest.approx(errs.sum())
    assert (rows["sex=f"]["errors"], rows["sex=f"]["independent"]) == (0, None)
    assert rows["sex=f"]["reason"] == "the dense members err on none of its examples"
    _, out, _ = scotoma("audit", "--plan", "audit.yaml")
    share = f"{100 * errs.mean():.3g}% of the baseline's predictions are wrong"
    assert share in " ".join(out.split())
    _, out, _ = scotoma("audit", "--plan", "audit.yaml", "--assumed-error", "0.2", "--json")
    assert json.loads(out)["groups"][0]["errors"] == pytest.approx(0.2 * N)
