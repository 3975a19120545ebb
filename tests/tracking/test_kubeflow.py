"""Kubeflow's MLflow plugin: its run is described, and the run of the audit hangs below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import read_audit, read_gate
from scotoma.run import read_json
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.tracking.names import short

PARENT = "mlflow.parentRunId"
PAGE = "https://kubeflow.example/#/runs/details/7"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An audit of predictions that logs to what its environment names, and nothing is named."""
    for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    path = predictions_made_elsewhere(tmp_path)
    text = path.read_text().replace('"off"', "environment")
    path.write_text(text.replace("project: killed", f"project: {tmp_path.name}"))
    return path


@pytest.fixture
def client(mlflow: Any, server: str) -> Any:
    return mlflow.MlflowClient(tracking_uri=server)


def audited(config: Path) -> str:
    with steps_in_this_process(config.parent):
        code, _, err = scotoma("audit", config, "--out", config.parent / "run")
    assert code in (0, 1), err
    return err


def plugin(client: Any, project: str) -> tuple[str, str]:
    """The runs that the plugin makes: of a pipeline's run, of a block in it, of a task in that."""
    found = client.get_experiment_by_name(project)
    home = found.experiment_id if found else client.create_experiment(project)
    tags = {"kfp.pipeline_run_id": "7", "kfp.pipeline_run_url": PAGE}
    root = client.create_run(home, tags=tags, run_name=f"{project} 1a2b").info.run_id
    above = root
    for name in ("exit-handler-1", "log-tracking"):
        tags = {"mlflow.parentRunId": above}
        above = client.create_run(home, tags=tags, run_name=name).info.run_id
    return root, above


def ours(client: Any, project: str) -> list[Any]:
    home = client.get_experiment_by_name(project).experiment_id
    return [run for run in client.search_runs([home]) if "scotoma.result" in run.data.tags]


def test_the_root_run_gets_the_verdict_and_ours_point_to_it(
    client: Any, server: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    root, task = plugin(client, config.parent.name)
    monkeypatch.setenv("MLFLOW_RUN_ID", task)
    audited(config)
    folder = config.parent / "run"
    audit, gate = read_audit(folder / "audit.json"), read_gate(folder / "gate.json")

    described = client.get_run(root)
    assert described.data.tags["scotoma.verdict"] == gate.verdict
    (judged,) = gate.variants
    excess = audit.number("divergence", judged.name, "cie.excess").value
    top1 = {row.variant: row.number.value for row in audit.numbers("accuracy")}
    assert described.data.metrics == pytest.approx(
        {
            "verdict": {"PASS": 0, "UNSURE": 1, "FAIL": 2}[gate.verdict],
            "dense/top1": top1["dense"],
            "prune-0.9/top1": top1["prune-0.9"],
            "prune-0.9/verdict": {"PASS": 0, "UNSURE": 1, "FAIL": 2}[judged.verdict],
            "prune-0.9/cie_excess_points": 100 * (excess or 0.0),
            "prune-0.9/worst_group_points": described.data.metrics["prune-0.9/worst_group_points"],
        }
    )
    runs = {short(run.info.run_name): run for run in ours(client, config.parent.name)}
    assert set(runs) == {"", "dense", "prune-0.9"}
    whole = runs.pop("")
    assert whole.data.tags[PARENT] == root
    for run in (whole, *runs.values()):
        assert run.data.tags["kfp.run_id"] == "7"
        assert run.data.tags["scotoma.place"] == "run"
        assert f"(<{PAGE}>)" in run.data.tags["mlflow.note.content"]
        assert f"/runs/{root}" in run.data.tags["mlflow.note.content"]
    assert {run.data.tags[PARENT] for run in runs.values()} == {whole.info.run_id}
    link = read_json(folder / "tracking.json")["link"]
    assert link.removeprefix(f"{server}/") in described.data.tags["mlflow.note.content"]
    assert client.get_run(task).data.metrics == {}

    again, task = plugin(client, config.parent.name)  # the same audit, submitted again
    monkeypatch.setenv("MLFLOW_RUN_ID", task)
    audited(config)
    assert client.get_run(again).data.metrics == described.data.metrics
    (whole,) = (run for run in ours(client, config.parent.name)
                if run.data.tags["scotoma.kind"] == "audit")  # fmt: skip
    assert whole.data.tags[PARENT] == again


@pytest.mark.parametrize("run_id", ["", "0" * 32, "another"])
def test_without_the_plugin_nothing_changes(
    client: Any, server: str, config: Path, monkeypatch: pytest.MonkeyPatch, run_id: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    if run_id == "another":  # of somebody's notebook
        run_id = client.create_run(client.create_experiment(config.parent.name)).info.run_id
    if run_id:
        monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    audited(config)
    found = ours(client, config.parent.name)
    assert len(found) == 3
    whole = [run for run in found if PARENT not in run.data.tags]
    assert [run.data.tags["scotoma.kind"] for run in whole] == ["audit"]
    for run in found:
        assert "kfp.run_id" not in run.data.tags
        assert "Kubeflow" not in run.data.tags["mlflow.note.content"]


def test_an_environment_that_names_no_server_is_said(config: Path) -> None:
    err = audited(config)
    assert "mlflow  not logged: tracking.uri is `environment`, and MLFLOW_TRACKING_URI is" in err
    assert not (config.parent / "mlflow.db").exists()
