"""A step that cannot log waits, fails and can be repeated; a command says why, and logs again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma import components
from scotoma.errors import NotLogged
from scotoma.run import Run, checksums, read_json
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.tracking.conftest import _copied, serving
from tests.tracking.test_resumed import JOB, Cluster, cluster, whole

__all__ = ["cluster", "whole"]


class Output:
    """What Kubeflow hands a component for an artifact."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)


def log_step(run: Run, pointers: Path) -> None:
    """The component as Kubeflow calls it."""
    components.log_tracking.python_func(
        run_uri=run.place, report=Output(pointers / "report"), tracked=Output(pointers / "log"),
        job=JOB,
    )  # fmt: skip


def test_a_step_waits_for_mlflow_says_so_fails_and_logs_when_it_is_retried(
    cluster: Cluster,
    silent: Any,
    mlflow: Any,
    free_port: Callable[[], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = cluster.run
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", address)
    monkeypatch.setenv("KFP_POD_NAME", "scotoma-audit-t88kl-system-container-impl-1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    cluster.tasks(until="log")
    with pytest.raises(NotLogged, match="the audit is complete but not logged: tracking server"):
        log_step(run, cluster.pointers)
    said = capfd.readouterr().err
    assert f"log: tracking server {address} does not answer (Connection refused); waiting, " in said
    assert "of 3 s" in said
    error = cluster.error()
    assert error["exit_code"] == 7
    assert f"scotoma audit --resume --step log --out {run.place}" in error["message"]
    assert not run.path("checksums.json").exists()  # it did not end
    assert not (cluster.pointers / "log").exists() or "log" not in read_json(
        cluster.pointers / "log"
    )
    cluster.exit_task("FAILED")
    assert cluster.error() == error  # the first sentence stays

    home = tmp_path / "server"
    home.mkdir()
    database = _copied(silent, home / "server.db")
    artifacts = ("--artifacts-destination", str(home / "artifacts"))
    with serving(home, database, *artifacts, port=port) as server:  # it is back
        log_step(run, cluster.pointers)
        assert cluster.error() is None
        assert checksums.compare_checksums(run.mirror).intact
        client = mlflow.MlflowClient(tracking_uri=server.address)
        logged = client.get_run(read_json(run.path("tracking.json"))["run"])
        assert logged.info.status == "FINISHED"
        assert logged.data.tags["kfp.run_id"] == JOB
        assert logged.data.tags["scotoma.place"] == run.root.name
        note = logged.data.tags["mlflow.note.content"]
        assert f"- Kubeflow run: {JOB.replace('-', '-')}" in note
        assert "- files of the audit: " in note


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    path = predictions_made_elsewhere(tmp_path)
    text = path.read_text().replace('"off"', "environment")
    path.write_text(text.replace("project: killed", f"project: {tmp_path.name}"))
    return path


def audited(config: Path, out: Path) -> tuple[int, str]:
    with steps_in_this_process(config.parent):
        code, _, err = scotoma("audit", config, "--out", out)
    return code, " ".join(err.split())


def test_an_ordinary_audit_says_the_cause_and_its_step_log_logs_alone(
    config: Path,
    server: str,
    mlflow: Any,
    free_port: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = config.parent / "run"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    code, err = audited(config, out)
    assert code in (0, 1)
    assert "mlflow not logged: tracking server http://127.0.0.1:" in err
    assert "does not answer (Connection refused); 0 of 9 runs were logged; once it answers: " in err
    with steps_in_this_process(config.parent):
        code, _, err = scotoma("audit", "--resume", "--step", "log", "--out", out)
    assert code == 7
    assert err.splitlines()[-1].startswith("scotoma: the audit is complete but not logged: ")

    before = {path: path.stat().st_mtime_ns for path in (out / "steps").glob("*.json")}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    with steps_in_this_process(config.parent):
        code, _, err = scotoma("audit", "--resume", "--step", "log", "--out", out)
    assert (code, "mlflow  http" in err) == (0, True), err
    after = {path: path.stat().st_mtime_ns for path in (out / "steps").glob("*.json")}
    assert {path.stem for path in after if after[path] != before[path]} == {"log"}
    client = mlflow.MlflowClient(tracking_uri=server)
    assert client.get_run(read_json(out / "tracking.json")["run"]).info.status == "FINISHED"
    assert checksums.compare_checksums(Run.open(out).mirror).intact


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--out", "nowhere"), "there is none at nowhere"),
    ],
)
def test_logging_again_needs_an_audit(arguments: tuple[str, ...], sentence: str) -> None:
    code, _, err = scotoma("audit", "--resume", "--step", "log", *arguments)
    assert code == 2
    assert sentence in " ".join(err.split())


def test_a_folder_as_a_store_is_a_sentence_with_what_to_write(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{config.parent}/mlruns")
    _, err = audited(config, config.parent / "run")
    assert (
        f"not logged: tracking.uri must be a server or a database, got the folder "
        f"{config.parent}/mlruns, which MLflow 3 does not write; use "
        f"sqlite:///{config.parent}/mlruns/mlflow.db"
    ) in err
    assert not (config.parent / "mlruns").exists()


def test_the_same_inputs_again_are_nothing_new(
    config: Path, server: str, mlflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the same folder nor in another, and no verdict changes."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    first, second = config.parent / "first", config.parent / "second"
    code, err = audited(config, first)
    assert "nothing new" not in err
    verdict = json.loads((first / "gate.json").read_text())["verdict"]
    again, err = audited(config, first)
    assert (again, "note nothing new: the audit of these inputs was finished" in err) == (
        code,
        True,
    )
    shutil.copytree(config.parent / "preds", config.parent / "kept")
    again, err = audited(config, second)
    assert again == code
    assert "note nothing new: 20" in err
    assert f" · {verdict} rests on the same inputs" in err
    client = mlflow.MlflowClient(tracking_uri=server)
    home = client.get_experiment_by_name(config.parent.name).experiment_id
    whole = client.search_runs([home], "tags.`scotoma.kind` = 'audit'")
    assert [run.data.params["verdict"] for run in whole] == [verdict]
