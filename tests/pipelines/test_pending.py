"""Pods that do not start: what `status` and `--wait` say, with and without Kubernetes' own word."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from scotoma.pipelines import wait as pipeline_wait
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import definition
from tests.pipelines.test_commands import config, submitted
from tests.pipelines.test_runs import compiled

__all__ = ["compiled", "config", "definition"]

SECRET = 'secret "audit-storage" not found'


def pod(step: str, made: str = "2026-11-23T01:03:51Z", **status: Any) -> dict[str, Any]:
    labels = {"scotoma/step": step} if step else {}
    metadata = {"name": f"w-{step}", "labels": labels, "creationTimestamp": made}
    main = {"name": "main", "resources": {"limits": {"memory": "8Gi"}}}
    spec = {"containers": [{"name": "wait"}, main]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", **status}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return {"containerStatuses": [
        container | {"state": {"waiting": {"reason": reason, "message": message}}}
    ]}  # fmt: skip


UNSCHEDULABLE = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        }
    ]
}


@pytest.fixture
def kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """The part of Kubernetes' API that lists pods, and a kubeconfig that leads there."""
    answers: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            answers["asked"] = urlsplit(self.path).path, query["labelSelector"][0]
            body = {"kind": "PodList", "apiVersion": "v1", "items": answers["pods"]}
            text = json.dumps(body).encode()
            self.send_response(answers["status"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    context = {"cluster": "c", "user": "u", "namespace": "mlops"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {
            "server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": context}],
    }))  # fmt: skip

    def answer(*pods: dict[str, Any], status: int = 200) -> None:
        monkeypatch.setenv("KUBECONFIG", str(path))
        answers.update(pods=list(pods), status=status)

    answer.asked = answers  # type: ignore[attr-defined]
    yield answer
    server.shutdown()
    server.server_close()


@pytest.fixture
def stuck(kfp: KfpServer, config: Path, s3: Any) -> str:
    """A run whose second step has not started for ten minutes."""
    s3.client.create_bucket(Bucket="b-1")
    kfp.store.stuck = "train-dense"
    run_id = submitted(config)
    kfp.store.elapsed_s = 700.0
    return run_id


def test_after_two_minutes_the_usual_causes_are_named_and_the_command_that_tells_which(
    kfp: KfpServer, stuck: str
) -> None:
    kfp.store.elapsed_s = 170.0  # 80 s after the pods were asked for
    code, out, err = scotoma("kubeflow", "status", stuck)
    assert (code, err) == (0, "")
    assert "PENDING    train shard 0" in out
    kfp.store.elapsed_s = 700.0
    code, out, err = scotoma("kubeflow", "status", stuck, "--namespace", "team")
    assert err.splitlines() == [
        "train has not started for 10 min; usual causes: an image that cannot be pulled, a "
        "missing secret or volume, or no node with the GPU, CPU or memory that it asks for",
        "this command says which: kubectl describe pods -n team "
        f"-l pipeline/runid={stuck},scotoma/step=train",
    ]
    assert scotoma("kubeflow", "status", stuck, "--quiet")[2] == ""


def test_kubernetes_is_asked_for_its_reason_where_it_may_be(
    stuck: str, kubernetes: Callable[..., None]
) -> None:
    for pods, line in (
        ([pod("train", **waiting("CreateContainerConfigError", SECRET))],
         f"CreateContainerConfigError: {SECRET}"),
        ([pod("train", **waiting("ImagePullBackOff"))], "ImagePullBackOff"),
        ([pod("train", **UNSCHEDULABLE)] * 3,
         "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
    ):  # fmt: skip
        kubernetes(*pods)
        _, _, err = scotoma("kubeflow", "status", stuck)
        assert err == f"train has not started for 10 min: {line}\n"
    asked = kubernetes.asked["asked"]  # type: ignore[attr-defined]
    assert asked == ("/api/v1/namespaces/mlops/pods", f"pipeline/runid={stuck}")
    for pods, status in (([], 200), ([pod("prepare", **UNSCHEDULABLE)], 200), ([], 403)):
        kubernetes(*pods, status=status)
        assert "usual causes" in scotoma("kubeflow", "status", stuck)[2]


def test_a_wait_says_it_once(kfp: KfpServer, stuck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = iter(range(60, 20_000, 30))

    def pause(_s: float) -> None:
        kfp.store.elapsed_s = float(next(polls))
        if kfp.store.elapsed_s == 600:
            kfp.store.stuck = ""
            kfp.store.outcome = "FAILED"
            kfp.store.elapsed_s = 9999.0

    kfp.store.elapsed_s = 30.0
    monkeypatch.setattr(pipeline_wait.time, "sleep", pause)
    code, _, err = scotoma("kubeflow", "status", stuck, "--wait")
    assert code != 0
    assert err.count("has not started for") == 1
    assert err.count("kubectl describe pods") == 1


def test_a_run_that_nobody_begins_is_said_to_wait(kfp: KfpServer, config: Path) -> None:
    run_id = submitted(config)
    kfp.store.runs[run_id]["created_at"] = "2026-01-01T00:00:00Z"
    kfp.store.looked[run_id] = 0
    err = scotoma("kubeflow", "status", run_id)[2]
    assert "the run has not begun for " in err
    assert err.endswith(f"see kubectl describe workflows -l pipeline/runid={run_id}\n")
