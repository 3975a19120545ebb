"""A shard of members that dies, and what the run costs that takes its work up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma.config import parse_config
from scotoma.pipelines.nodes import LARGEST_BYTES, node_count, workflow_bytes
from scotoma.predictions import Predictions
from scotoma.run import Run
from tests.helpers.commands import scotoma
from tests.kfp_server.argo import Fate, nodes
from tests.kfp_server.store import recorded
from tests.pipelines import kfp_local
from tests.pipelines.test_audit import CLUSTER, MODELS, PREDICTIONS, cluster, scheduled

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


# --- how many nodes Argo makes of a pipeline, and when their Workflow grows too large -------------


def pipeline_of(run: dict[str, Any]) -> dict[str, Any]:
    """A pipeline with the steps of a recorded run, in its loop and outside."""
    shown = Counter(task["display_name"] for task in run["run_details"]["task_details"])
    steps = {name.removesuffix("-driver"): count for name, count in shown.items()
             if name.endswith("-driver") and shown[name.removesuffix("-driver")]}  # fmt: skip
    steps = {name: n for name, n in steps.items() if name not in ("root", "iteration-item")}
    del steps["exit-handler-1"]
    (loop,) = (name for name in shown if name.startswith("for-loop") and "(" not in name)
    looped = {name for name, count in steps.items() if count == 2}

    def dag(*tasks: dict[str, Any]) -> dict[str, Any]:
        return {"dag": {"tasks": {str(place): task for place, task in enumerate(tasks)}}}

    step: dict[str, Any] = {"componentRef": {"name": "step"}}
    items = {"parameterIterator": {"items": {"raw": '["0", "1"]'}}}
    outside = [step] * (len(steps.keys() - looped) - 1)  # one of them is the exit step
    return {
        "root": dag(
            {"componentRef": {"name": "audit"}},
            step | {"triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}},
        ),
        "components": {
            "step": {"executorLabel": "step"},
            "audit": dag({"componentRef": {"name": loop}} | items, *outside),
            loop: dag(*[step] * len(looped)),
        },
    }


@pytest.mark.parametrize("name", ["run-succeeded", "run-training-succeeded"])
def test_as_many_nodes_are_expected_as_kubeflow_told_of(name: str) -> None:
    run = recorded(name)
    assert node_count(pipeline_of(run)) == len(run["run_details"]["task_details"])


@pytest.mark.parametrize("text", [CLUSTER, PREDICTIONS, MODELS], ids=["train", "predict", "onnx"])
def test_as_many_nodes_are_expected_as_the_stand_in_makes(text: str) -> None:
    spec, _ = cluster(text)
    assert node_count(spec) == len(nodes(spec, "w", Fate()))


def test_a_condition_counts_its_steps() -> None:
    spec = scheduled()
    assert node_count(spec) == len(nodes(spec, "w", Fate()))


def test_the_sizes_are_those_that_were_measured() -> None:
    """120 nodes beside a spec of 100 kB were just under the size at which Argo compresses."""
    assert 0.95 * LARGEST_BYTES < workflow_bytes({}, 120) < LARGEST_BYTES < workflow_bytes({}, 122)
    assert workflow_bytes({"config": "x" * 200_000}, 0) > 200_000


def test_a_pipeline_that_grows_too_large_says_what_follows(tmp_path: Path) -> None:
    config, out = tmp_path / "audit.yaml", tmp_path / "pipeline.yaml"
    config.write_text(CLUSTER)
    code, _, err = scotoma("kubeflow", "submit", config, "--dry-run", out)
    assert code == 0
    spec = next(yaml.load_all(out.read_text(), yaml.CSafeLoader))
    assert err.splitlines()[1] == (
        f"size  {len(nodes(spec, 'w', Fate()))} nodes in Argo, about 1.4 MB; above 1.0 MB "
        "Kubeflow's page no longer shows how far the steps are, scotoma kubeflow status does"
    )
