"""Workspaces of MLflow: what logs an audit names them, and proves who it is, in every request."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma.run import Run
from tests.helpers.commands import scotoma
from tests.helpers.external_predictions import CONFIG, write
from tests.helpers.steps import steps_in_this_process
from tests.tracking.conftest import _copied, serving
from tests.tracking.typed import log_audit

ROOT = Path(__file__).resolve().parents[2]
TEAM, TOKEN = "team-a", "a-service-account-s-token"
HEADERS = ("X-MLFLOW-WORKSPACE", "Authorization", "Content-Type", "Content-Length")


@contextmanager
def checking(behind: str, *, token: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A proxy that lets in who names the workspace, and the token where there is one."""
    seen: list[tuple[str, str]] = []

    class Proxy(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            named = self.headers.get("X-MLFLOW-WORKSPACE", "")
            proof = self.headers.get("Authorization", "").removeprefix("Bearer ")
            seen.append((named, proof))
            if named != TEAM or proof != token:
                self.answer(401 if proof != token else 403, b"not of this team")
                return
            there = http.client.HTTPConnection(behind.removeprefix("http://"), timeout=60)
            kept = {name: self.headers[name] for name in HEADERS if self.headers[name]}
            kept.pop("Authorization", None)
            there.request(self.command, self.path, body, kept)
            found = there.getresponse()
            self.answer(found.status, found.read(), found.getheader("Content-Type") or "")
            there.close()

        def answer(self, status: int, content: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}", seen
        proxy.shutdown()


@pytest.fixture(scope="module")
def workspaces(mlflow: Any, silent: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a workspace for a team."""
    home = tmp_path_factory.mktemp("workspaces")
    more = ("--enable-workspaces", "--artifacts-destination", str(home / "artifacts"))
    with serving(home, _copied(silent, home / "server.db"), *more) as server:
        mlflow.MlflowClient(tracking_uri=server.address).create_workspace(TEAM)
        yield server.address


def kubeconfig(path: Path) -> Path:
    """What tells MLflow the namespace and the token outside a pod."""
    name = {"name": "here"}
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [name | {"cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [name | {"user": {"token": TOKEN}}],
        "contexts": [
            name | {"context": {"cluster": "here", "user": "here", "namespace": TEAM}}
        ],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("named_by", ["MLFLOW_WORKSPACE", "kubernetes-namespaced"])
def test_every_request_names_the_workspace(
    workspaces: str, mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    kubernetes = named_by == "kubernetes-namespaced"
    (tmp_path / named_by).mkdir()
    home = write(tmp_path / named_by)
    config = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("tracking"))
    (home / "audit.yaml").write_text(config.replace("elsewhere", named_by) + "\n")
    for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    if kubernetes:
        monkeypatch.setenv("MLFLOW_TRACKING_AUTH", named_by)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig")))
    else:
        monkeypatch.setenv("MLFLOW_WORKSPACE", TEAM)
    with checking(workspaces, token=TOKEN if kubernetes else "") as (address, seen):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        # In a process of its own: where a kubeconfig lies is read once.
        command = [sys.executable, "-m", "scotoma", "audit", str(home / "audit.yaml")]
        done = subprocess.run(
            [*command, "--out", str(home / "run")],
            capture_output=True, text=True, cwd=home, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    err = done.stderr
    assert done.returncode in (0, 1, 3), err
    assert "not logged" not in err
    assert set(seen) == {(TEAM, TOKEN if kubernetes else "")}
    (line,) = (line for line in err.splitlines() if line.startswith("mlflow"))
    assert line.endswith(f"&workspace={TEAM}")
    monkeypatch.delenv("MLFLOW_TRACKING_AUTH", raising=False)
    monkeypatch.setenv("MLFLOW_WORKSPACE", TEAM)
    client = mlflow.MlflowClient(tracking_uri=workspaces)
    (experiment,) = client.search_experiments(filter_string=f"name = '{named_by}'")
    assert len(client.search_runs([experiment.experiment_id])) == 3


def test_a_token_that_is_not_taken_is_said(
    workspaces: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write(tmp_path)
    config = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("tracking"))
    (home / "audit.yaml").write_text(config + "\n")
    monkeypatch.setenv("MLFLOW_WORKSPACE", TEAM)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "expired")
    with checking(workspaces, token=TOKEN) as (address, _):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        with steps_in_this_process(home):
            code, _, err = scotoma("audit", home / "audit.yaml", "--out", home / "run")
    assert code in (0, 1, 3), err
    told = " ".join(err.split())
    assert "did not take the password or token (401: " in told
    assert "renew MLFLOW_TRACKING_TOKEN" in told


def test_the_token_of_a_pod_goes_to_no_host_that_only_a_configuration_names(
    workspaces: str,
    folder: Callable[..., Run],
    audit_of: Callable[[Run], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_AUTH", "kubernetes-namespaced")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig")))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_WORKSPACE", TEAM)
    run = folder(tmp_path / "run", "anybody")
    with checking(workspaces, token="") as (address, seen):
        assert log_audit(run, audit_of(run), address).reason == ""
    assert set(seen) == {(TEAM, "")}
