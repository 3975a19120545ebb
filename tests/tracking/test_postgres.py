"""A team's server: PostgreSQL, artifacts in S3, passwords, and a death in the middle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.runs import Run
from scotoma.tracking import log_audit, log_failure
from tests.tracking.crowd import crowd
from tests.tracking.servers import ADMIN, PASSWORD, Mlflow, postgres, postgres_programs

MEMBERS = 10  # a variant; benchmarks/tracking.py logs 300 in all


@pytest.fixture(scope="module")
def storage(s3_client: Any) -> dict[str, str]:
    """What leads the server to S3; its own, for the tests' environment ends with each test."""
    s3_client.create_bucket(Bucket="mlflow-artifacts")
    return {
        "MLFLOW_S3_ENDPOINT_URL": s3_client.meta.endpoint_url,
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def team(storage: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mlflow]:
    """A server with passwords on PostgreSQL and S3."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgres(programs) as database:
        folder = tmp_path_factory.mktemp("team")
        server = Mlflow(database, "s3://mlflow-artifacts/team", storage, folder)
        server.start()
        yield server
        server.kill()


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)


def runs_of(client: Any, experiment: str) -> list[Any]:
    home = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([home], max_results=1000))


def test_without_a_password_nothing_is_logged_and_the_reason_says_so(
    team: Mlflow, folder: Callable[..., Run], audit_of: Callable[[Run], Any], tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "nobody")
    tracked = log_audit(run, audit_of(run), team.address)
    assert "401" in tracked.reason
    assert tracked.reason.endswith("repeat the command to log it")


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
    total = 3 + 3 * MEMBERS
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
    names = Counter(run.info.run_name for run in found)
    wanted = {f"{name}-{k:03d}" for name in audit["accuracy"] for k in range(MEMBERS)}
    assert names == Counter(wanted | audit["accuracy"].keys())
    assert {run.info.status for run in found} == {"FINISHED"}
    metrics = {run.info.run_name: run.data.metrics for run in found}
    assert metrics["dense-003"]["top1"] == audit["accuracy"]["dense"]["members"][3]
    kept = s3_client.list_objects_v2(Bucket="mlflow-artifacts", Prefix="team/")["Contents"]
    assert sum(entry["Key"].endswith("/report.html") for entry in kept) == 3
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
