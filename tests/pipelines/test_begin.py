"""The first and the last step of a run on a cluster: it begins from the pipeline, it may fail."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import load_config, parse_config
from scotoma.errors import ConfigError
from scotoma.run import Run
from scotoma.stages import execute
from scotoma.stages.log import UNKNOWN
from scotoma.stages.steps import STEPS, Step
from tests.pipelines.test_cluster import CONFIG
from tests.pipelines.test_commands import RULES


@pytest.fixture
def place(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a run is to be, and a step `prepare` that leaves nothing."""
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    for name in ("prepare", "log"):
        step = types.ModuleType(f"made_up_{name}")
        setattr(step, name, lambda run: [])
        monkeypatch.setitem(sys.modules, step.__name__, step)
        monkeypatch.setitem(STEPS, name, Step(name, "", "", module=step.__name__))
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
        execute("prepare", place, pointer, begin=(CONFIG.replace("sent", "other"), ""))
    error = kept(s3, "error.json")
    assert error["exit_code"] == 2
    assert "belongs to another configuration" in error["message"]
    execute("log", place, pointer, ended="SUCCEEDED")
    assert "run/error.json" not in s3.names()


@pytest.mark.parametrize(("uri", "logged"), [("http://mlflow:5000", 1), ("sqlite:///x.db", 0)])
def test_a_failed_audit_is_told_to_servers_alone(
    s3: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, logged: int
) -> None:
    pointer, heard = str(tmp_path / "pointer.json"), []
    execute("prepare", place, pointer, begin=(CONFIG, ""))
    s3.put("run/error.json", json.dumps({"message": "no labels", "exit_code": 4}).encode())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr(
        "scotoma.tracking.log_failure", lambda run, why, uri: heard.append((why, uri)) or ""
    )
    execute("log", place, pointer, ended="FAILED")
    assert heard == [("no labels", uri)] * logged
    assert UNKNOWN not in str(heard)
