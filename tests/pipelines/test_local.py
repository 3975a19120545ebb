"""The compiled pipeline, run by kfp's own runner, and `scotoma audit` are one audit."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scotoma.config.reading import configuration
from scotoma.run import Run
from scotoma.run.judging import Judging
from scotoma.steps.inputs import resolved
from tests.faults.made import TRAINED, predictions_made_elsewhere
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.pipelines import kfp_local


@pytest.mark.parametrize(
    "kind", ["predictions", pytest.param("trained", marks=pytest.mark.thorough)]
)
def test_kfp_leaves_the_bytes_that_the_command_leaves(kind: str, tmp_path: Path) -> None:
    config = predictions_made_elsewhere(tmp_path) if kind == "predictions" else TRAINED
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--deterministic", "--out", "here")
    assert code == 0, err

    read = configuration(config, deterministic=True, seed=None, data=None)
    settled, _ = resolved(read, "")
    run = Run.create(tmp_path / "kfp", settled)
    Judging(None, datetime.date.today()).leave(run)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, kfp_local.__file__, run.place, "1"],
        env=os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for artifact, name in (("page", "report.html"), ("summary", "summary.md")):  # for its pages
        (shown,) = (path for path in temporary.rglob(artifact) if path.is_file())
        assert shown.read_bytes() == run.path(name).read_bytes()
    (output,) = temporary.rglob("decide-verdict/executor_output.json")
    (metrics,) = json.loads(output.read_text())["artifacts"]["metrics"]["artifacts"]
    gate = json.loads(run.path("gate.json").read_text())
    for variant in gate["variants"]:
        number = ["PASS", "UNSURE", "FAIL"].index(variant["verdict"])
        assert metrics["metadata"][f"{variant['name']}/verdict"] == number
        assert f"{variant['name']}/worst_group_points" in metrics["metadata"]
    for name in ("audit.json", "gate.json", "report.html", "predictions/dense.parquet"):
        assert run.path(name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
