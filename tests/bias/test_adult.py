"""The worked example of the page on metrics, on UCI Adult."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "metrics.md"


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a reader has run the first command of the example."""
    path = tmp_path_factory.mktemp("adult")
    table = shared / "data" / "adult" / "adult.csv.gz"
    subprocess.run(
        [sys.executable, ROOT / "docs" / "adult.py", table, path / "predictions.csv",
         path / "runs.csv"], check=True,
    )  # fmt: skip
    return path


def commands() -> list[str]:
    """What the page tells readers of the example to type after the training."""
    section = PAGE.read_text(encoding="utf-8").partition("## Worked example")[2]
    blocks = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    assert any(
        line == "python docs/adult.py adult.csv.gz predictions.csv runs.csv" for line in lines
    )
    return [line for line in lines if line.startswith("scotoma ")]


def test_the_predictions_are_those_of_sensible_models(folder):
    table = pl.read_csv(folder / "predictions.csv")
    assert table.height == 16_281
    for name, least in (("full", 0.86), ("small", 0.84)):
        columns = [column for column in table.columns if column.startswith(name)]
        assert len(columns) == 5
        accuracy = [(table[column] == table["income"]).mean() for column in columns]
        assert least < min(accuracy) < max(accuracy) < 0.89
        assert len(set(accuracy)) > 1  # seeds matter


def answered(folder: Path, table: str) -> dict:
    asked = next(line for line in commands() if line.startswith(f"scotoma compare {table} "))
    run = [sys.executable, "-m", *shlex.split(asked), "--json"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_runs_differ_as_the_page_says(folder):
    found = answered(folder, "runs.csv")
    compared = [row for row in found["rows"] if row["question"] == "comparison"]
    rows = {(row["metric"], row["what"]): row for row in compared}
    metrics = {metric for metric, _ in rows}
    assert len(metrics) == 7
    for metric in metrics:
        assert abs(rows[metric, "Cohen's d"]["value"]) > 2
        assert rows[metric, "U p, adjusted"]["value"] == pytest.approx(0.008, abs=0.0005)
        assert rows[metric, "raw spread"]["low"] is not None
    change = {metric: rows[metric, "difference"] for metric in metrics}
    assert change["DP"]["value"] == pytest.approx(-0.042, abs=0.004)
    assert change["DP"]["high"] < 0 < change["EOTP"]["low"]
    assert change["EOTP"]["value"] == pytest.approx(0.026, abs=0.008)


def test_the_commands_of_the_page_run_and_find_what_the_page_says(folder):
    found = answered(folder, "predictions.csv")
    assert (found["models"], found["baseline_models"], found["examples"]) == (5, 5, 16_281)
    rows = {(row["group"], row["metric"]): row for row in found["subgroups"]}
    said = {
        ("all", "error"): (0.128, 0.149), ("all", "fnr"): (0.35, 0.52),
        ("sex=Female", "fnr"): (0.42, 0.61),
    }  # fmt: skip
    for where, (before, after) in said.items():
        assert rows[where]["baseline"]["value"] == pytest.approx(before, abs=0.015), where
        assert rows[where]["predicted"]["value"] == pytest.approx(after, abs=0.015), where
        assert rows[where]["absolute"]["low"] > 0, where
    clarify = {row["metric"]: row for row in found["clarify"] if row["column"] == "sex"}
    assert len(clarify) == 21
    assert not any(row["lacks"] for row in clarify.values())
    assert clarify["DI"]["baseline"]["value"] == pytest.approx(0.32, abs=0.02)
    assert clarify["DI"]["predicted"]["value"] == pytest.approx(0.27, abs=0.02)
    assert clarify["DI"]["change"]["high"] < 0
    assert all(row["predicted"]["value"] is not None for row in clarify.values())
