"""How many nodes Argo makes of a pipeline, and when their Workflow grows too large."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma.pipelines.nodes import LARGEST_BYTES, node_count, workflow_bytes
from tests.helpers.commands import scotoma
from tests.kfp_server.argo import Fate, nodes
from tests.kfp_server.store import recorded
from tests.pipelines.test_audit import CLUSTER, MODELS, PREDICTIONS, cluster, scheduled


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
