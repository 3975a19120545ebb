"""What an upgrade finds in the cluster stays: against a stand-in for Kubernetes' API."""

from __future__ import annotations

import base64
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma._version import __version__
from tests.charts.conftest import CHART, Objects
from tests.kfp_server.contract import Contract
from tests.kfp_server.server import KfpServer
from tests.sources.test_predicted import write

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


# The commands of the chart's jobs, as they stand in the pods, against a stand-in for Kubeflow.

# What scotoma-core, the pods' image, has not.
WITHOUT = ("torch", "torchvision", "mlflow", "onnx", "onnxruntime", "sklearn")


# No credentials but those that the pod has.
NOWHERE_ELSE = {
    "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_MAX_ATTEMPTS": "1",
}  # fmt: skip
CALL = f"""\
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {WITHOUT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
from scotoma.cli import main
main()
"""


@pytest.fixture
def kfp() -> Iterator[KfpServer]:
    server = KfpServer(Contract())
    server.token = "of the service account"
    yield server
    server.close()


@pytest.fixture
def made(
    kfp: KfpServer, render: Callable[..., Objects]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The jobs of ci/schedules.yaml, by name, with that Kubeflow; and the files that they read."""
    values = yaml.safe_load((CHART / "ci" / "schedules.yaml").read_text(encoding="utf-8"))
    values["kubeflow"]["endpoint"] = kfp.address
    objects = render(yaml.safe_dump(values))
    (files,) = (one["data"] for one in objects if one["kind"] == "ConfigMap")
    jobs = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Job"}
    return jobs, files


def run(
    job: dict[str, Any], files: dict[str, str], folder: Path, secrets: dict[str, Any] | None = None
) -> None:
    """Do in a process what the pod would do, with the secrets that its namespace has."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "token").write_text("of the service account")
    places = {"/schedules/": f"{folder}/", "/var/run/secrets/kubeflow/": f"{folder}/"}

    def here(text: str) -> str:
        for there, place in places.items():
            text = text.replace(there, place)
        return text

    command = [here(word) for word in [*container["command"], *container["args"]]]
    assert command[0] == "scotoma"
    environment = {one["name"]: here(one["value"]) for one in container["env"] if "value" in one}
    for one in container["env"]:
        if "valueFrom" in one:
            reference = one["valueFrom"]["secretKeyRef"]
            environment[one["name"]] = (secrets or {})[reference["name"]][reference["key"]]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", CALL, *command[1:]],
        env=inherited | NOWHERE_ELSE | environment | {"HOME": str(folder), "NO_PROXY": "127.0.0.1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_install_makes_schedules_that_an_uninstall_takes_away(
    kfp: KfpServer, made: tuple[dict[str, dict[str, Any]], dict[str, str]], tmp_path: Path
) -> None:
    jobs, files = made
    assert set(jobs) == {
        f"audits-scotoma-{what}-{name}"
        for what in ("schedule", "remove")
        for name in ("digits", "faces", "scored")
    }
    run(jobs["audits-scotoma-schedule-digits"], files, tmp_path)
    (schedule,) = kfp.store.recurring.values()
    assert schedule["display_name"] == "digits"
    assert schedule["trigger"]["cron_schedule"]["cron"] == "0 0 3 1 * *"
    (experiment,) = kfp.store.experiments.values()
    assert experiment["namespace"] == "team"
    version = kfp.store.versions[schedule["pipeline_version_reference"]["pipeline_version_id"]]
    images = {f"scotoma:{__version__}", f"scotoma-core:{__version__}"}
    assert all(image in json.dumps(version) for image in images)

    run(jobs["audits-scotoma-remove-digits"], files, tmp_path)
    assert kfp.store.recurring == {}


def test_a_schedule_whose_source_is_in_a_bucket_reads_it_with_its_secrets(
    kfp: KfpServer, render: Callable[..., Objects], tmp_path: Path, s3: Any
) -> None:
    for path in sorted(write(tmp_path).rglob("*.csv")):
        s3.put(path.relative_to(tmp_path).as_posix(), path.read_bytes())
    values = yaml.safe_load((CHART / "ci" / "schedules.yaml").read_text(encoding="utf-8"))
    values["kubeflow"]["endpoint"] = kfp.address
    scored = values["schedules"]["scored"]
    scored["config"] = scored["config"].replace("s3://audits", s3.uri())
    scored["environment"]["AWS_ENDPOINT_URL"] = s3.endpoint
    objects = render(yaml.safe_dump(values))
    (files,) = (one["data"] for one in objects if one["kind"] == "ConfigMap")
    (job,) = (one for one in objects if one["metadata"]["name"] == "audits-scotoma-schedule-scored")
    secrets = {
        "audit-storage": {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    }
    run(job, files, tmp_path, secrets)
    (schedule,) = kfp.store.recurring.values()
    assert schedule["display_name"] == "scored"
