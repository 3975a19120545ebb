"""Reruns in tables of predictions: rows of one cluster, never training runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.comparison.means import mean_change
from scotoma.comparison.reruns import align_reruns
from scotoma.config import load_config
from scotoma.predictions import Predictions
from scotoma.predictions.patterns import find_tables
from scotoma.predictions.tables import AGAIN, models_by_variant, reruns_by_variant
from scotoma.run import Run, read_json
from scotoma.sources.answers import SuppliedAnswers
from scotoma.sources.reading import load_examples
from scotoma.steps.bias import bias
from scotoma.steps.prepare import prepare
from tests.helpers.audits import rates

pytestmark = pytest.mark.slow

N = 400
CONFIG = """\
project: again
source:
  kind: predictions
  files: {files}
  examples: examples.csv
baseline: bf16
label: {{column: label}}
groups:
  sex: {{column: sex}}
tracking: {{uri: "off"}}
"""


def answers(noise: float, harm: float, reruns: int, seed: int) -> np.ndarray:
    """Right answers of reruns, shape (N, R): what is hard is hard each time, but for noise."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(0).normal(size=(N, 1)) + harm
    return hard + noise * rng.normal(size=(N, reruns)) < 1.0


def written(home: Path, reruns: dict[str, int]) -> dict[str, np.ndarray]:
    rows = np.arange(N)
    table = pl.DataFrame(
        {"example_id": [f"q{i}" for i in rows], "label": ["right", "wrong"] * (N // 2)}
    )
    table.with_columns(sex=pl.Series(np.where(rows % 3, "m", "f"))).write_csv(home / "examples.csv")
    right = {
        name: answers(0.3, 0.3 * (name != "bf16"), count, seed)
        for seed, (name, count) in enumerate(reruns.items())
    }
    other = {"right": "wrong", "wrong": "right"}
    for name, table_of in right.items():
        (home / "preds" / name).mkdir(parents=True, exist_ok=True)
        for rerun in range(table_of.shape[1]):
            said = [
                label if hit else other[label]
                for label, hit in zip(table["label"], table_of[:, rerun], strict=True)
            ]
            frame = pl.DataFrame({"example_id": table["example_id"], "predicted": said})
            frame.write_csv(home / "preds" / name / f"run{rerun}.csv")
    return right


def prepared(home: Path, files: str) -> Run:
    (home / "audit.yaml").write_text(CONFIG.format(files=files))
    run = Run.create(home / "run", load_config(home / "audit.yaml").completed())
    prepare(run)
    return run


def test_reruns_of_a_path_are_rows_of_one_cluster(tmp_path: Path) -> None:
    right = written(tmp_path, {"bf16": 2, "w4": 3})
    run = prepared(tmp_path, '"preds/{variant}/run{rerun}.csv"')
    assert run.config.fewest_models == run.config.most_models == 1
    bias(run)
    (rise,) = [
        row["absolute"]
        for row in rates(read_json(run.section("bias")), "w4")
        if row["group"] == "all" and row["metric"] == "error"
    ]
    first, second = align_reruns(2, 3)
    expected = mean_change(
        ~right["bf16"][:, first].ravel(), ~right["w4"][:, second].ravel(),
        clusters=np.repeat(np.arange(N), len(first)),
    ).change  # fmt: skip
    assert [rise[key] for key in ("value", "low", "high", "n")] == pytest.approx(
        [expected.value, expected.low, expected.high, N]
    )
    kept = Predictions.read(run.predictions("dense"))
    assert kept.predicted.shape == (6 * N, 1)
    assert kept.example_ids[:2] == ("q0 #1", "q0 #2")


def test_a_column_names_reruns_and_models_may_have_different_numbers(tmp_path: Path) -> None:
    right = written(tmp_path, {"bf16": 2, "w4": 1})
    frames = [
        pl.read_csv(path).with_columns(variant=pl.lit(path.parent.name), rerun=pl.lit(path.stem))
        for path in sorted((tmp_path / "preds").rglob("*.csv"))
    ]
    pl.concat(frames).write_parquet(tmp_path / "long.parquet")
    tables = find_tables(str(tmp_path / "long.parquet"))
    assert models_by_variant(tables) == {"bf16": ["0"], "w4": ["0"]}
    again = [f"0{AGAIN}run0", f"0{AGAIN}run1"]
    assert reruns_by_variant(tables) == {"bf16": {"0": again}, "w4": {"0": again[:1]}}
    run = prepared(tmp_path, "long.parquet")
    kept = Predictions.read(run.predictions("w4"))
    assert (kept.predicted[::2] == kept.predicted[1::2]).all()  # one rerun stands beside both
    config = load_config(tmp_path / "audit.yaml").completed()  # as `check` reads it
    wrong = SuppliedAnswers.of(config).baseline_errors(load_examples(config).split("test"))
    assert wrong == pytest.approx(1 - right["bf16"].mean(axis=1))


def test_another_rerun_is_taken_in_when_it_comes(tmp_path: Path) -> None:
    written(tmp_path, {"bf16": 1, "w4": 1})
    files = '"preds/{variant}/run{rerun}.csv"'
    assert Predictions.read(prepared(tmp_path, files).predictions("w4")).predicted.shape == (N, 1)
    written(tmp_path, {"bf16": 2, "w4": 2})
    run = prepared(tmp_path, files)
    assert Predictions.read(run.predictions("w4")).predicted.shape == (2 * N, 1)
    assert read_json(run.population("w4") / "manifest.json")["members"][0]["taken_from"] == "0"


def test_reruns_never_widen_the_interval_of_a_true_difference() -> None:
    """Over 200 comparisons: 1, 2 and 4 reruns a side, and 4 against 3."""
    widths = {(1, 1): [], (2, 1): [], (2, 2): [], (4, 3): [], (4, 4): []}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        hard = rng.normal(size=(300, 1))
        before = hard + 0.5 * rng.normal(size=(300, 4)) < 1.0
        after = hard + 0.3 + 0.5 * rng.normal(size=(300, 4)) < 1.0
        for reruns, found in widths.items():
            first, second = align_reruns(*reruns)
            rows = np.repeat(np.arange(300), len(first))
            change = mean_change(
                before[:, first].ravel(), after[:, second].ravel(), clusters=rows
            ).change
            found.append(change.high - change.low)
    means = [float(np.mean(found)) for found in widths.values()]
    assert means == sorted(means, reverse=True), dict(zip(widths, means, strict=True))
    assert means[-1] < 0.8 * means[0]
