"""A server whose artifacts lie where this machine cannot write still gets every number."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scotoma.errors import DataError
from scotoma.pipelines.placing import PATIENCE
from scotoma.run import write_json
from scotoma.run.mirror import Mirror
from scotoma.tracking.audits import log_failure
from tests.faults.faulty import faulty
from tests.helpers.audits import accuracy
from tests.helpers.commands import scotoma
from tests.helpers.external_predictions import CONFIG, write
from tests.helpers.steps import steps_in_this_process
from tests.tracking.conftest import _copied, serving
from tests.tracking.test_resumed import Cluster, cluster, logged, whole


def test_numbers_are_logged_and_what_to_do_about_the_files_is_said(
    elsewhere: tuple[str, str], mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, place = elsewhere
    where = f"in {place}" if place.startswith("/") else f"at {place}"
    why = "a folder of the server" if place.startswith("/") else "no credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    (tmp_path / "home").mkdir()
    home = write(tmp_path / "home")
    config = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("tracking"))
    (home / "audit.yaml").write_text(config + "\n")
    monkeypatch.chdir(home)
    with steps_in_this_process(home):
        for _ in range(2):  # repeating it neither helps nor leaves anything twice
            code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
            assert code == 0, err
            told = " ".join(err.split())
            assert (
                f"not logged: report and files: MLflow keeps those of experiment elsewhere {where}"
                in told
            )
            assert why in told
            assert "repeat the command" not in told
            assert "--artifacts-destination" in told
            assert "parameters and metrics are logged" in told

    client = mlflow.MlflowClient(tracking_uri=address)
    experiments = {one.name: one.experiment_id for one in client.search_experiments()}
    runs = client.search_runs([experiments["elsewhere"]])
    (whole,) = (run for run in runs if run.data.tags["scotoma.kind"] == "audit")
    assert whole.info.status == "FAILED"
    runs = [run for run in runs if run is not whole]
    assert {run.data.tags["scotoma.variant"] for run in runs} == {"dense", "int8"}
    assert {run.info.status for run in runs} == {"FINISHED"}
    audit = json.loads((home / "run" / "audit.json").read_text())
    for run in runs:
        variant = run.data.tags["scotoma.variant"]
        top1 = accuracy(audit, variant)["top1"]["value"]
        assert run.data.metrics["accuracy"] == pytest.approx(top1)
        assert run.data.params
    members = client.search_runs([experiments["elsewhere.models"]])
    assert {run.info.status for run in members} == {"FINISHED"}

    code, out, err = scotoma("show", "trend", "audit.yaml", "--json")
    assert code == 0, err
    (known,) = json.loads(out)["audits"]
    gate = json.loads((home / "run" / "gate.json").read_text())
    assert f"the verdict is {gate['verdict']}" in known["reason"]
    assert place in known["reason"]
    assert place in scotoma("show", "trend", "audit.yaml", "--html")[1]


def test_a_folder_that_only_looks_like_that_of_the_server_is_told(
    silent: Any, mlflow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root user of a container can write any path; the server has another disk there."""
    alone = ("unshare", "--mount", "true")
    if shutil.which("unshare") is None or subprocess.run(alone, check=False).returncode:
        pytest.skip("no right to give a process a file system of its own")
    root = tmp_path / "root"
    root.mkdir()
    artifacts = ("--no-serve-artifacts", "--default-artifact-root", str(root))
    own = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{root}" && exec "$@"', "sh")
    with serving(
        tmp_path, _copied(silent, tmp_path / "server.db"), *artifacts, before=own
    ) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
        (tmp_path / "home").mkdir()
        home = write(tmp_path / "home")
        config = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("tracking"))
        (home / "audit.yaml").write_text(config + "\n")
        with steps_in_this_process(home):
            code, _, err = scotoma("audit", home / "audit.yaml", "--out", home / "run")
    assert code in (0, 1), err
    told = " ".join(err.split())
    assert f"MLflow keeps those of experiment elsewhere in {root}/" in told
    assert "a folder of the server that this machine cannot write" in told
    assert "the server does not see what this machine writes there" in told


def test_the_case_that_was_reported(
    elsewhere: tuple[str, str], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, place = elsewhere
    if not place.startswith("/proc"):
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    case = shared / "data" / "cases" / "mlflow-artifacts-of-the-server"
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", case / "audit.yaml", "--out", tmp_path / "run")
    assert code == 0, err
    assert place in err
    assert "--artifacts-destination" in err
    monkeypatch.chdir(tmp_path)
    code, out, err = scotoma("show", "trend", "x", "--json")
    assert code == 0, err
    assert len(json.loads(out)["audits"]) == 1


# Storage and MLflow that do not answer for a while, as when they are restarted under an audit.

__all__ = ["cluster", "whole"]
OUTAGE_S = 5.0  # longer than a laptop waits for MLflow


@contextmanager
def outage(service: str) -> Iterator[str]:
    """A service that refuses every request for a while; yields its address."""
    end = time.monotonic() + OUTAGE_S
    with faulty(service, 0) as (address, mood):
        mood.fault = lambda *_, **__: "503" if time.monotonic() < end else ""  # type: ignore[method-assign]
        yield address


def on_a_cluster(patch: pytest.MonkeyPatch) -> None:
    patch.delenv("AWS_MAX_ATTEMPTS", raising=False)  # which no pod has
    for name, value in PATIENCE.items():
        patch.setenv(name, value)


@pytest.mark.parametrize("where", ["laptop", pytest.param("cluster", marks=pytest.mark.thorough)])
def test_a_step_on_a_cluster_waits_for_storage(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Many requests wait at a time, which botocore's quota of retries would not let them."""
    files = [tmp_path / f"{index}.json" for index in range(40)]
    for file in files:
        write_json(file, file.name)
    if where == "cluster":
        on_a_cluster(monkeypatch)
    with outage(s3.endpoint) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        mirror = Mirror(tmp_path, s3.uri("run"))
        if where == "cluster":
            mirror.publish(files)
            assert len(s3.names()) == len(files)
        else:
            with pytest.raises(DataError, match="the service answers"):
                mirror.publish(files)


@pytest.mark.thorough
def test_a_step_on_a_cluster_waits_for_mlflow(
    cluster: Cluster, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_cluster(monkeypatch)
    with outage(server) as address:
        assert log_failure(cluster.run, "no images", address) == ""
    assert logged(server, cluster) == {"failed": "FAILED"}
