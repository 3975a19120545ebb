"""A team's server: PostgreSQL, artifacts in S3, passwords, a death in the middle, a back-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from scotoma.run import Run
from scotoma.tracking.audits import log_failure
from tests.tracking.backup import contents, follow, lose
from tests.tracking.crowd import crowd
from tests.tracking.names import short
from tests.tracking.servers import ADMIN, PASSWORD, Mlflow
from tests.tracking.typed import log_audit

pytestmark = pytest.mark.thorough

MEMBERS = 10  # a variant; benchmarks/speed.py mlflow logs 300 in all


def runs_of(client: Any, experiment: str) -> list[Any]:
    home = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([home], max_results=1000))


def test_without_a_password_nothing_is_logged_and_the_reason_says_so(
    team: Mlflow, folder: Callable[..., Run], audit_of: Callable[[Run], Any], tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "nobody")
    tracked = log_audit(run, audit_of(run), team.address)
    assert "401" in tracked.reason
    assert "did not take the password or token" in tracked.reason
    assert "renew MLFLOW_TRACKING_TOKEN, or correct user and password" in tracked.reason


def test_a_server_that_is_killed_halfway_loses_nothing_and_has_nothing_twice(
    team: Mlflow,
    login: None,
    mlflow: Any,
    folder: Callable[..., Run],
    audit_of: Callable[[Run], Any],
    s3_client: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = folder(tmp_path / "run", "halfway")
    audit = crowd(run, audit_of(run), MEMBERS)
    total = 1 + 3 + 3 * MEMBERS
    begun: list[str] = []
    create_run = mlflow.MlflowClient.create_run

    def deadly(client: Any, *arguments: Any, **words: Any) -> Any:
        made = create_run(client, *arguments, **words)
        begun.append(made.info.run_id)
        if len(begun) == total // 2:
            team.kill()  # this run is begun and never ended
        return made

    monkeypatch.setattr(mlflow.MlflowClient, "create_run", deadly)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracked = log_audit(run, audit, team.address)
    assert f"{total // 2 - 1} of {total} runs were logged" in tracked.reason
    assert PASSWORD not in tracked.reason

    team.start()
    assert log_audit(run, audit, team.address).reason == ""
    client = mlflow.MlflowClient(tracking_uri=team.address)
    found = runs_of(client, "halfway") + runs_of(client, "halfway.models")
    names = Counter(short(run.info.run_name) for run in found)
    wanted = {f"{name} · {k:02d}" for name in audit["accuracy"] for k in range(MEMBERS)}
    assert names == Counter(wanted | audit["accuracy"].keys() | {""})
    assert {run.info.status for run in found} == {"FINISHED"}
    metrics = {short(run.info.run_name): run.data.metrics for run in found}
    assert metrics["dense · 03"]["accuracy"] == audit["accuracy"]["dense"]["members"][3]
    kept = s3_client.list_objects_v2(Bucket=team.artifacts.split("/")[2])["Contents"]
    assert sum(entry["Key"].endswith("/report.html") for entry in kept) == 1
    before = len(begun)
    log_audit(run, audit, team.address)
    assert len(begun) == before  # a call that is repeated adds nothing


def test_an_audit_that_failed_is_there_with_its_reason(
    team: Mlflow, login: None, mlflow: Any, folder: Callable[..., Run], tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "broken")
    assert log_failure(run, "labels.csv has 3 rows; correct it", team.address) == ""
    (found,) = runs_of(mlflow.MlflowClient(tracking_uri=team.address), "broken")
    assert (found.info.run_name, found.info.status) == ("failed", "FAILED")
    assert found.data.tags["mlflow.note.content"] == (
        "The audit failed: labels.csv has 3 rows; correct it"
    )
    assert found.data.tags["scotoma.audit"] == run.config.digest()


def test_a_back_up_brings_back_every_audit_after_the_loss_of_databases_and_files(
    team: Mlflow,
    login: None,
    mlflow: Any,
    folder: Callable[..., Run],
    audit_of: Callable[[Run], Any],
    s3_client: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, client = folder(tmp_path / "run", "kept"), mlflow.MlflowClient(tracking_uri=team.address)
    logged = log_audit(run, audit_of(run), team.address)
    client.create_registered_model("digits")
    client.create_model_version("digits", "s3://audits/digits")
    client.set_registered_model_alias("digits", "audited", "1")
    anna = {"username": "anna", "password": "another-l0ng-one"}
    users = f"{team.address}/api/2.0/mlflow/users/create"
    requests.post(users, json=anna, auth=(ADMIN, PASSWORD), timeout=30).raise_for_status()
    before = contents(team, s3_client)
    assert len(before["runs.runs"]) >= 9
    assert len(before["passwords.users"]) == 2

    follow("Back up", "pg_dump", team, tmp_path)
    lose(team, s3_client)
    follow("Restore", "pg_restore", team, tmp_path)
    assert contents(team, s3_client) == before

    team.start()
    report = client.download_artifacts(logged.run, "report.html", str(tmp_path))
    assert Path(report).read_bytes() == run.path("report.html").read_bytes()
    assert client.get_model_version_by_alias("digits", "audited").version == "1"
    assert log_audit(run, audit_of(run), team.address).runs == logged.runs  # not logged twice
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", anna["username"])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", anna["password"])
    assert client.search_experiments() == []  # she may log in, and nobody gave her anything
