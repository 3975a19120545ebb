"""A shard of members that dies, and what the run costs that takes its work up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scotoma.config import parse_config
from scotoma.predictions import Predictions
from scotoma.run import Run
from tests.pipelines import kfp_local

CONFIG = """\
version: 1
project: shards
source: {kind: digits-s, recipe: {steps: 10, batch_size: 32}}
label: {column: digit}
groups: {style: {column: style}}
cluster: {column: source_id}
variants: [dense, {prune: [0.5]}]
population: {models: 4}
tracking: {uri: "off"}
"""
SHARDS = 3  # members 0 and 1, 2, 3: trained together where they are of one shard

# As memory that runs out: no handler, no cleaning up.
DEADLY = """
import os
replace = os.replace
def deadly(source, target, **words):
    if str(target).endswith({name!r}):
        os._exit(137)
    return replace(source, target, **words)
os.replace = deadly
"""
FIRST_PRUNED = "prune-0.5/member-000.safetensors"
MEASURED = "divergence.parquet"  # is not what this is about, and takes as long again


def run_until(name: str, run: Run, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Run the compiled pipeline, in three shards, until a file is to be written."""
    temporary.mkdir()
    (temporary / "sitecustomize.py").write_text(DEADLY.format(name=name))
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(temporary),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, kfp_local.__file__, str(run.root), str(SHARDS)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def finished(run: Run) -> dict[str, int]:
    """The members whose record is there, and when their weights were written."""
    records = run.path("populations").glob("*/member-*.json")
    weights = [path.with_suffix(".safetensors") for path in records]
    return {f"{path.parent.name}/{path.stem}": path.stat().st_mtime_ns for path in weights}


@pytest.mark.thorough
def test_a_shard_that_dies_costs_its_unfinished_members_alone(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", parse_config(CONFIG, "shards.yaml"))
    died = run_until(FIRST_PRUNED, run, tmp_path / "first")
    assert died.returncode != 0
    before = finished(run)
    assert {"dense/member-000", "dense/member-001"} <= before.keys(), died.stdout[-3000:]
    assert not {"prune-0.5/member-000", "prune-0.5/member-001"} & before.keys()
    assert {"dense/member-002", "dense/member-003"} & before.keys()  # of the other shards
    assert not run.path("predictions").exists()

    again = run_until(MEASURED, run, tmp_path / "second")
    after = finished(run)
    assert len(after) == 8, again.stdout[-3000:]
    assert {name: after[name] for name in before} == before
    for name in ("dense", "prune-0.5"):
        assert Predictions.read(run.predictions(name)).members == (0, 1, 2, 3)
