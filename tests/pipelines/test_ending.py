"""`scotoma kubeflow stop` of a cancelled run whose exit step cannot start."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import definition
from tests.pipelines.test_commands import config, submitted
from tests.pipelines.test_runs import compiled

__all__ = ["compiled", "config", "definition"]

WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/team/workflows"


@pytest.fixture
def workflows(
    kfp: KfpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The part of Kubernetes' API that has Argo's Workflows, and a kubeconfig that leads there."""
    workflow = {"metadata": {"name": "scotoma-audit-abcde"}}
    state: dict[str, Any] = {"status": 200, "workflows": [workflow]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            (label,) = parse_qs(parts.query)["labelSelector"]
            assert parts.path == WORKFLOWS
            state["run_id"] = label.removeprefix("pipeline/runid=")
            self.answer({"items": state["workflows"]})

        def do_PATCH(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            # Resources that are not Kubernetes' own take no strategic patch.
            assert self.headers["Content-Type"] == "application/merge-patch+json"
            assert urlsplit(self.path).path == f"{WORKFLOWS}/scotoma-audit-abcde"
            how = content["spec"]["shutdown"]
            assert how in ("Stop", "Terminate")
            if how == "Terminate":  # 'Stop' lets the exit step run
                kfp.store.shut_down(state["run_id"])
            self.answer({})

        def answer(self, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(state["status"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u",
                                                  "namespace": "team"}}],
    }))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def hanging(kfp: KfpServer, config: Path) -> str:
    """A cancelled run whose image cannot be pulled, so that its exit step waits for it too."""
    kfp.store.stuck = "*"
    run_id = submitted(config)
    kfp.store.elapsed_s = 600.0
    scotoma("kubeflow", "status", run_id)
    assert scotoma("kubeflow", "stop", run_id)[0] == 0
    kfp.store.elapsed_s = 700.0
    assert scotoma("kubeflow", "status", run_id)[1].startswith("CANCELING: ")
    return run_id


def test_the_second_cancel_ends_the_exit_step_too(
    kfp: KfpServer, workflows: dict[str, Any], hanging: str
) -> None:
    code, out, err = scotoma("kubeflow", "stop", hanging)
    assert (code, out) == (0, f"{hanging}\n"), err
    assert workflows["run_id"] == hanging
    kfp.store.elapsed_s = 720.0
    assert scotoma("kubeflow", "status", hanging)[1].startswith("CANCELED: ")


@pytest.mark.parametrize("why", ["no kubeconfig", "no rights"])
def test_who_may_not_ask_kubernetes_is_given_the_command(
    kfp: KfpServer, workflows: dict[str, Any], hanging: str, monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:  # fmt: skip
    if why == "no rights":
        workflows["status"] = 403
    else:
        monkeypatch.delenv("KUBECONFIG")
    code, out, err = scotoma("kubeflow", "stop", hanging)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"Kubernetes cannot be asked from here to end the exit step of {hanging} (" in err
    command = f"kubectl get workflows -l pipeline/runid={hanging} -o name | xargs kubectl patch "
    patch = re.fullmatch(r".*--type merge -p '(.*)'", err.rstrip())
    assert command in err
    assert patch is not None
    assert json.loads(patch[1]) == {"spec": {"shutdown": "Terminate"}}
    assert scotoma("kubeflow", "status", hanging)[1].startswith("CANCELING: ")


def test_a_workflow_that_is_gone_is_said_to_be(
    kfp: KfpServer, workflows: dict[str, Any], hanging: str
) -> None:
    workflows["workflows"] = []
    code, _, err = scotoma("kubeflow", "stop", hanging)
    assert (code, err.count("\n")) == (2, 1)
    assert f"Kubernetes no longer has the Workflow of {hanging}, so nothing of it runs" in err
