"""An audit that trains, logged to a real server by the command: what a person reads of it there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scotoma.run import read_json
from tests.faults.made import TRAINED
from tests.helpers.audits import accuracy, rates
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

VARIANTS = ["dense", "prune-0.5", "int8-dynamic"]


@dataclass(frozen=True)
class Logged:
    """The audit's folder, and the runs of both experiments as the server answers them."""

    folder: Path
    client: Any
    whole: Any
    variants: dict[str, Any]
    members: dict[str, Any]
    models: list[Any]


@pytest.fixture(scope="module")
def logged(server: str, mlflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    home = tmp_path_factory.mktemp("trained")
    text = TRAINED.read_text().replace('tracking: {uri: "off"}', "data_date: 2027-03")
    (home / "audit.yaml").write_text(text.replace("project: killed", f"project: {home.name}"))
    with pytest.MonkeyPatch.context() as patch, steps_in_this_process(home):
        for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_TRACKING_URI", server)
        code, _, err = scotoma("audit", home / "audit.yaml", "--out", home / "run")
    assert code in (0, 1), err
    assert "not logged" not in err
    client = mlflow.MlflowClient(tracking_uri=server)
    ids = [client.get_experiment_by_name(f"{home.name}{end}").experiment_id
           for end in ("", ".models")]  # fmt: skip
    runs = {run.info.run_id: run for run in client.search_runs([ids[0]])}
    tracked = read_json(home / "run" / "tracking.json")
    members = client.search_runs([ids[1]])
    return Logged(
        home / "run", client, runs[tracked["run"]],
        {name: runs[run_id] for name, run_id in tracked["runs"].items()},
        {f"{r.data.tags['scotoma.variant']} {r.data.tags['scotoma.member']}": r for r in members},
        client.search_logged_models([ids[1]]),
    )  # fmt: skip


def test_runs_are_named_by_date_variant_and_verdict_and_nested(logged: Logged) -> None:
    gate = json.loads((logged.folder / "gate.json").read_text())
    verdicts = {one["name"]: f" · {one['verdict']}" for one in gate["variants"]}
    assert logged.whole.info.run_name == f"2027-03 · {gate['verdict']}"
    assert {name: run.info.run_name for name, run in logged.variants.items()} == {
        name: f"2027-03 · {name}{verdicts.get(name, '')}" for name in VARIANTS
    }
    for run in logged.variants.values():
        assert run.data.tags["mlflow.parentRunId"] == logged.whole.info.run_id


def test_metrics_are_for_a_reader_and_all_of_them_are_there(logged: Logged) -> None:
    audit = json.loads((logged.folder / "audit.json").read_text())
    metrics = logged.variants["prune-0.5"].data.metrics
    head = [name for name in metrics if "/" not in name]
    assert 3 < len(head) <= 25
    top1 = accuracy(audit, "prune-0.5")["top1"]
    shown = tuple(metrics[f"accuracy{end}"] for end in ("", "_low", "_high"))
    assert shown == (top1["value"], top1["low"], top1["high"])
    assert {"error_rise_worst", "error_rise_worst_low", "cie_excess"} < set(head)
    assert all(name.startswith("detail/") for name in metrics if "/" in name)
    assert not [name for name in metrics if re.search(r"[0-9a-f]{12}", name)]
    rows = {row["group"]: row for row in rates(audit, "prune-0.5")
            if (row["metric"], row["class"]) == ("error", None)}  # fmt: skip
    for group in ("style=plain", "style=styled"):
        name = f"detail/{group.replace('=', ' is ')}/error/rise"
        assert metrics[name] == rows[group]["absolute"]["value"]


def test_tags_are_few_and_parameters_true_or_absent(logged: Logged) -> None:
    for run in (logged.whole, *logged.variants.values(), *logged.members.values()):
        assert len(run.data.tags) <= 20
        assert run.info.status == "FINISHED"
    params = {name: run.data.params for name, run in logged.variants.items()}
    assert [float(params[name]["sparsity"]) for name in VARIANTS] == [0, 0.5, 0]
    assert [params[name]["bits"] for name in VARIANTS] == ["32", "32", "8"]
    assert "verdict" not in params["dense"]


def test_data_sets_files_and_models_are_mlflows_own(logged: Logged) -> None:
    for run in logged.variants.values():
        inputs = run.inputs.dataset_inputs
        assert {one.tags[0].value for one in inputs} == {"train", "test"}
    artifacts = {file.path for file in logged.client.list_artifacts(logged.whole.info.run_id)}
    assert artifacts >= {"audit.json", "numbers.parquet", "gate.json", "report.html", "trend.html",
                         "trend.png"}  # fmt: skip
    assert len(logged.models) == 9
    for model in logged.models:
        assert "accuracy" in {metric.key for metric in model.metrics}
        assert Path(logged.folder.parent, model.tags["scotoma.place"]).is_file()


@pytest.mark.parametrize("member", ["dense 0", "prune-0.5 2"])
def test_how_busy_the_machine_was_is_a_series_under_mlflows_names(
    logged: Logged, member: str
) -> None:
    run = logged.members[member]
    system = {name for name in run.data.metrics if name.startswith("system/")}
    assert system >= {
        "system/cpu_utilization_percentage",
        "system/system_memory_usage_megabytes",
        "system/system_memory_usage_percentage",
    }
    began, ended = (logged.folder / name for name in ("config.yaml", "tracking.json"))
    for name in system:
        points = logged.client.get_metric_history(run.info.run_id, name)
        assert [point.step for point in points] == list(range(len(points)))
        times = [point.timestamp / 1000 for point in points]
        assert times == sorted(times)
        assert began.stat().st_mtime - 60 < times[0] < times[-1] < ended.stat().st_mtime + 1
        if name.endswith("_percentage"):
            assert all(0 <= point.value <= 100 for point in points)
    assert not any(
        name.startswith("system/") for name in logged.members["int8-dynamic 0"].data.metrics
    )


def test_samples_of_a_long_training_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    from scotoma.processes import machine

    monkeypatch.setattr(machine, "PAUSE_S", 0.001)
    monkeypatch.setattr(machine, "MOST", 4)
    with machine.machine_sampled() as samples:
        while len(samples) < 3 or samples[-1]["time"] - samples[0]["time"] < 0.3:
            pass
    assert 2 <= len(samples) <= 5
