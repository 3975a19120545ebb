"""What MLflow holds after an audit, read back through MLflow's own client."""

from __future__ import annotations

import http.server
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scotoma.config import parse_config
from scotoma.runs import Run, write_json
from scotoma.tracking import log_audit, metric_names, tracking_uri
from scotoma.uncertainty import Estimate, undefined

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ["dense", "prune-0.9", "int8-static"]
DATASET = "d" * 64

CONFIG = """\
version: 1
project: {project}
label: {{column: digit, positive: 1}}
variants: [dense, {{prune: [0.9]}}, {{int8: [static]}}]
population: {{models: 2, seed: 7}}
source: {{kind: digits-s, recipe: {{steps: 40}}}}
{tracking}
"""


def estimate(value: float, se: float, n: int = 500) -> dict[str, Any]:
    return Estimate.on_scale(value, se, 9.0, n=n, members=2).as_dict()


def change(group: str, metric: str, value: float, of_class: str | None = None) -> dict[str, Any]:
    return {
        "group": group,
        "metric": metric,
        "class": of_class,
        "dense": estimate(0.1, 0.01),
        "compressed": estimate(0.2, 0.01),
        "relative": estimate(value, 2.0),
        "absolute": estimate(0.1, 0.01),
    }


def contrast(attribute: str, low: str, high: str, value: float) -> dict[str, Any]:
    gap = estimate(value, 0.01)
    return {
        "attribute": attribute, "group_a": low, "group_b": high, "metric": "error", "gap": gap
    }  # fmt: skip


def an_audit(run: Run) -> dict[str, Any]:
    """The parts of an audit.json that are logged, every number another."""
    compressed = VARIANTS[1:]
    return {
        "version": 1,
        "project": run.config.project,
        "config_sha256": run.config.digest(),
        "seed": 7,
        "examples": {"train": 1000, "test": 500, "units": 250, "dataset_sha256": DATASET},
        "groups": [],
        "variants": [
            {
                "name": variant.name,
                "kind": variant.kind,
                "sparsity": variant.sparsity,
                "mode": variant.mode,
                "bits": variant.bits,
                "paired": variant.paired,
                "members": 2,
            }
            for variant in run.config.resolved_variants
        ],
        "accuracy": {
            name: {
                "top1": estimate(0.9 - 0.1 * k, 0.01 + k / 100),
                "members": [0.91 - k / 10, 0.92 - k / 10],
            }
            for k, name in enumerate(VARIANTS)
        },
        "divergence": {
            name: {
                "cie": {
                    "n": 500,
                    "cie": {"count": 55 + k, "low": 50, "high": 60, "ties": 10},
                    "cie_share": estimate(0.11 + k / 100, 0.01),
                    "excess": estimate(0.06 + k / 100, 0.01),
                    "floor_at_k": estimate(0.05, 0.01),
                },
                "flips": None,
            }
            for k, name in enumerate(compressed)
        },
        "subgroups": {
            name: [
                change("all", "error", 990.0),
                change("sex.male", "error", 40.0 + k),
                change("sex.male & age.old", "error", 70.0 + k),
                change("sex.male", "fpr", 77.0, "0"),
                change("sex.male", "fpr", -5.0, "1"),
                change("sex.male", "fnr", 8.0),
            ]
            for k, name in enumerate(compressed)
        },
        "gaps": {
            name: [
                contrast("sex", "sex.female", "sex.male", 0.03),
                contrast("age", "the rest", "age.old", 0.04),
                contrast("age", "the rest", "age.young", -0.02),
            ]
            for name in compressed
        },
    }


def a_run(root: Path, project: str, tracking: str = "") -> Run:
    """A folder as the pipeline leaves it, with what logging reads."""
    run = Run.create(root, parse_config(CONFIG.format(project=project, tracking=tracking), "test"))
    for name in VARIANTS:
        members = []
        for index in range(2):
            member: dict[str, Any] = {
                "index": index,
                "seed": 2**63 + index,
                "sha256": f"{name}-{index}".encode().hex(),
            }
            if name == "int8-static":
                member["paired_with"] = {"variant": "dense", "sha256": f"dense-{index}"}
            else:
                member["recipe"] = run.config.source.recipe.model_dump(mode="json")
                member["loss"] = [2.0, 1.0 + index, 0.5]
            members.append(member)
        write_json(run.population(name) / "manifest.json", {"members": members})
    run.path("report.html").write_text("<p>the report</p>")
    write_json(run.path("audit.json"), an_audit(run))
    return run


@pytest.fixture(scope="module")
def mlflow() -> Any:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow
    return mlflow


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module", autouse=True)
def starting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real MLflow server of two processes; it takes seconds to come up, tests run meanwhile."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{folder}/server.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    environment = os.environ | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process, address, folder / "log"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def server(starting: Any) -> str:
    """Its address, once it answers."""
    process, address, log = starting
    deadline = time.monotonic() + 60
    while not answers(f"{address}/health"):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return str(address)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('a store')}/mlflow.db"


@pytest.fixture(scope="module", params=["sqlite", "server"])
def logged(
    request: pytest.FixtureRequest, mlflow: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """One audit in each kind of store, and how to read it."""
    uri = request.getfixturevalue(request.param)
    run = a_run(tmp_path_factory.mktemp("logged") / "run", "read back")
    audit = an_audit(run)
    return log_audit(run, audit, uri), mlflow.MlflowClient(tracking_uri=uri), audit, uri, run


def runs_of(client: Any, experiment: str) -> list[Any]:
    """The runs as the page lists them: the last one started first."""
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id], order_by=["start_time DESC"]))


def test_there_is_one_flat_run_a_variant_and_dense_is_listed_first(logged: Any) -> None:
    tracked, client, _, _, _ = logged
    found = runs_of(client, "read back")
    assert tracked.reason == ""
    assert [run.info.run_name for run in found] == VARIANTS
    assert tracked.runs == {run.info.run_name: run.info.run_id for run in found}
    assert {run.info.status for run in found} == {"FINISHED"}
    assert not [run for run in found if "mlflow.parentRunId" in run.data.tags]


def test_numbers_are_metrics_named_by_section(logged: Any) -> None:
    tracked, client, _, _, _ = logged
    assert client.get_run(tracked.runs["prune-0.9"]).data.metrics == {
        "1_quality/top1": 0.8,
        "2_cie/share": 0.11,
        "2_cie/count": 55,
        "2_cie/excess": 0.06,
        "3_worst/error": 70.0,
        "3_worst/fpr": -5.0,
        "3_worst/fnr": 8.0,
        "amp_error/all": 990.0,
        "amp_error/sex.male": 40.0,
        "amp_error/sex.male_and_age.old": 70.0,
        "amp_fpr/sex.male": -5.0,
        "amp_fnr/sex.male": 8.0,
        "gap/sex": 0.03,
        "gap/age.old": 0.04,
        "gap/age.young": -0.02,
    }
    assert client.get_run(tracked.runs["dense"]).data.metrics == {"1_quality/top1": 0.9}


def test_parameters_are_numbers_that_can_be_compared(logged: Any) -> None:
    tracked, client, _, _, _ = logged
    params = client.get_run(tracked.runs["int8-static"]).data.params
    assert params["recipe.steps"] == "40"
    assert {k: v for k, v in params.items() if not k.startswith("recipe.")} == {
        "sparsity": "0.0",
        "bits": "8",
        "n_models": "2",
        "seed": "7",
        "kind": "int8",
        "paired": "true",
    }
    assert float(client.get_run(tracked.runs["prune-0.9"]).data.params["sparsity"]) == 0.9


def test_tags_say_what_a_number_rests_on(logged: Any) -> None:
    tracked, client, audit, _, run = logged
    tags = client.get_run(tracked.runs["prune-0.9"]).data.tags
    assert tags["scotoma.audit"] == run.config.digest()
    assert tags["scotoma.variant"] == "prune-0.9"
    top1 = audit["accuracy"]["prune-0.9"]["top1"]
    assert tags["interval/1_quality/top1"] == f"[{top1['low']:.6g}, {top1['high']:.6g}] n=500"
    assert tags["interval/2_cie/count"] == "[50, 60] n=500: the range over 10 ties"
    assert tags["group/3_worst/error"] == "sex.male & age.old"
    assert tags["group/sex.male_and_age.old"] == "sex.male & age.old"
    assert tags["group/gap/sex"] == "sex.male against sex.female"


def test_both_splits_are_inputs_with_their_digest(logged: Any) -> None:
    tracked, client, _, _, _ = logged
    for run_id in tracked.runs.values():
        inputs = client.get_run(run_id).inputs.dataset_inputs
        assert {(i.dataset.name, i.dataset.digest, i.tags[0].value) for i in inputs} == {
            ("read back train", DATASET[:32], "train"),
            ("read back test", DATASET[:32], "test"),
        }
        assert all(DATASET in i.dataset.source for i in inputs)


def test_every_variant_run_carries_the_report(logged: Any, tmp_path: Path) -> None:
    tracked, client, _, _, run = logged
    for name, run_id in tracked.runs.items():
        names = {artifact.path for artifact in client.list_artifacts(run_id)}
        assert names == {"report.html", "audit.json", "config.yaml"}
        found = client.download_artifacts(run_id, "report.html", str(tmp_path))
        assert Path(found).read_bytes() == run.path("report.html").read_bytes(), name


def test_there_is_one_run_a_member_with_its_loss_curve(logged: Any) -> None:
    _, client, _, _, _ = logged
    found = {run.info.run_name: run for run in runs_of(client, "read back.models")}
    assert sorted(found) == sorted(f"{name}-{k:03d}" for name in VARIANTS for k in range(2))
    second = found["prune-0.9-001"]
    assert second.data.metrics["top1"] == pytest.approx(0.82, abs=1e-12)
    # 40 steps, a point for each tenth: at 4, 8 and 12.
    curve = client.get_metric_history(second.info.run_id, "loss")
    assert [(point.step, point.value) for point in curve] == [(4, 2.0), (8, 2.0), (12, 0.5)]
    assert second.data.params["seed"] == str(2**63 + 1)
    assert second.data.params["sparsity"] == "0.9"
    assert second.data.params["recipe.steps"] == "40"
    assert second.data.tags["scotoma.variant"] == "prune-0.9"
    assert second.data.tags["scotoma.member"] == "1"
    assert second.data.tags["scotoma.dataset"] == DATASET
    assert found["int8-static-001"].data.tags["scotoma.paired_with"] == "dense-1"
    assert found["int8-static-001"].data.params["bits"] == "8"
    assert "loss" not in found["int8-static-001"].data.metrics


def test_a_repeated_call_adds_nothing(logged: Any) -> None:
    tracked, client, audit, uri, run = logged
    assert log_audit(run, audit, uri) == tracked
    assert len(runs_of(client, "read back")) == 3
    assert len(runs_of(client, "read back.models")) == 6


def test_the_link_shows_the_variants_of_this_audit(logged: Any) -> None:
    tracked, client, _, uri, _ = logged
    if uri.startswith("sqlite"):
        assert tracked.link == f"mlflow ui --backend-store-uri '{uri}'"  # its folder has a space
        return
    fragment = urlsplit(urlsplit(tracked.link).fragment)
    experiment = client.get_experiment_by_name("read back").experiment_id
    assert tracked.link.startswith(f"{uri}/#/experiments/{experiment}/runs?searchFilter=")
    query = {name: values[0] for name, values in parse_qs(fragment.query).items()}
    assert (query["startTime"], query["compareRunsMode"]) == ("ALL", "CHART")
    assert query["orderByKey"] == "attributes.start_time"
    found = client.search_runs([experiment], query["searchFilter"])
    assert {run.info.run_id for run in found} == set(tracked.runs.values())


def test_a_run_that_an_interrupted_call_left_is_replaced(
    mlflow: Any, sqlite: str, tmp_path: Path
) -> None:
    run = a_run(tmp_path / "run", "interrupted")
    client, first = mlflow.MlflowClient(tracking_uri=sqlite), log_audit(run, an_audit(run), sqlite)
    client.set_terminated(first.runs["prune-0.9"], "RUNNING")
    second = log_audit(run, an_audit(run), sqlite)
    assert {name for name in VARIANTS if first.runs[name] != second.runs[name]} == {"prune-0.9"}
    assert {r.info.run_id for r in runs_of(client, "interrupted")} == set(second.runs.values())
    assert len(runs_of(client, "interrupted.models")) == 6


def test_a_store_that_fails_half_way_is_a_reason_and_made_good_by_repeating(
    mlflow: Any, sqlite: str, tmp_path: Path
) -> None:
    run = a_run(tmp_path / "run", "half way")
    in_the_way = Path(sqlite.removeprefix("sqlite:///")).parent / "mlartifacts" / "half way"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file where a folder has to be")
    broken = log_audit(run, an_audit(run), sqlite)
    assert broken.reason.startswith(f"MLflow at {sqlite} failed (")
    assert "; 0 of 9 runs were logged" in broken.reason
    in_the_way.unlink()
    mended = log_audit(run, an_audit(run), sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    assert mended.reason == ""
    assert [r.info.run_id for r in runs_of(client, "half way")] == [
        mended.runs[name] for name in VARIANTS
    ]


def test_another_result_of_one_configuration_is_logged_beside_the_first(
    mlflow: Any, sqlite: str, tmp_path: Path
) -> None:
    run = a_run(tmp_path / "run", "twice")
    audit = an_audit(run)
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


def test_what_is_undefined_is_a_tag_with_its_reason_and_no_metric(
    mlflow: Any, sqlite: str, tmp_path: Path
) -> None:
    run = a_run(tmp_path / "run", "undefined")
    audit = an_audit(run)
    reason = "undefined (no positives in group 'men\x00')"
    audit["divergence"]["prune-0.9"]["cie"]["excess"] = undefined(reason, n=0, members=2).as_dict()
    audit["accuracy"]["prune-0.9"]["members"][0] = None
    for row in audit["subgroups"]["prune-0.9"]:
        row["relative"] = estimate(float("inf"), 1.0) | {"low": None, "high": None}
    one = undefined("one training run: says nothing about the next one", value=0.1, n=9, members=1)
    audit["gaps"]["prune-0.9"][0]["gap"] = one.as_dict()
    tracked = log_audit(run, audit, sqlite)
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    found = client.get_run(tracked.runs["prune-0.9"]).data
    assert set(found.metrics) == {
        *("1_quality/top1", "2_cie/share", "2_cie/count"),
        *("gap/sex", "gap/age.old", "gap/age.young"),
    }
    assert found.tags["undefined/2_cie/excess"] == "undefined (no positives in group 'men ')"
    assert found.tags["undefined/amp_error/sex.male"] == "undefined (inf)"
    assert found.tags["undefined/3_worst/error"] == "undefined (no group has a defined change)"
    assert found.tags["interval/gap/sex"] == (
        "none, n=9: one training run: says nothing about the next one"
    )
    (member,) = (
        r for r in runs_of(client, "undefined.models") if r.info.run_name == "prune-0.9-000"
    )
    assert "top1" not in member.data.metrics
    assert member.data.tags["undefined/top1"] == "undefined (None)"


def test_hostile_group_names_stay_apart_and_stay_text(
    mlflow: Any, server: str, tmp_path: Path
) -> None:
    run = a_run(tmp_path / "run", "hostile")
    audit = an_audit(run)
    hostile = [
        "a.<script>alert(1)</script>",
        "a./../../etc",
        "a.b'; DROP TABLE runs;--",
        "a.x\x00\x1b[31m\u202e\ud800",
        "a.[x](http://x.example)|`y`\n# h",
        "..",
        "性別.男",
        "性別.女",
        "a." + "long" * 200,
        "A.X",
        "a.x",
        "a.x_and_b.y",
        "a.x & b.y",
    ]
    rows = [change(key, "error", 10.0 + k) for k, key in enumerate(hostile)]
    rows[4]["relative"]["value"] = 99.0
    audit["subgroups"]["prune-0.9"] = rows
    tracked = log_audit(run, audit, server)
    assert tracked.reason == ""
    found = mlflow.MlflowClient(tracking_uri=server).get_run(tracked.runs["prune-0.9"]).data
    metrics = {k: v for k, v in found.metrics.items() if k.startswith("amp_error/")}
    assert sorted(metrics.values()) == sorted(row["relative"]["value"] for row in rows)
    assert all(re.fullmatch(r"amp_error/[A-Za-z0-9_.-]+", name) for name in metrics)
    assert found.tags["group/3_worst/error"] == "a.[x](http://x.example)|`y` # h"
    note = found.tags["mlflow.note.content"]
    assert not re.search(r"[<>\[\]|`\x00-\x09]", note.replace("[", "", 4).replace("]", "", 4))
    assert "&#91;x&#93;&#40;http&#58;" in note


@given(st.lists(st.text(max_size=300)))
@example(["a", "A", "a ", "a & b", "a_and_b", "", ".", "a.0123456789ab", "x" * 101, "x" * 102])
def test_metric_names_are_legal_and_as_many_as_the_keys(keys: list[str]) -> None:
    names = metric_names(keys)
    assert set(names) == set(keys)
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert all(
        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) and len(name) <= 100
        for name in names.values()
    )


def test_a_key_that_is_the_name_of_another_gets_a_name_of_its_own() -> None:
    taken = metric_names(["sex.m/f"])["sex.m/f"]
    assert len(set(metric_names(["sex.m/f", taken]).values())) == 2


def test_a_thousand_groups_fit(mlflow: Any, sqlite: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "thousand")
    audit = an_audit(run)
    rows = [change(f"city.{k}", "error", float(k)) for k in range(1000)]
    audit["subgroups"]["prune-0.9"] = rows
    tracked = log_audit(run, audit, sqlite)
    found = mlflow.MlflowClient(tracking_uri=sqlite).get_run(tracked.runs["prune-0.9"]).data
    assert found.metrics["amp_error/city.999"] == 999.0
    assert sum(name.startswith("amp_error/") for name in found.metrics) == 1000


def test_a_closed_port_is_a_reason_within_seconds(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "dead")
    port = free_port()
    began = time.monotonic()
    tracked = log_audit(run, an_audit(run), f"http://anna:s3cr/et@127.0.0.1:{port}")
    bare = log_audit(run, an_audit(run), f"http://anna:s3cret@127.0.0.1:{port}")
    assert time.monotonic() - began < 12
    assert bare.reason == (
        f"tracking server http://***@127.0.0.1:{port} does not answer (Connection refused); 0 of 9 "
        "runs were logged, the audit itself is complete: repeat the command to log it"
    )
    assert (bare.runs, bare.link) == ({}, "")
    assert "s3cr" not in str(tracked)


def test_a_server_that_refuses_is_a_reason_without_credentials(tmp_path: Path) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b"see http://anna:s3cret@host and wait" + b"!" * 3000)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        run = a_run(tmp_path / "run", "refused")
        host = f"127.0.0.1:{refusing.server_port}"
        tracked = log_audit(run, an_audit(run), f"http://anna:s3cret@{host}")
        refusing.shutdown()
    assert tracked.reason.startswith(f"MLflow at http://***@{host} failed (")
    assert "403" in tracked.reason
    assert "s3cret" not in str(tracked)
    assert len(tracked.reason) < 600


def test_a_deleted_experiment_is_a_reason(mlflow: Any, sqlite: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "deleted")
    client = mlflow.MlflowClient(tracking_uri=sqlite)
    client.delete_experiment(client.create_experiment("deleted"))
    assert log_audit(run, an_audit(run), sqlite).reason == (
        "MLflow experiment deleted was deleted; restore it, or change `project`"
    )


def test_a_missing_mlflow_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    run = a_run(tmp_path / "run", "missing")
    tracked = log_audit(run, an_audit(run), f"sqlite:///{tmp_path}/mlflow.db")
    assert tracked.reason == "tracking needs mlflow; pip install 'scotoma[tracking]'"
    assert not (tmp_path / "mlflow.db").exists()


def test_a_path_that_a_database_uri_cannot_hold_is_a_reason(tmp_path: Path) -> None:
    run = a_run(tmp_path / "50%41" / "run", "per cent")
    tracked = log_audit(run, an_audit(run), str(tracking_uri(run, {})))
    assert "has % in the path" in tracked.reason
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == []


def test_a_call_leaves_the_process_as_it_was(sqlite: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "clean")
    before, disabled = dict(os.environ), logging.root.manager.disable
    log_audit(run, an_audit(run), sqlite)
    assert (dict(os.environ), logging.root.manager.disable) == (before, disabled)


def test_a_new_store_is_made_in_silence_and_without_a_connection(tmp_path: Path) -> None:
    """In a process of its own, where MLflow does not know that it is tested."""
    run = a_run(tmp_path / "run", "silent")
    script = (
        "import json, socket, sys; from pathlib import Path\n"
        "def refuse(*arguments): sys.stdout.write(f'connects: {arguments}'); raise OSError\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
        "from scotoma.runs import Run; from scotoma.tracking import log_audit, tracking_uri\n"
        "run = Run.open(Path(sys.argv[1]))\n"
        "audit = json.loads(run.path('audit.json').read_text())\n"
        "tracked = log_audit(run, audit, tracking_uri(run, {}))\n"
        "assert not tracked.reason, tracked.reason\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "GITHUB_ACTIONS", "MLFLOW_DISABLE_TELEMETRY", "PYTEST_CURRENT_TEST")
    }
    done = subprocess.run(
        [sys.executable, "-c", script, str(run.root)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
    reports = (tmp_path / "mlartifacts" / "silent").rglob("report.html")
    assert len(list(reports)) == 3


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
    configured: str, environment: dict[str, str], expected: str | None, tmp_path: Path
) -> None:
    tracking = f"tracking: {{uri: '{configured}'}}" if configured else ""
    run = Run(tmp_path / "run", parse_config(CONFIG.format(project="p", tracking=tracking), "test"))
    wanted = expected.format(parent=tmp_path) if expected else None
    assert tracking_uri(run, environment) == wanted
