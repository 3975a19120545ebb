"""What MLflow holds after an audit, read back through MLflow's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from scotoma.run import Run
from scotoma.tracking.store import Tracked, tracking_uri
from tests.tracking.names import short
from tests.tracking.typed import log_audit

Folder = Callable[..., Run]
AuditOf = Callable[[Run], dict[str, Any]]
Rows = list[dict[str, Any]]
VARIANTS = ["dense", "prune-0.9", "int8-static"]
DATASET = "d" * 64


@dataclass(frozen=True)
class Logged:
    """One audit in a store, and how to read it."""

    tracked: Tracked
    client: Any
    audit: dict[str, Any]
    uri: str
    run: Run

    def data(self, name: str) -> Any:
        return self.client.get_run(self.tracked.runs[name]).data


@pytest.fixture(
    scope="module", params=[pytest.param("sqlite", marks=pytest.mark.thorough), "server"]
)
def logged(
    request: pytest.FixtureRequest,
    mlflow: Any,
    folder: Folder,
    audit_of: AuditOf,
    tmp_path_factory: pytest.TempPathFactory,
) -> Logged:
    """One audit in each kind of store."""
    uri = request.getfixturevalue(request.param)
    run = folder(tmp_path_factory.mktemp("logged") / "run", "read back")
    audit = audit_of(run)
    tracked = log_audit(run, audit, uri)
    return Logged(tracked, mlflow.MlflowClient(tracking_uri=uri), audit, uri, run)


def runs_of(client: Any, experiment: str) -> list[Any]:
    """The runs as the page lists them: the last one started first."""
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id], order_by=["start_time DESC"]))


# --- what is there --------------------------------------------------------------------------------


def test_an_audit_has_a_run_and_its_variants_are_nested_below_it(logged: Logged) -> None:
    *found, whole = runs_of(logged.client, "read back")
    assert logged.tracked.reason == ""
    assert [short(run.info.run_name) for run in found] == VARIANTS
    assert logged.tracked.runs == {short(run.info.run_name): run.info.run_id for run in found}
    assert whole.info.run_id == logged.tracked.run
    assert "mlflow.parentRunId" not in whole.data.tags
    assert {run.data.tags["mlflow.parentRunId"] for run in found} == {whole.info.run_id}
    for run in (*found, whole, *runs_of(logged.client, "read back.models")):
        assert run.info.status == "FINISHED"
        assert len(run.data.tags) <= 20


def test_numbers_parameters_and_tags_are_read_back(logged: Logged) -> None:
    """So that a record that lost them does not pass unseen."""
    pruned = logged.data("prune-0.9")
    top1 = logged.audit["accuracy"]["prune-0.9"]["top1"]
    assert pruned.metrics["accuracy"] == 0.8
    assert pruned.metrics["accuracy_low"] == top1["low"]
    assert pruned.metrics["error_rise_worst"] == pytest.approx(0.07)
    assert pruned.metrics["detail/sex is male and age is old/error/rise_relative"] == 0.7
    assert float(pruned.params["sparsity"]) == 0.9
    assert pruned.params["worst_group"] == "sex=male,age=old"
    assert pruned.tags["scotoma.audit"] == logged.run.config.digest()
    assert {name for name in logged.data("dense").metrics if "/" not in name} == {
        "accuracy", "accuracy_low", "accuracy_high",
    }  # fmt: skip
    whole = logged.client.get_run(logged.tracked.run).data
    assert whole.params["worst_group"] == "sex=male,age=old"
    assert whole.metrics["accuracy"] in (0.7, pytest.approx(0.8))


def test_both_splits_are_inputs_with_their_digest(logged: Logged) -> None:
    for run_id in logged.tracked.runs.values():
        inputs = logged.client.get_run(run_id).inputs.dataset_inputs
        assert {(i.dataset.name, i.dataset.digest, i.tags[0].value) for i in inputs} == {
            ("read back train", DATASET[:32], "train"),
            ("read back test", DATASET[:32], "test"),
        }
        assert all(DATASET in i.dataset.source for i in inputs)


def test_the_run_of_the_audit_carries_the_report_and_no_variant_a_copy(
    logged: Logged, tmp_path: Path
) -> None:
    client = logged.client
    names = {artifact.path for artifact in client.list_artifacts(logged.tracked.run)}
    assert names == {"report.html", "audit.json", "config.yaml"}
    found = client.download_artifacts(logged.tracked.run, "report.html", str(tmp_path))
    assert Path(found).read_bytes() == logged.run.path("report.html").read_bytes()
    for run_id in logged.tracked.runs.values():
        assert list(client.list_artifacts(run_id)) == []


def test_the_configuration_in_the_store_names_no_folder_of_this_machine(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "portable")
    text = yaml.safe_load(run.path("config.yaml").read_text())
    text["source"] = {"kind": "parquet", "data": str(tmp_path / "faces")}
    run.path("config.yaml").write_text(yaml.safe_dump(text))
    tracked = log_audit(run, audit_of(run), sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    found = client.download_artifacts(tracked.run, "config.yaml", str(tmp_path))
    assert str(tmp_path) not in Path(found).read_text()
    assert yaml.safe_load(Path(found).read_text())["source"]["data"] == "faces"
    assert str(tmp_path) in run.path("config.yaml").read_text()


def test_the_loss_curve_of_a_member_stands_at_its_steps(logged: Logged) -> None:
    found = {short(run.info.run_name): run for run in runs_of(logged.client, "read back.models")}
    assert sorted(found) == sorted(f"{name} · {k:02d}" for name in VARIANTS for k in range(2))
    second = found["prune-0.9 · 01"]
    # 40 steps, a point for each tenth: at 4, 8 and 12.
    curve = logged.client.get_metric_history(second.info.run_id, "loss")
    assert [(point.step, point.value) for point in curve] == [(4, 2.0), (8, 2.0), (12, 0.5)]
    assert second.data.params["seed"] == str(2**63 + 1)
    assert "loss" not in found["int8-static · 01"].data.metrics


def test_a_repeated_call_adds_nothing(logged: Logged) -> None:
    assert log_audit(logged.run, logged.audit, logged.uri) == logged.tracked
    assert len(runs_of(logged.client, "read back")) == 4
    assert len(runs_of(logged.client, "read back.models")) == 6


def test_the_link_shows_the_variants_of_this_audit(logged: Logged) -> None:
    tracked, client, uri = logged.tracked, logged.client, logged.uri
    if uri.startswith("sqlite"):
        assert tracked.link == f"mlflow ui --backend-store-uri '{uri}'"  # its folder has a space
        return
    fragment = urlsplit(urlsplit(tracked.link).fragment)
    experiment = client.get_experiment_by_name("read back").experiment_id
    assert tracked.link.startswith(f"{uri}/#/experiments/{experiment}/runs?viewStateShareKey=")
    query = {name: values[0] for name, values in parse_qs(fragment.query).items()}
    assert query["compareRunsMode"] == "CHART"
    assert query["workflowType"] == "machine_learning"
    tags = client.get_experiment(experiment).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{query['viewStateShareKey']}"])
    assert json.loads(view["state"]).items() <= view.items()  # versions before 3.17 read these
    assert (view["startTime"], view["orderByKey"]) == ("ALL", "tags.`mlflow.runName`")
    assert view["selectedColumns"][:3] == [
        "params.`verdict`", "params.`worst_group`", "params.`worst_rise`",
    ]  # fmt: skip
    found = client.search_runs([experiment], view["searchFilter"])
    assert {run.info.run_id for run in found} == set(tracked.runs.values())
    note = tags["mlflow.note.content"]
    assert f"(#/experiments/{experiment}/runs?viewStateShareKey=scotoma-audits&" in note
    view = json.loads(tags["mlflow.sharedViewState.scotoma-audits"])
    found = client.search_runs([experiment], view["searchFilter"])
    assert [run.info.run_id for run in found] == [tracked.run]


def test_each_trained_model_is_one_of_mlflows_models_with_its_numbers(logged: Logged) -> None:
    home = logged.client.get_experiment_by_name("read back.models").experiment_id
    runs = {run.info.run_id: run for run in runs_of(logged.client, "read back.models")}
    models = logged.client.search_logged_models([home])
    assert sorted(model.name for model in models) == [
        f"{name}-{index}" for name in ("dense", "int8-static", "prune-0_9") for index in range(2)
    ]
    for model in models:
        run = runs[model.source_run_id]
        assert model.status == "READY"
        assert model.tags["scotoma.weights"] == run.data.tags["scotoma.weights"]
        assert model.tags["scotoma.place"].endswith(run.data.tags["scotoma.file"])
        assert model.tags["mlflow.model.isExternal"] == "true"
        accuracy = {m.key: m.value for m in model.metrics}["accuracy"]
        assert accuracy == run.data.metrics["accuracy"]
        (output,) = run.outputs.model_outputs
        assert output.model_id == model.model_id


def test_a_description_that_somebody_wrote_stays(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    place = (tmp_path / "artifacts").as_uri()
    own = client.create_experiment("described", place, {"mlflow.note.content": "ours"})
    run = folder(tmp_path / "run", "described")
    assert log_audit(run, audit_of(run), sqlite).reason == ""
    assert client.get_experiment(own).tags["mlflow.note.content"] == "ours"


# --- calls after calls ----------------------------------------------------------------------------


def test_what_an_interrupted_call_left_is_replaced(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "interrupted")
    client, first = mlflow.MlflowClient(tracking_uri=sqlite), log_audit(run, audit_of(run), sqlite)
    client.set_terminated(first.run, "RUNNING")
    second = log_audit(run, audit_of(run), sqlite)
    assert second.reason == ""
    found = runs_of(client, "interrupted")
    assert {r.info.run_id for r in found} == {second.run, *second.runs.values()}
    assert {r.info.status for r in found} == {"FINISHED"}
    assert len(runs_of(client, "interrupted.models")) == 6


def test_a_store_that_fails_half_way_is_a_reason_and_made_good_by_repeating(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "half way")
    in_the_way = Path(sqlite.removeprefix("sqlite:///")).parent / "mlartifacts" / "half way"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file where a folder has to be")
    broken = log_audit(run, audit_of(run), sqlite)
    assert broken.reason.startswith(f"MLflow at {sqlite} failed (")
    assert "; 3 of 10 runs were logged" in broken.reason
    in_the_way.unlink()
    mended = log_audit(run, audit_of(run), sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    assert mended.reason == ""
    assert [r.info.run_id for r in runs_of(client, "half way")] == [
        *(mended.runs[name] for name in VARIANTS), mended.run,
    ]  # fmt: skip


def test_another_result_of_one_configuration_is_logged_beside_the_first(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "twice")
    audit = audit_of(run)
    first = log_audit(run, audit, sqlite)
    audit["accuracy"]["dense"]["top1"]["value"] = 0.5
    second = log_audit(run, audit, sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    assert {r.info.run_id for r in runs_of(client, "twice")} == {
        first.run, *first.runs.values(), second.run, *second.runs.values(),
    }  # fmt: skip
    assert len(runs_of(client, "twice")) == 8
    assert len(runs_of(client, "twice.models")) == 6  # the same weights: the same members


# --- what a store may choke on --------------------------------------------------------------------


def test_a_server_takes_hostile_group_names_as_text(
    mlflow: Any, server: str, folder: Folder, audit_of: AuditOf, hostile: Rows, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "hostile")
    audit = audit_of(run)
    audit["subgroups"]["prune-0.9"] = hostile
    tracked = log_audit(run, audit, server)
    assert tracked.reason == ""
    found = mlflow.MlflowClient(tracking_uri=server).get_run(tracked.runs["prune-0.9"]).data
    rises = [v for k, v in found.metrics.items() if k.endswith("/error/rise_relative")]
    assert sorted(rises) == sorted(row["relative"]["value"] for row in hostile)
    assert found.params["worst_group"] == "a=[x](http://x.example)|`y` # h"
    assert "&#91;x&#93;&#40;http&#58;" in found.tags["mlflow.note.content"]


@pytest.mark.thorough
def test_a_thousand_groups_fit(
    mlflow: Any,
    sqlite: str,
    folder: Folder,
    audit_of: AuditOf,
    change: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    run = folder(tmp_path / "run", "thousand")
    audit = audit_of(run)
    rows = [change(f"city={k}", "error", float(k)) for k in range(1000)]
    audit["subgroups"]["prune-0.9"] = rows
    tracked = log_audit(run, audit, sqlite)
    found = mlflow.MlflowClient(tracking_uri=sqlite).get_run(tracked.runs["prune-0.9"]).data
    assert found.metrics["detail/city is 999/error/rise_relative"] == 9.99
    assert sum(name.endswith("/error/rise_relative") for name in found.metrics) == 1000


# --- where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "environment", "expected"),
    [
        ("http://b", {"SCOTOMA_TRACKING_URI": "http://a", "MLFLOW_TRACKING_URI": "c"}, "http://a"),
        ("http://b", {"MLFLOW_TRACKING_URI": "http://c"}, "http://b"),
        ("http://***@b", {"MLFLOW_TRACKING_URI": "http://c"}, "http://c"),
        ("", {"SCOTOMA_TRACKING_URI": "", "MLFLOW_TRACKING_URI": "http://c"}, "http://c"),
        ("off", {"MLFLOW_TRACKING_URI": "http://c"}, None),
        ("http://b", {"SCOTOMA_TRACKING_URI": "off"}, None),
        ("", {}, "sqlite:///{parent}/mlflow.db"),
    ],
)
def test_the_command_names_the_store_then_the_configuration_then_the_environment(
    configured: str,
    environment: dict[str, str],
    expected: str | None,
    folder: Folder,
    tmp_path: Path,
) -> None:
    tracking = f"tracking: {{uri: '{configured}'}}" if configured else ""
    run = folder(tmp_path / "run", "p", tracking)
    wanted = expected.format(parent=tmp_path) if expected else None
    assert tracking_uri(run, environment) == wanted
