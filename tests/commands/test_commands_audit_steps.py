"""Steps of an audit by themselves, and runs that are taken up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.steps.table import STEPS
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow

CONFIG = """\
project: tiny
source: {kind: predictions, files: 'said-{variant}.csv', examples: examples.csv}
label: {column: label}
groups: {side: {column: side}}
tracking: {uri: "off"}
"""
N = 60


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One dense and one int8 model's answers."""
    rng = np.random.default_rng(0)
    ids = [str(row) for row in range(N)]
    labels = rng.choice(["cat", "dog"], N)
    table = {"example_id": ids, "label": labels, "side": rng.choice(["left", "right"], N)}
    pl.DataFrame(table).write_csv(tmp_path / "examples.csv")
    for variant in ("dense", "int8"):
        said = np.where(rng.random(N) < 0.2, "dog", labels)
        answers = pl.DataFrame({"example_id": ids, "predicted": said})
        answers.write_csv(tmp_path / f"said-{variant}.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_steps_run_one_by_one_and_the_rest_is_taken_up(home: Path) -> None:
    code, out, err = scotoma("audit", "audit.yaml", "--out", "run", "--step", "prepare", "--quiet")
    assert (code, err) == (0, "")
    assert out.split() == [
        "examples.json",
        "examples.parquet",
        *(
            f"populations/{name}/{file}.json"
            for name in ("dense", "int8")
            for file in ("manifest", "member-000")
        ),
        "predictions/dense.parquet",
        "predictions/int8.parquet",
    ]
    assert not (home / "run" / "sections").exists()

    code, _, err = scotoma("audit", "audit.yaml", "--out", "run", "--step", "report")
    assert code == 2
    assert "--step report needs what the step verdict leaves, which has not ended in" in err
    assert err.endswith("begin with --step verdict, or leave --step out\n")

    code, _, err = scotoma("audit", "audit.yaml", "--out", "run", "--step", "train")
    assert code == 2
    assert err == (
        "scotoma: --step train has nothing to do in this audit; its steps are prepare, divergence, "
        "bias, slices, verdict, report, log\n"
    )

    code, out, err = scotoma("audit", "--resume", "--out", "run", "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out)["project"] == "tiny"

    section = home / "run" / "sections" / "bias.json"
    measured = section.read_bytes()
    section.unlink()
    code, out, _ = scotoma("audit", "--resume", "--out", "run", "--step", "bias", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"step": "bias", "files": ["sections/bias.json", "sections/rates.parquet"]},
    )
    assert section.read_bytes() == measured


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--step", "baias"],
            "--step must be a step of the audit, got 'baias'; they are prepare, import_models, "
            "train, prune, quantize, predict, gather, robustness, divergence, bias, slices, "
            "verdict, report, log; did you mean 'bias'?",
        ),
        (
            ["--step", "bias", "--gate"],
            "--gate judges a whole audit, which --step does not run; leave one out",
        ),
        (
            ["--resume"],
            "--resume needs an interrupted run, and there is none at run; leave out --resume, or "
            "correct --out",
        ),
    ],
)
def test_what_cannot_be_taken_up_is_refused_and_leaves_nothing(
    home: Path, arguments: list[str], sentence: str
) -> None:
    code, out, err = scotoma("audit", "audit.yaml", "--out", "run", *arguments)
    assert (code, out, err) == (2, "", f"scotoma: {sentence}\n")
    assert not (home / "run").exists()


def test_a_step_too_early_leaves_no_folder(home: Path) -> None:
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run", "--step", "report")
    assert code == 2
    assert "needs what the step verdict leaves" in err
    assert not (home / "run").exists()


def test_every_step_reads_what_steps_before_it_leave() -> None:
    places = list(STEPS)
    for step in STEPS.values():
        assert all(places.index(name) < places.index(step.name) for name in step.reads.values())
