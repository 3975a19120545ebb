"""Pods that Kubernetes ended: its own reason, and what to change, where Kubeflow says FAILED."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.pipelines.placing import STEP_OF
from scotoma.steps.kubeflow.failure import record_failure
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import CONFIG, definition
from tests.pipelines.test_commands import config, submitted
from tests.pipelines.test_pending import kubernetes, pod
from tests.pipelines.test_runs import compiled

__all__ = ["compiled", "config", "definition", "kubernetes"]

EARLIER, LATER = "2026-11-23T01:00:00Z", "2026-11-23T02:00:00Z"


def ended(reason: str, code: int = 137, name: str = "main") -> dict[str, Any]:
    """A container that ended."""
    container = {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {"phase": "Failed", "containerStatuses": [container | {"state": state}]}


def disrupted(reason: str) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    return {"phase": "Failed", "conditions": [condition]}


def killed(reason: str, message: str) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": message}


SCRATCH = 'Usage of EmptyDir volume "scratch" exceeds the limit "20Gi".'
NODE = "The node was low on resource: memory. Container main was using 9Gi, request is 8Gi."
DEADLINE = "Pod was active on the node longer than the specified deadline"
AGAIN = "and send the audit again with the same --out"
CASES = [
    (ended("OOMKilled"), "OOMKilled at its limit of 8Gi", f"raise kubeflow.KIND.memory, {AGAIN}"),
    (killed("Evicted", NODE), f"Evicted: {NODE}", f"raise kubeflow.KIND.memory, {AGAIN}"),
    (killed("Evicted", SCRATCH), f"Evicted: {SCRATCH}", f"raise kubeflow.scratch, {AGAIN}"),
    (killed("DeadlineExceeded", DEADLINE), f"DeadlineExceeded: {DEADLINE}",
     f"raise kubeflow.limits.task_hours, {AGAIN}"),
    (killed("NodeLost", "Node is gone"), "NodeLost: Node is gone", "RETRY"),
    (disrupted("DeletionByTaintManager"), "DeletionByTaintManager", "RETRY"),
]  # fmt: skip


@pytest.fixture
def failed(kfp: KfpServer, config: Path, s3: Any) -> Callable[[str], str]:
    """A run whose step's container has ended with 1 and left nothing."""

    def fail(component: str) -> str:
        kfp.store.outcome, kfp.store.failing, kfp.store.elapsed_s = "FAILED", component, 9999.0
        return submitted(config, "--out", s3.uri("run"))

    return fail


@pytest.mark.parametrize(
    ("component", "kind"), [("train-dense", "training"), ("report-bias", "others")]
)
@pytest.mark.parametrize(("status", "reason", "advice"), CASES)
def test_wait_and_status_say_kubernetes_reason_and_what_to_change(
    failed: Callable[[str], str],
    kubernetes: Callable[..., None],
    status: dict[str, Any],
    reason: str,
    advice: str,
    component: str,
    kind: str,
) -> None:
    run_id, step = failed(component), STEP_OF[component]
    earlier = pod(step, EARLIER, **ended("Error", 1)), pod(step, EARLIER, **killed("Evicted", "x"))
    kubernetes(*earlier, pod(step, LATER, **status), pod("", **killed("Evicted", "a driver")))
    advice = advice.replace("KIND", kind)
    advice = advice.replace("RETRY", f"scotoma kubeflow submit --resume {run_id} resumes it")
    sentence = f"Kubernetes ended the step {step} ({reason}); {advice}"
    code, _, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, err.splitlines()[-1]) == (5, f"scotoma: {sentence}")
    assert scotoma("kubeflow", "status", run_id)[2] == f"{sentence}\n"


def test_the_exit_step_asks_for_who_cannot(
    failed: Callable[[str], str],
    kubernetes: Callable[..., None],
    s3: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs in a pod whose account may list pods; the command then has no kubeconfig."""
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    run_id, place = failed("prepare-data"), s3.uri("run")
    kubernetes(pod("prepare", **ended("OOMKilled")))
    record_failure(place, run_id, "FAILED", 2, CONFIG)
    monkeypatch.delenv("KUBECONFIG")
    sentence = "Kubernetes ended the step prepare (OOMKilled at its limit of 8Gi); raise kubeflow."
    code, _, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert code == 5
    assert err.splitlines()[-1].startswith(f"scotoma: {sentence}others.memory, and send")


@pytest.mark.parametrize(
    ("message", "replaced"),
    [
        ("the step prepare was stopped by SIGTERM, most often because its pod was deleted", True),
        ("source.data holds no train-*.parquet; correct it", False),
    ],
)
def test_a_steps_own_sentence_stays_unless_it_knows_no_more_than_sigterm(
    s3: Any,
    kubernetes: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    replaced: bool,
) -> None:
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    place = s3.uri("run")
    s3.put("run/error.json", json.dumps({"message": message, "exit_code": 4}).encode())
    kubernetes(pod("prepare", **killed("Evicted", SCRATCH)))
    record_failure(place, "job-1", "FAILED", 2, CONFIG)
    body = s3.client.get_object(Bucket=s3.bucket, Key="run/error.json")["Body"].read()
    assert json.loads(body)["message"].startswith("Kubernetes ended") == replaced


@pytest.mark.parametrize("status", [403, 500])
def test_without_an_answer_the_logs_are_named(
    failed: Callable[[str], str], kubernetes: Callable[..., None], status: int
) -> None:
    run_id = failed("train-dense")
    kubernetes(status=status)
    err = scotoma("kubeflow", "status", run_id, "--wait")[2]
    assert f"the run failed at train shard 0; see scotoma kubeflow logs {run_id}" in err
