"""`scotoma kubeflow`: submit, status, against the stand-in for Kubeflow."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scotoma.audit import as_text
from scotoma.config import parse_config
from scotoma.pipelines import faults
from scotoma.pipelines import wait as pipeline_wait
from tests.helpers.audits import gate_file
from tests.helpers.commands import scotoma
from tests.kfp_server.server import KfpServer

CONFIG = """\
version: 1
project: sent
source: {kind: digits-s, recipe: {steps: 20}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 12}
"""
RULES = "version: 1\nrules:\n- {id: cie, metric: cie_share_excess, max: 0.05}\n"
REFUSED = {"message": "source.data holds no train-*.parquet; correct it", "exit_code": 4}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(f"{CONFIG}kubeflow: {{shards: 2}}\n")  # small enough for Kubeflow to tell of
    return path


def leave_verdict(s3: Any, name: str, code: int) -> str:
    """What the steps of a run that has ended leave in its place."""
    s3.put(f"{name}/gate.json", as_text(gate_file({"exit_code": code})).encode())
    s3.put(f"{name}/summary.md", b"# The verdict\n")
    return str(s3.uri(name))


def submitted(config: Path, *arguments: str) -> str:
    code, out, err = scotoma("kubeflow", "submit", config, "--out", "s3://b-1/run", *arguments)
    assert code == 0, err
    return out.strip()


def status_rows(*words: str) -> list[dict[str, str]]:
    """The table of `scotoma kubeflow status`: steps of a run, or audits."""
    code, out, err = scotoma("kubeflow", "status", *words, "--csv")
    assert code == 0, err
    return list(csv.DictReader(io.StringIO(out)))


# --- submit --dry-run -----------------------------------------------------------------------------


def test_a_compiled_pipeline_holds_the_configuration_and_the_gate(
    config: Path, tmp_path: Path
) -> None:
    rules, out = tmp_path / "gate.yaml", tmp_path / "made" / "pipeline.yaml"
    rules.write_text(RULES)
    config.write_text(CONFIG)
    code, printed, err = scotoma(
        "kubeflow", "submit", config, "--dry-run", out, "--rules", rules, "--seed", "7"
    )
    assert (code, printed) == (0, "")
    wrote, size = err.splitlines()
    assert wrote.startswith(f"wrote {out};")
    assert size.startswith("size  143 nodes in Argo, about 1.2 MB; above 1.0 MB Kubeflow's page")
    text = out.read_text()
    ir, _ = yaml.safe_load_all(text)
    step = ir["components"]["comp-exit-handler-1"]["dag"]["tasks"]["prepare-data"]
    constants = {
        name: value["runtimeValue"]["constant"]
        for name, value in step["inputs"]["parameters"].items()
        if "runtimeValue" in value
    }
    assert constants["rules"] == RULES
    assert parse_config(constants["config"], "x").population.seed == 7


def test_a_gate_file_that_is_none_is_refused_here(config: Path, tmp_path: Path) -> None:
    rules, out = tmp_path / "gate.yaml", tmp_path / "x.yaml"
    rules.write_text("rules: 7\n")
    code, _, err = scotoma("kubeflow", "submit", config, "--dry-run", out, "--rules", rules)
    assert code == 2
    assert "gate.yaml:1" in err
    assert not out.exists()


# --- submit ---------------------------------------------------------------------------------------


def test_submit_prints_the_id_and_the_link(kfp: KfpServer, config: Path) -> None:
    code, out, err = scotoma("kubeflow", "submit", config, "--out", "s3://b-1/run")
    (run_id,) = kfp.store.runs
    assert (code, out) == (0, f"{run_id}\n")
    sent, size = err.splitlines()
    assert sent == f"sent    {kfp.address}/#/runs/details/{run_id}"
    assert size.startswith("size    ")
    (experiment,) = kfp.store.experiments.values()
    assert experiment["display_name"] == "sent"


def test_the_mlflow_plugin_is_asked_for_the_experiment_of_the_project(
    kfp: KfpServer, config: Path
) -> None:
    kfp.store.plugin = True
    code, out, err = scotoma("kubeflow", "submit", config, "--out", "s3://b-1/run")
    assert code == 0
    entries = kfp.store.runs[out.strip()]["plugins_output"]["mlflow"]["entries"]
    assert entries["experiment_name"]["value"] == "sent"
    assert err.splitlines()[2] == f"mlflow  {entries['run_url']['value']}"
    recorded = kfp.store.serve("run-with-mlflow-plugin")
    told = json.loads(scotoma("kubeflow", "status", recorded, "--json")[1])
    assert told["mlflow"] == entries["run_url"]["value"]
    without = kfp.store.serve("run-succeeded")  # a server that knows of no plugins, or has none
    assert json.loads(scotoma("kubeflow", "status", without, "--json")[1])["mlflow"] == ""


def test_json_has_all_that_is_known(kfp: KfpServer, config: Path) -> None:
    run = json.loads(submitted(config, "--json", "--quiet", "--experiment", "mine"))
    assert run["run_uri"] == "s3://b-1/run"
    assert run["state"] == "PENDING"
    assert run["link"].endswith(run["run_id"])
    (experiment,) = kfp.store.experiments.values()
    assert experiment["display_name"] == "mine"


@pytest.mark.parametrize("verdict", [0, 1, 3])
def test_wait_ends_with_the_code_of_the_verdict(
    kfp: KfpServer, config: Path, s3: Any, verdict: int
) -> None:
    place = leave_verdict(s3, "run", verdict)
    code, out, err = scotoma("kubeflow", "submit", config, "--out", place, "--wait")
    assert (code, out) == (verdict, "# The verdict\n")
    lines = err.splitlines()
    states = [(line.split()[0], line.split()[-1]) for line in lines[2:]]
    assert ("prune", "PENDING") in states
    assert ("train", "SUCCEEDED") in states
    assert len(lines) < 20


def test_wait_survives_a_server_that_is_away_for_a_while(
    kfp: KfpServer, config: Path, s3: Any
) -> None:
    place = leave_verdict(s3, "run", 0)
    for kind in (500, "truncated", 503):
        kfp.fail(kind, "GET .*runs/")
    code, out, _ = scotoma(
        "kubeflow", "submit", config, "--out", place, "--wait", "--json", "--quiet"
    )
    assert (code, json.loads(out)["exit_code"]) == (0, 0)


def test_waiting_that_ends_early_says_that_the_run_goes_on(
    kfp: KfpServer, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(config)
    monkeypatch.setattr(pipeline_wait, "OUTAGE_S", 0.2)
    kfp.store.looks, first = 1000, len(kfp.requests)
    monkeypatch.setattr(
        pipeline_wait.time, "sleep", lambda _s: kfp.fail(500, "GET .*runs/", times=100_000)
    )
    code, out, err = scotoma("kubeflow", "status", run_id, "--wait")
    assert (code, out) == (5, "")
    assert err.strip().endswith(f"the run continues: scotoma kubeflow status {run_id} --wait")
    assert err.count("; waiting for it, up to 0 minutes\n") == 1
    assert len(kfp.requests) - first > 2 * faults.ATTEMPTS


def test_a_step_that_refused_is_heard_with_its_own_sentence_and_code(
    kfp: KfpServer, config: Path, s3: Any
) -> None:
    s3.put("run/error.json", json.dumps(REFUSED).encode())
    kfp.store.outcome = "FAILED"
    code, out, err = scotoma("kubeflow", "submit", config, "--out", s3.uri("run"), "--wait")
    assert (code, out) == (4, "")
    assert err.splitlines()[-1] == f"scotoma: {REFUSED['message']}"


@pytest.mark.parametrize(("verdict", "code"), [(0, 7), (1, 7), (1, 5)])
def test_an_audit_that_mlflow_does_not_have_ends_with_a_code_of_its_own(
    kfp: KfpServer, config: Path, s3: Any, verdict: int, code: int
) -> None:
    """Also if its step was killed, or a fault of ours ended it."""
    kfp.store.outcome, kfp.store.failing = "FAILED", "log-tracking"
    why = "the audit is complete but not logged: MLflow at http://mlflow:5000 does not answer"
    message = why if code == 7 else why.partition(": ")[2]
    s3.put("run/error.json", json.dumps({"message": message, "exit_code": code}).encode())
    place = leave_verdict(s3, "run", verdict)
    ended, out, err = scotoma("kubeflow", "submit", config, "--out", place, "--wait")
    (run_id,) = kfp.store.runs
    note = f"{why}; scotoma kubeflow submit --resume {run_id} logs it"
    assert (ended, out, err.splitlines()[-1]) == (7, "# The verdict\n", note)
    assert scotoma("kubeflow", "status", run_id)[2] == f"{note}\n"
    gate = json.loads(scotoma("kubeflow", "status", run_id, "--wait", "--json", "--quiet")[1])
    assert gate["exit_code"] == verdict
    ended, out, _ = scotoma("kubeflow", "submit", "--resume", run_id, "--wait")
    assert (ended, out) == (verdict, "# The verdict\n")


def test_a_step_that_died_is_named_with_what_to_do(kfp: KfpServer, config: Path, s3: Any) -> None:
    kfp.store.outcome, kfp.store.failing = "FAILED", "prune-magnitude"
    code, _, err = scotoma("kubeflow", "submit", config, "--out", s3.uri("run"), "--wait")
    (run_id,) = kfp.store.runs
    assert code == 5
    assert err.splitlines()[-1] == (
        "scotoma: the run failed at prune shard 0; see scotoma kubeflow logs "
        f"{run_id}, then scotoma kubeflow submit --resume {run_id}"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--out", "runs/a"],
            "--out runs/a is not storage that all steps on Kubeflow share; give",
        ),
        (["--out", "/audits/a", "--wait"], "--wait cannot read a verdict in /audits/a, which is"),
        (["--out", "s3://b/a"], "must be s3://BUCKET/PREFIX with a bucket of letters"),
        (["--out", "gs://b-1/a"], "has the scheme gs://, which cannot be read"),
    ],
)
def test_a_place_that_cannot_be_shared_is_refused_before_anything_is_sent(
    kfp: KfpServer, config: Path, arguments: list[str], sentence: str
) -> None:
    if "/audits/a" in arguments:
        config.write_text(CONFIG + "kubeflow: {volume: {claim: audits}}\n")
    code, out, err = scotoma("kubeflow", "submit", config, *arguments)
    assert code in (2, 4)
    assert out == ""
    assert sentence in err
    assert kfp.requests == []


# --- status, submit --resume ----------------------------------------------------------------------


def test_status_has_a_line_a_step(kfp: KfpServer, config: Path) -> None:
    run_id = submitted(config)
    kfp.store.outcome = "FAILED"
    for _ in range(3):
        scotoma("kubeflow", "status", run_id)
    code, out, _ = scotoma("kubeflow", "status", run_id)
    title, _, head, *lines = out.splitlines()
    assert code == 0
    assert re.fullmatch(r"FAILED: sent [0-9a-f]{8} in s3://b-1/run", title)
    assert head.split() == ["state", "step", "time", "attempts"]
    assert lines[0].split() == ["SUCCEEDED", "prepare", "20", "s", "1"]
    assert lines[1].split() == ["FAILED", "train", "shard", "0", "20", "s", "1"]
    states = {row["step"]: row["state"] for row in status_rows(run_id)}
    assert (states["prune shard 0"], states["slices"]) == ("NOT RUN", "NOT RUN")
    assert "record-failure" not in states  # it has done its part
    assert json.loads(scotoma("kubeflow", "status", run_id, "--json")[1])["state"] == "FAILED"


def test_a_run_that_failed_is_retried_and_waited_for(kfp: KfpServer, config: Path, s3: Any) -> None:
    place = leave_verdict(s3, "run", 1)
    kfp.store.outcome = "FAILED"
    scotoma("kubeflow", "submit", config, "--out", place, "--wait")
    (run_id,) = kfp.store.runs
    kfp.fail("lost", ":retry")
    code, out, _ = scotoma("kubeflow", "submit", "--resume", run_id, "--wait")
    assert (code, out) == (1, "# The verdict\n")
    code, _, err = scotoma("kubeflow", "submit", "--resume", run_id)
    assert code == 2
    assert "(HTTP 409: Workflow must be Failed/Error to retry); see scotoma kubeflow status" in err
