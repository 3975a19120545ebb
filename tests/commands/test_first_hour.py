"""Three new users, by the commands alone, on data not made here: a stumble is a non-zero exit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.config.reading import DEFAULT_CONFIG
from tests.helpers.audits import accuracy
from tests.helpers.commands import scotoma
from tests.helpers.walks import (
    SPOILS,
    TABLES,
    adult,
    breast_cancer,
    predicted,
    wine,
    write_images,
    write_spoilt,
)

pytestmark = [pytest.mark.thorough, pytest.mark.slow]

SETS = ("adult", "breast cancer", "wine")
TIMES: list[str] = []
STUMBLES: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def listed() -> Iterator[None]:
    """Print times and stumbles of all walks: `pytest -s`."""
    yield
    print("", *TIMES, f"{len(STUMBLES)} stumbles", *STUMBLES, sep="\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "SCOTOMA_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def walk(who: str, *steps: tuple[str, ...], verdicts: tuple[int, ...] = (0,)) -> str:
    """Take every step; the last one may end with one of some exit codes."""
    began, said = time.monotonic(), ""
    for step in steps:
        code, out, err = scotoma(*step)
        said += out + err
        if code not in (verdicts if step is steps[-1] else (0,)):
            STUMBLES.append(f"{who}: scotoma {' '.join(step)} ended with {code}: {err.strip()}")
            pytest.fail(STUMBLES[-1])
    TIMES.append(f"{time.monotonic() - began:6.1f} s  {who}")
    return said


def test_each_defect_is_in_three_tables() -> None:
    for defect in SPOILS:
        assert len(SETS) * sum(defect in defects for defects in TABLES) >= 3


@pytest.mark.parametrize("defects", TABLES, ids=", ".join)
@pytest.mark.parametrize("name", SETS)
def test_an_auditor_with_tables_of_predictions(
    name: str, defects: tuple[str, ...], home: Path, request: pytest.FixtureRequest
) -> None:
    if name == "adult":
        table, label = adult(request.getfixturevalue("shared"))
    else:
        table, label = breast_cancer() if name == "breast cancer" else wine()
    answers = predicted(table, label, seed=len(defects[0]))
    place = TABLES.index(defects)
    arguments = ["people.csv", "--label", label]
    if place == 0:  # a column a model in the table itself
        table |= {f"pred_{variant}": values for variant, values in answers.items()}
    elif place == 1:  # a file a model, in the order of the table
        (home / "preds").mkdir()
        for variant, values in answers.items():
            pl.DataFrame({"predicted": values}).write_csv(home / "preds" / f"{variant}.csv")
        arguments += ["--predictions", "preds/{variant}.csv"]
    else:  # arrays
        np.savez(home / "preds.npz", **{k: np.array(values) for k, values in answers.items()})
        arguments += ["--predictions", "preds.npz"]
    write_spoilt(table, label, defects, home / "people.csv")
    walk(
        f"auditor, {name}: {', '.join(defects)}",
        ("init", *arguments),
        ("audit", "--plan", "audit.yaml"),
        ("audit", "audit.yaml", "--out", "runs/first"),
        ("gate", "runs/first"),
        verdicts=(0, 1, 3),
    )
    assert (home / "runs" / "first" / "report.html").stat().st_size > 100_000


def test_an_engineer_with_an_onnx_file_and_a_folder_of_images(home: Path) -> None:
    write_images(home, seed=5)
    said = walk(
        "engineer, images of mixed sizes",
        ("init", "attributes.csv", "--images", "images", "--models", "models"),
        ("audit", "--plan", "audit.yaml"),
        ("audit", "audit.yaml", "--out", "runs/first"),
        ("gate", "runs/first"),
        verdicts=(0, 1, 3),
    )
    assert "16x16 pixels" in " ".join(said.split())
    audit = json.loads((home / "runs" / "first" / "audit.json").read_text())
    top1 = accuracy(audit, "dense")["top1"]
    assert top1["value"] > 0.95  # what it was fitted to, so nothing was misread


def test_an_operator_who_tracks_repeats_and_compares(home: Path) -> None:
    table, label = breast_cancer()
    table |= {f"pred_{k}": v for k, v in predicted(table, label, seed=1).items()}
    write_spoilt(table, label, (), home / "people.csv")
    (home / "cluster.yaml").write_text(DEFAULT_CONFIG)  # on a cluster a local file is not read
    walk(
        "operator",
        ("init", "people.csv", "--label", label),
        ("audit", "audit.yaml", "--out", "runs/first"),
        ("audit", "audit.yaml", "--out", "runs/first"),
        ("audit", "audit.yaml", "--out", "runs/second"),
        ("compare", "runs/first", "runs/second"),
        ("verify", "runs/second"),
        ("show", "trend", "audit.yaml"),
        ("kubeflow", "submit", "cluster.yaml", "--dry-run", "pipeline.yaml"),
        ("show", "runs/second"),
    )
