"""The commands of the chart's jobs, as they stand in the pods, against a stand-in for Kubeflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma._version import __version__
from tests.charts.conftest import CHART, Objects
from tests.kfp_server.contract import Contract
from tests.kfp_server.server import KfpServer
from tests.sources.test_predicted import write

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
