"""What the registry of a real server holds of audits that passed, failed, and were logged twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.run import Run, read_json, write_json
from scotoma.storage.files import file_digest
from scotoma.tracking.audits import RETENTION, forget_pages, logged_previous
from scotoma.tracking.registry import NO_MODELS, Registered
from tests.tracking.typed import log_audit, register


def judged(run: Run, verdict: str) -> dict[str, Any]:
    variants = [
        {"name": name, "verdict": verdict, "sentences": [], "tests": []}
        for name in ("prune-0.9", "int8-static")
    ]
    return {
        "verdict": verdict, "config_sha256": run.config.digest(), "variants": variants,
        "warnings": [],
    }  # fmt: skip


@pytest.fixture(scope="module")
def months(
    server: str, folder: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Run, dict[str, Any], str]]:
    """Three audits of one project, logged one after the other: PASS, FAIL, PASS."""
    found = []
    for place, verdict in enumerate(("PASS", "FAIL", "PASS")):
        run = folder(tmp_path_factory.mktemp("month") / "run", "monthly")
        audit = read_json(run.path("audit.json"))
        audit["examples"]["test"] += place  # another month's data
        write_json(run.path("audit.json"), audit)
        gate = judged(run, verdict)
        tracked = log_audit(run, audit, server, gate=gate)
        assert not tracked.reason, tracked.reason
        found.append((run, gate, tracked.run))
        time.sleep(0.01)  # starts are told apart by the millisecond
    return found


@pytest.fixture(scope="module")
def client(mlflow: Any, server: str) -> Any:
    return mlflow.MlflowClient(tracking_uri=server, registry_uri=server)


def test_only_a_pass_is_registered_and_the_alias_never_goes_back(
    months: list[tuple[Run, dict[str, Any], str]], client: Any, server: str
) -> None:
    def again(month: int) -> Registered:
        run, gate, whole = months[month]
        return register(run, gate, whole, "face model", "audited", server)

    assert again(0) == Registered("face model", "1", "audited")
    assert again(1) == Registered("face model")
    assert client.get_model_version_by_alias("face model", "audited").version == "1"
    assert again(2) == Registered("face model", "2", "audited")
    assert again(0) == Registered("face model", "1", "")  # repeated late
    version = client.get_model_version_by_alias("face model", "audited")
    assert (version.version, version.run_id) == ("2", months[2][2])
    assert version.tags["scotoma.variants"] == "prune-0.9, int8-static"
    assert version.tags["scotoma.place"] == "run"
    assert len(client.search_model_versions("name = 'face model'")) == 2
    there = client.download_artifacts(version.run_id, "audit.json")
    assert read_json(Path(there))["examples"]["test"] == 502


def test_a_version_holds_the_models_of_dense_and_of_each_variant(
    mlflow: Any, months: list[tuple[Run, dict[str, Any], str]], server: str, tmp_path: Path
) -> None:
    run, gate, whole = months[0]
    version = register(run, gate, whole, "held", "audited", server).version
    client = mlflow.MlflowClient(tracking_uri=server, registry_uri=server)
    source = client.get_model_version_download_uri("held", version)
    artifacts = mlflow.tracking.artifact_utils.get_artifact_repository
    folder = Path(artifacts(source, tracking_uri=server).download_artifacts("", str(tmp_path)))
    found = {path.relative_to(folder).as_posix(): path.read_bytes()
             for path in folder.rglob("*") if path.is_file()}  # fmt: skip
    assert found == {
        f"{name}/{path.name}": path.read_bytes()
        for name in ("dense", "prune-0.9", "int8-static")
        for path in run.population(name).glob("member-*")
    }


def test_an_audit_in_object_storage_is_linked(
    mlflow: Any, months: list[tuple[Run, dict[str, Any], str]], server: str
) -> None:
    run, gate, whole = months[0]
    there = Run(run.root, run.config, "s3://bucket/run")
    version = register(there, gate, whole, "linked", "audited", server).version
    client = mlflow.MlflowClient(tracking_uri=server, registry_uri=server)
    source = client.get_model_version_download_uri("linked", version)
    assert source == "s3://bucket/run/populations"


def test_neither_predictions_nor_a_repeated_audit_make_a_version(
    months: list[tuple[Run, dict[str, Any], str]],
    client: Any,
    server: str,
    folder: Callable[..., Run],
    tmp_path: Path,
) -> None:
    _, gate, whole = months[0]
    bare = folder(tmp_path / "run", "bare")
    for name in ("dense", "prune-0.9", "int8-static"):
        path = bare.population(name) / "manifest.json"
        members = [{k: v for k, v in member.items() if k != "file"}
                   for member in read_json(path)["members"]]  # fmt: skip
        write_json(path, {"members": members})
    assert register(bare, gate, whole, "none", "a", server) == Registered("none", note=NO_MODELS)
    repeats = "nothing new: 2027-03 · PASS rests on the same inputs"
    again = register(months[0][0], gate, whole, "none", "a", server, repeats)
    assert again == Registered("none", note=repeats)
    assert client.search_model_versions("name = 'none'") == []


def test_unsure_is_not_registered(
    months: list[tuple[Run, dict[str, Any], str]], server: str
) -> None:
    run, gate, whole = months[1]
    unsure = gate | {"verdict": "UNSURE"}
    assert register(run, unsure, whole, "m", "a", server) == Registered("m")


@pytest.mark.parametrize(("model", "alias"), [("a/b:c", "audited"), ("other", "v3")])
def test_a_name_that_the_registry_refuses_is_said(
    months: list[tuple[Run, dict[str, Any], str]], server: str, model: str, alias: str
) -> None:
    found = register(*months[0], model, alias, server)
    assert not found.version
    assert found.reason.startswith(f"MLflow at {server} failed")
    assert found.reason.endswith("is not registered")


def test_the_previous_audit_is_the_newest_but_oneself(
    months: list[tuple[Run, dict[str, Any], str]], server: str, sqlite: str
) -> None:
    found = logged_previous("monthly", server)
    assert found is not None
    assert found[0] == months[2][2]
    assert found[1] == months[2][0].path("audit.json").read_bytes()
    before = logged_previous("monthly", server, file_digest(months[2][0].path("audit.json")))
    assert before is not None
    assert before[0] == months[1][2]
    assert logged_previous("of nobody", server) is None
    assert logged_previous("monthly", sqlite) is None


def test_an_audit_that_a_clock_ahead_of_this_one_logged_is_not_the_previous_one(
    months: list[tuple[Run, dict[str, Any], str]], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 3650 * 86400)
    assert logged_previous("monthly", server) is None


def test_the_pages_of_an_old_audit_go_and_its_numbers_stay(
    months: list[tuple[Run, dict[str, Any], str]], client: Any, server: str
) -> None:
    dense = months[0][2]
    for _ in range(2):  # what is gone is no fault
        assert forget_pages([dense], "2 MB deleted: beyond retraining.keep", server) == ""
        names = {found.path for found in client.list_artifacts(dense)}
        assert "report.html" not in names
        assert "audit.json" in names
    assert client.get_run(dense).data.tags[RETENTION] == "2 MB deleted: beyond retraining.keep"
    assert "report.html" in {found.path for found in client.list_artifacts(months[2][2])}
    assert forget_pages([dense], "x", "http://127.0.0.1:9").startswith("tracking server http://127")
