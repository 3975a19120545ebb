"""What MLflow holds after an audit, read back through MLflow's own client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from scotoma.run import Run, read_json
from scotoma.tracking import Tracked, tracking_uri
from scotoma.uncertainty import undefined
from tests.tracking.names import short
from tests.tracking.typed import log_audit, member_records, variant_records

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


def test_there_is_one_flat_run_a_variant_and_dense_is_listed_first(logged: Logged) -> None:
    found = runs_of(logged.client, "read back")
    assert logged.tracked.reason == ""
    assert [short(run.info.run_name) for run in found] == VARIANTS
    assert logged.tracked.runs == {short(run.info.run_name): run.info.run_id for run in found}
    assert {run.info.status for run in found} == {"FINISHED"}
    assert not [run for run in found if "mlflow.parentRunId" in run.data.tags]


def test_every_number_parameter_and_tag_of_a_record_is_read_back(logged: Logged) -> None:
    recipe = logged.run.config.source.recipe.model_dump(mode="json")
    manifests = {
        name: read_json(logged.run.population(name) / "manifest.json") for name in VARIANTS
    }
    found = {
        short(run.info.run_name): run.data
        for name in ("read back", "read back.models")
        for run in runs_of(logged.client, name)
    }
    records = [
        *variant_records(logged.audit, recipe),
        *member_records(logged.audit, recipe, manifests),
    ]
    assert sorted(found) == sorted(short(record.name) for record in records)
    for record in records:
        data = found[short(record.name)]
        assert data.metrics == {name: value for name, value, _ in record.metrics}  # the last step
        assert data.params == {key: str(value) for key, value in record.params.items()}
        assert record.texts().items() <= data.tags.items()


def test_a_few_are_spelled_out(logged: Logged) -> None:
    """So that a record that lost them does not pass unseen."""
    pruned = logged.data("prune-0.9")
    assert pruned.metrics["1_quality/top1"] == 0.8
    assert pruned.metrics["3_worst/error_points"] == pytest.approx(7.0)
    assert pruned.metrics["amp_error/sex.male_and_age.old"] == 70.0
    assert float(pruned.params["sparsity"]) == 0.9
    assert logged.data("int8-static").params["recipe.steps"] == "40"
    assert pruned.tags["scotoma.audit"] == logged.run.config.digest()
    assert pruned.tags["group/3_worst/error_points"] == "sex=male,age=old"
    assert pruned.tags["interval/2_cie/count"] == "[50, 60] n=500: the range over 10 ties"
    assert logged.data("dense").metrics == {"1_quality/top1": 0.9}


def test_both_splits_are_inputs_with_their_digest(logged: Logged) -> None:
    for run_id in logged.tracked.runs.values():
        inputs = logged.client.get_run(run_id).inputs.dataset_inputs
        assert {(i.dataset.name, i.dataset.digest, i.tags[0].value) for i in inputs} == {
            ("read back train", DATASET[:32], "train"),
            ("read back test", DATASET[:32], "test"),
        }
        assert all(DATASET in i.dataset.source for i in inputs)


def test_every_variant_run_carries_the_report(logged: Logged, tmp_path: Path) -> None:
    for name, run_id in logged.tracked.runs.items():
        names = {artifact.path for artifact in logged.client.list_artifacts(run_id)}
        assert names == {"report.html", "audit.json", "config.yaml"}
        found = logged.client.download_artifacts(run_id, "report.html", str(tmp_path))
        assert Path(found).read_bytes() == logged.run.path("report.html").read_bytes(), name


def test_the_configuration_in_the_store_names_no_folder_of_this_machine(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "portable")
    text = yaml.safe_load(run.path("config.yaml").read_text())
    text["source"] = {"kind": "parquet", "data": str(tmp_path / "faces")}
    run.path("config.yaml").write_text(yaml.safe_dump(text))
    tracked = log_audit(run, audit_of(run), sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    found = client.download_artifacts(tracked.runs["dense"], "config.yaml", str(tmp_path))
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
    assert len(runs_of(logged.client, "read back")) == 3
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
    assert (view["startTime"], view["orderByKey"]) == ("ALL", "attributes.start_time")
    assert view["selectedColumns"][0] == "params.`verdict`"
    found = client.search_runs([experiment], view["searchFilter"])
    assert {run.info.run_id for run in found} == set(tracked.runs.values())


# --- calls after calls ----------------------------------------------------------------------------


def test_a_run_that_an_interrupted_call_left_is_replaced(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "interrupted")
    client, first = mlflow.MlflowClient(tracking_uri=sqlite), log_audit(run, audit_of(run), sqlite)
    client.set_terminated(first.runs["prune-0.9"], "RUNNING")
    second = log_audit(run, audit_of(run), sqlite)
    assert {name for name in VARIANTS if first.runs[name] != second.runs[name]} == {"prune-0.9"}
    assert {r.info.run_id for r in runs_of(client, "interrupted")} == set(second.runs.values())
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
    assert "; 0 of 9 runs were logged" in broken.reason
    in_the_way.unlink()
    mended = log_audit(run, audit_of(run), sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    assert mended.reason == ""
    assert [r.info.run_id for r in runs_of(client, "half way")] == [
        mended.runs[name] for name in VARIANTS
    ]


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
        *first.runs.values(),
        *second.runs.values(),
    }
    assert len(runs_of(client, "twice")) == 6
    assert len(runs_of(client, "twice.models")) == 6  # the same weights: the same members


# --- what a store may choke on --------------------------------------------------------------------


def test_what_is_undefined_is_a_tag_with_its_reason_and_no_metric(
    mlflow: Any, sqlite: str, folder: Folder, audit_of: AuditOf, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "undefined")
    audit = audit_of(run)
    reason = "undefined (no positives in group 'men\x00')"
    audit["divergence"]["prune-0.9"]["cie"]["excess"] = undefined(reason, n=0, members=2).as_dict()
    tracked = log_audit(run, audit, sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    found = client.get_run(tracked.runs["prune-0.9"]).data
    assert "2_cie/excess_points" not in found.metrics
    assert found.tags["undefined/2_cie/excess_points"] == "undefined (no positives in group 'men ')"


def test_a_server_takes_hostile_group_names_as_text(
    mlflow: Any, server: str, folder: Folder, audit_of: AuditOf, hostile: Rows, tmp_path: Path
) -> None:
    run = folder(tmp_path / "run", "hostile")
    audit = audit_of(run)
    audit["subgroups"]["prune-0.9"] = hostile
    tracked = log_audit(run, audit, server)
    assert tracked.reason == ""
    found = mlflow.MlflowClient(tracking_uri=server).get_run(tracked.runs["prune-0.9"]).data
    metrics = {k: v for k, v in found.metrics.items() if k.startswith("amp_error/")}
    assert sorted(metrics.values()) == sorted(row["relative"]["value"] for row in hostile)
    assert all(re.fullmatch(r"amp_error/[A-Za-z0-9_.-]+", name) for name in metrics)
    assert found.tags["group/3_worst/error_points"] == "a=[x](http://x.example)|`y` # h"
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
    assert found.metrics["amp_error/city.999"] == 999.0
    assert sum(name.startswith("amp_error/") for name in found.metrics) == 1000


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
