"""`scotoma kubeflow status` of the runs that were recorded on a real Kubeflow.

Their files are gone: what Kubeflow tells is all that is known.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scotoma.steps.table import STEPS
from tests.helpers.commands import ended, scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_commands import status_rows

SHARDED = "train shard 0", "train shard 1"
MEASURED = ("gather", "divergence", "bias", "slices", "verdict", "report")


@pytest.fixture(autouse=True)
def audits(s3: Any) -> None:
    """The bucket of these runs."""
    s3.client.create_bucket(Bucket="audits")


def shown(kfp: KfpServer, name: str) -> list[tuple[str, ...]]:
    """The title of a recorded run, and its lines: state, step, and what stands behind it."""
    run_id = kfp.store.serve(name)
    out, err = ended("kubeflow", "status", run_id)
    assert not err or "has not started for" in err or "the run failed at train shard 1;" in err
    title, _, head, *lines = out.splitlines()
    time = head.index("time")
    return [
        tuple(title.split(": ")),
        *(
            (row["state"], row["step"], " ".join(line[time - 4 :].split()))
            for row, line in zip(status_rows(run_id), lines, strict=True)
        ),
    ]


def test_a_finished_run_has_a_line_a_step_and_shard_in_the_tables_order(kfp: KfpServer) -> None:
    head, *steps = shown(kfp, "run-succeeded")
    assert head == ("SUCCEEDED", "shipped 2fe1f3d4 in s3://audits/run-off")
    assert [step for _, step, _ in steps] == ["prepare", *SHARDED, *MEASURED, "log"]
    assert {state for state, _, _ in steps} == {"SUCCEEDED"}
    assert steps[0][2] == "33 s 1"
    head, *steps = shown(kfp, "run-training-succeeded")
    order = [list(STEPS).index(step.partition(" ")[0]) for _, step, _ in steps]
    assert len(order) == 16
    assert order == sorted(order)


def test_a_failed_step_is_told_from_what_never_ran(kfp: KfpServer) -> None:
    _, *steps = shown(kfp, "run-failed")
    states = {step: state for state, step, _ in steps}
    assert [states[shard] for shard in SHARDED] == ["SUCCEEDED", "FAILED"]
    assert {states[step] for step in MEASURED} == {"NOT RUN"}
    assert {behind for state, _, behind in steps if state == "NOT RUN"} == {""}
    _, *steps = shown(kfp, "run-retried")
    assert ("SUCCEEDED", SHARDED[1], "10 s 1") in steps
    assert shown(kfp, "run-canceled")[0][0] == "CANCELED"


def test_what_runs_has_lasted_until_now(kfp: KfpServer) -> None:
    """Kubeflow gives the year 1 for an end that has not come."""
    _, step = shown(kfp, "run-pod-cannot-start")
    assert step[:2] == ("PENDING", "prepare")
    values = json.loads(scotoma("kubeflow", "status", *kfp.store.runs, "--json")[1])
    (task,) = values["tasks"]
    assert task["seconds"] > 3600
    assert task["pending_s"] == pytest.approx(task["seconds"], abs=5)
