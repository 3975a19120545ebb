"""The first and the exit step of a run on Kubeflow: it begins from the pipeline, it may fail."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import load_config, parse_config
from scotoma.errors import ConfigError
from scotoma.run import Run
from scotoma.steps.kubeflow.failure import record_failure
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS
from tests.pipelines.test_client import CONFIG
from tests.pipelines.test_commands import RULES


@pytest.fixture
def place(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a run is to be, and a step `prepare` that leaves nothing."""
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    for name in ("prepare", "log"):
        step = types.ModuleType(f"made_up_{name}")
        setattr(step, name, lambda run: [])
        monkeypatch.setitem(sys.modules, step.__name__, step)
        monkeypatch.setitem(STEPS, name, replace(STEPS[name], module=step.__name__))
    return str(s3.uri("run"))


def kept(s3: Any, name: str) -> Any:
    return json.loads(s3.client.get_object(Bucket=s3.bucket, Key=f"run/{name}")["Body"].read())


def test_a_run_begins_with_what_the_pipeline_holds(s3: Any, place: str, tmp_path: Path) -> None:
    pointer = tmp_path / "pointer.json"
    execute("prepare", place, str(pointer), begin=(CONFIG, RULES))
    assert json.loads(pointer.read_text()) == {"files": {}, "run_uri": place}
    assert s3.names() == ["run/config.yaml", "run/judging.json", "run/logs/prepare.0.1.log"]
    run = Run.open(place)
    assert run.config == parse_config(CONFIG, "x")
    assert load_config(run.path("config.yaml")) == run.config
    assert [rule["id"] for rule in kept(s3, "judging.json")["rules"]["rules"]] == ["cie"]
    execute("prepare", place, str(pointer), begin=(CONFIG, ""))  # a retry, with the default rules
    assert kept(s3, "judging.json")["rules"] is None


def test_what_a_step_refuses_waits_where_the_run_is_until_one_succeeds(
    s3: Any, place: str, tmp_path: Path
) -> None:
    pointer = str(tmp_path / "pointer.json")
    execute("prepare", place, pointer, begin=(CONFIG, ""))
    with pytest.raises(ConfigError, match="belongs to another configuration"):
        execute(
            "prepare", place, pointer, begin=(CONFIG.replace("dense", "dense, {prune: [0.1]}"), "")
        )
    error = kept(s3, "error.json")
    assert error["exit_code"] == 2
    assert "belongs to another configuration" in error["message"]
    execute("log", place, pointer)
    assert "run/error.json" not in s3.names()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What MLflow would be told, and where."""
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "scotoma.tracking.audits.log_failure",
        lambda run, why, uri, *, cancelled, job: told.append((why, uri)) or "",
    )
    return told


@pytest.mark.parametrize(("uri", "logged"), [("http://mlflow:5000", 1), ("sqlite:///x.db", 0)])
def test_a_failed_audit_is_told_to_servers_alone(
    s3: Any,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    heard: list[tuple[str, str]],
    uri: str,
    logged: int,
) -> None:
    execute("prepare", place, str(tmp_path / "pointer.json"), begin=(CONFIG, ""))
    s3.put("run/error.json", json.dumps({"message": "no labels", "exit_code": 4}).encode())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    record_failure(place, "job-1", "FAILED", 1, CONFIG)
    assert heard == [("no labels", uri)] * logged
    assert kept(s3, "error.json") == {"message": "no labels", "exit_code": 4}


def test_an_audit_that_could_not_begin_says_so_where_it_was_to_be(
    s3: Any,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    heard: list[tuple[str, str]],
) -> None:
    """Kubeflow's driver died, or an image could not be pulled: no step has written anything."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    record_failure(place, "job-1", "FAILED", 1, CONFIG)
    ((why, _),) = heard
    assert why == (
        "the step prepare ended without saying why; see scotoma kubeflow logs job-1 --step "
        "prepare, then scotoma kubeflow submit --resume job-1"
    )
    assert kept(s3, "error.json") == {"message": why, "exit_code": 5}
    execute("prepare", place, str(tmp_path / "pointer.json"), begin=(CONFIG, ""))  # a retry
    assert "run/error.json" not in s3.names()


def test_a_step_that_sigterm_stops_says_so_and_can_be_repeated(
    s3: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes sends it to a pod that is deleted, and kills what has not ended 30 s later."""
    pointer = tmp_path / "pointer.json"
    execute("prepare", place, str(pointer), begin=(CONFIG, ""))
    pointer.unlink()
    program = (
        "import sys, time, types\n"
        "from scotoma.steps.runner import execute\n"
        "from scotoma.steps.table import STEPS, Step\n"
        "slow = types.ModuleType('slow')\n"
        "slow.bias = lambda run: print('works', flush=True) or time.sleep(60)\n"
        "sys.modules['slow'], STEPS['bias'] = slow, Step('bias', '', '', module='slow')\n"
        "execute('bias', *sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", program, place, str(pointer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as step:
        assert step.stdout is not None
        while b"works" not in step.stdout.readline():
            assert step.poll() is None
        step.send_signal(signal.SIGTERM)
        assert step.wait(20) == 128 + signal.SIGTERM
    assert not pointer.exists()
    assert kept(s3, "error.json") == {
        "exit_code": 5,
        "message": "the step bias was stopped by SIGTERM, most often because its pod was deleted "
        "or its node went away; what it finished is kept: retry the run, or submit it again",
    }
    execute("log", place, str(pointer))
    assert "run/error.json" not in s3.names()
