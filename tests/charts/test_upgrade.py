"""What an upgrade finds in the cluster stays: against a stand-in for Kubernetes' API."""

from __future__ import annotations

import base64
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.charts.conftest import CHART, Objects

SECRET = "audits-scotoma-mlflow-auth"
OWNED = {  # as helm leaves it, also on what outlives an uninstall
    "namespace": "mlops",
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "meta.helm.sh/release-name": "audits", "meta.helm.sh/release-namespace": "mlops"
    },
}  # fmt: skip


@contextmanager
def cluster(kinds: set[tuple[str, str]], secrets: dict[str, Any]) -> Iterator[str]:
    """An API that knows kinds of objects, each (apiVersion, kind), and secrets of `mlops`."""
    lists: dict[str, Any] = {}
    for version, kind in kinds:
        place = f"/apis/{version}" if "/" in version else f"/api/{version}"
        found = lists.setdefault(
            place, {"kind": "APIResourceList", "groupVersion": version, "resources": []}
        )
        plural = kind.lower().replace("policy", "policie") + "s"
        found["resources"].append(
            {"name": plural, "kind": kind, "namespaced": True, "verbs": ["get", "create"]}
        )
    groups = [
        {"name": version.partition("/")[0], "preferredVersion": one, "versions": [one]}
        for version in sorted({version for version, _ in kinds if "/" in version})
        for one in [{"groupVersion": version, "version": version.partition("/")[2]}]
    ]
    answers = lists | {
        "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for name, data in secrets.items():
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        answers[f"/api/v1/namespaces/mlops/secrets/{name}"] = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **OWNED}, "data": coded
        }  # fmt: skip

    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(answer or missing).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api) as api:
        threading.Thread(target=api.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{api.server_port}"
        api.shutdown()


def passwords(helm: Path, address: str) -> dict[str, str]:
    """What the chart's secret would hold after an upgrade of that cluster."""
    done = subprocess.run(
        [helm, "template", "audits", CHART, "-n", "mlops", "--dry-run=server",
         "--disable-openapi-validation", "--kube-apiserver", address],
        env=os.environ | {"KUBECONFIG": os.devnull}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (secret,) = (one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "Secret")
    return {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}


def test_passwords_survive_an_upgrade_and_each_installation_has_its_own(
    helm: Path, render: Callable[..., Objects]
) -> None:
    kinds = {(one["apiVersion"], one["kind"]) for one in render()}
    with cluster(kinds, {}) as address:
        first, other = passwords(helm, address), passwords(helm, address)
    assert first["username"] == "auditor"
    assert len(first["password"]) == 32
    assert len(first["flask-secret-key"]) == 48
    assert not {first["password"], first["flask-secret-key"]} & set(other.values())
    with cluster(kinds, {SECRET: first}) as address:
        assert passwords(helm, address) == first


def test_a_key_that_an_older_chart_did_not_have_is_added(
    helm: Path, render: Callable[..., Objects]
) -> None:
    kinds = {(one["apiVersion"], one["kind"]) for one in render()}
    with cluster(kinds, {SECRET: {"username": "anna", "password": "a-l0ng-passw0rd"}}) as address:
        found = passwords(helm, address)
    assert (found["username"], found["password"]) == ("anna", "a-l0ng-passw0rd")
    assert len(found["flask-secret-key"]) == 48
