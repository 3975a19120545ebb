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

# What scotoma-core, the pods' image, has not.
WITHOUT = ("torch", "torchvision", "mlflow", "onnx", "onnxruntime", "sklearn")
CALL = f"""\
import sys
sys.modules.update(dict.fromkeys({WITHOUT!r}))
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


def run(job: dict[str, Any], files: dict[str, str], folder: Path) -> None:
    """Do in a process what the pod would do."""
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
    environment = {one["name"]: here(one["value"]) for one in container["env"]}
    done = subprocess.run(
        [sys.executable, "-c", CALL, *command[1:]],
        env=os.environ | environment | {"HOME": str(folder), "NO_PROXY": "127.0.0.1"},
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
        for name in ("digits", "faces")
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
