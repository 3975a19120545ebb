"""A whole audit that MLflow does not have: its real steps, and the command that waits."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma import components
from scotoma.config import Kubeflow
from scotoma.config.reading import configuration
from scotoma.errors import NotLogged
from scotoma.pipelines import compile_pipeline
from scotoma.run import Run, read_json
from scotoma.run.judging import Judging
from scotoma.steps.inputs import resolved
from scotoma.steps.kubeflow.failure import record_failure
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, inputs_of, skipped_steps
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import client
from tests.pipelines.test_commands import status_rows


class Output:
    """What Kubeflow hands a component for an artifact."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of an MLflow that is away."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_wait_ends_with_7_and_a_retry_logs_alone(
    kfp: KfpServer, s3: Any, nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SCOTOMA_CACHE": str(tmp_path / "cache"),
        "SCOTOMA_TRACKING_URI": nobody,
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    path = predictions_made_elsewhere(tmp_path)
    text = path.read_text().replace('tracking: {uri: "off"}\n', "")
    path.write_text(text + "kubeflow: {endpoint: https://kubeflow.example/pipeline/}\n")
    config, _ = resolved(
        configuration(path, deterministic=True, seed=None, data=None), str(tmp_path)
    )
    kubeflow = Kubeflow.model_validate({"volume": {"claim": "data", "mount": str(tmp_path)}})
    compile_pipeline(config, tmp_path / "pipeline.yaml", kubeflow=kubeflow)
    place = s3.uri("run")
    run_id = client().submit(tmp_path / "pipeline.yaml", place, "sent", "audits").run_id
    run = Run.create(place, config)
    Judging(None, datetime.date.today()).leave(run)

    def task(name: str) -> None:
        after = [str(tmp_path / before) for before in inputs_of(STEPS[name], config).values()]
        execute(name, place, str(tmp_path / name), after=after)

    def log() -> None:
        components.log_tracking.python_func(
            run_uri=place, report=Output(tmp_path / "report"), tracked=Output(tmp_path / "log"),
            job=run_id,
        )  # fmt: skip

    for name in STEPS:
        if name not in {*skipped_steps(config), "log"}:
            task(name)
    with pytest.raises(NotLogged):
        log()
    record_failure(place, run_id, "FAILED", 1)
    kfp.store.outcome, kfp.store.failing, kfp.store.elapsed_s = "FAILED", "log-tracking", 9999.0
    verdict = read_json(run.path("gate.json"))["exit_code"]
    summary = run.path("summary.md").read_text()
    code, out, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, out) == (7, summary)
    last = err.splitlines()[-1]
    assert last.startswith("the audit is complete but not logged: tracking server http://127.0.0.1")
    assert last.endswith(f"; scotoma kubeflow submit --resume {run_id} logs it")
    states = {row["step"]: row["state"] for row in status_rows(run_id)}
    assert states.pop("log") == "FAILED"
    assert set(states.values()) == {"SUCCEEDED"}

    database = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", database)
    monkeypatch.setenv("KFP_POD_NAME", "scotoma-audit-t88kl-system-container-impl-1")
    kfp.store.elapsed_s = None
    before = {
        name: (run.path("steps") / f"{name}.json").read_bytes() for name in ("bias", "report")
    }
    assert scotoma("kubeflow", "submit", "--resume", run_id)[0] == 0
    log()
    assert {name: (run.path("steps") / f"{name}.json").read_bytes() for name in before} == before
    code, out, _ = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, out) == (verdict, summary)
    assert "log.0.2.log" in "".join(s3.names())

    from mlflow import MlflowClient

    store = MlflowClient(tracking_uri=database)
    logged = store.search_runs([store.get_experiment_by_name("killed").experiment_id])
    assert len(logged) == 3
    for one in logged:  # says where it lies, and which run of Kubeflow it is
        assert (one.data.tags["scotoma.place"], one.data.tags["kfp.run_id"]) == (place, run_id)
        page = f"https://kubeflow.example/pipeline/#/runs/details/{run_id}"
        assert f"](<{page}>)" in one.data.tags["mlflow.note.content"]
