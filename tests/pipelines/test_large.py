"""An audit whose Workflow passes 1 MB, of whose steps Kubeflow then tells nothing more."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scotoma.config import Kubeflow, parse_config
from scotoma.errors import DataError
from scotoma.pipelines import client as kfp_client
from scotoma.pipelines import compile_pipeline
from scotoma.pipelines import wait as pipeline_wait
from scotoma.pipelines.nodes import shard_of
from scotoma.pipelines.progress import NAMES
from scotoma.steps.table import STEPS
from tests.helpers.commands import scotoma
from tests.kfp_server.argo import PULL_S
from tests.kfp_server.server import KfpServer
from tests.pipelines.test_client import client
from tests.pipelines.test_commands import leave_verdict, status_rows
from tests.pipelines.test_pending import kubernetes, pod, waiting

__all__ = ["kubernetes"]

CONFIG = """\
version: 1
project: large
source: {kind: image_folder, model: resnet18, images: "s3://b-1/images", recipe: {steps: 20},
         attributes: "s3://b-1/people.csv", split: {column: part, train: a, test: b}}
label: {column: smiling}
variants: [dense, {prune: [0.5]}, {int8: [static]}]
population: {models: 40}
kubeflow: {shards: 8}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    compile_pipeline(parse_config(CONFIG, "x"), path, kubeflow=Kubeflow(shards=8))
    return path


class World:
    """A run on Kubeflow whose steps write their logs while they work."""

    def __init__(self, kfp: KfpServer, s3: Any, run_id: str) -> None:
        self.kfp, self.s3, self.run_id = kfp, s3, run_id
        # The stand-in's clock is this machine's: what is to have happened lies before it.
        self.began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=3)
        kfp.store.runs[run_id]["created_at"] = f"{self.began:%Y-%m-%dT%H:%M:%SZ}"
        self.killed = ""  # the step whose first shard ends without a word
        self.logs: dict[str, str] = {}

    def steps(self) -> list[tuple[str, int, float, float]]:
        """Step, shard, begin and end in seconds of what its container does."""
        nodes = self.kfp.store.nodes(self.kfp.store.runs[self.run_id])
        pods = [
            (re.search(r"\.([a-z0-9-]+)\(0\)\.executor\(0\)$", node.name), node) for node in nodes
        ]
        return [
            (NAMES[found[1]], shard_of(node.name) or 0, node.start_s + PULL_S,
             node.end_s)
            for found, node in pods
            if found and found[1] in NAMES and found[1] != self.kfp.store.stuck
        ]  # fmt: skip

    def at(self, elapsed_s: float) -> None:
        """Let it be this many seconds after the begin."""
        self.kfp.store.elapsed_s = elapsed_s
        for step, shard, start_s, end_s in self.steps():
            text = ""
            if start_s <= elapsed_s:
                text = f"{self.time(start_s)} {step} begins, attempt 1\nat work\n"
            if end_s <= elapsed_s and (step, shard) != (self.killed, 0):
                text += f"{self.time(end_s)} {step} ended after {end_s - start_s:.1f} s\n"
            self.write(f"{step}.{shard}.1", text)

    def time(self, elapsed_s: float) -> str:
        return f"{self.began + datetime.timedelta(seconds=elapsed_s):%Y-%m-%dT%H:%M:%SZ}"

    def write(self, name: str, text: str) -> None:
        if text and self.logs.get(name) != text:
            self.s3.put(f"run/logs/{name}.log", text.encode())
            self.logs[name] = text

    def status(self) -> dict[str, str]:
        """The state of each step and shard."""
        return {row["step"]: row["state"] for row in status_rows(self.run_id)}


def label(step: str, shard: int) -> str:
    return f"{step} shard {shard}" if STEPS[step].sharded else step


@pytest.fixture(params=["emptied", "stale"])
def world(request: pytest.FixtureRequest, kfp: KfpServer, s3: Any, compiled: Path) -> World:
    kfp.store.stale = request.param == "stale"
    run = client().submit(compiled, leave_verdict(s3, "run", 0), "large", "large")
    return World(kfp, s3, run.run_id)


def told(world: World) -> int:
    """How many nodes Kubeflow tells of."""
    run = world.kfp.store.look(world.run_id)
    return len(run["run_details"].get("task_details", ()))


def test_status_follows_every_step_to_the_end(world: World) -> None:
    end_s = max(end_s for *_, end_s in world.steps())
    most = 0
    for elapsed_s in range(60, int(end_s) + 120, 60):
        world.at(float(elapsed_s))
        most = max(most, told(world))
        states = world.status()
        assert len(states) == 8 * 4 + 8
        for step, shard, start_s, end_s in world.steps():
            state = states[label(step, shard)]
            if end_s <= elapsed_s:
                assert state == "SUCCEEDED"
            elif start_s <= elapsed_s:
                assert state == "RUNNING"
            else:
                assert state in ("PENDING", "WAITING", "RUNNING")  # as Kubeflow told before
    assert {*states.values()} == {"SUCCEEDED"}
    assert told(world) == (most if world.kfp.store.stale else 0)
    assert most < 0.6 * len(world.kfp.store.nodes(world.kfp.store.runs[world.run_id]))


def test_wait_shows_every_step_and_ends_with_the_verdict(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    elapsed = iter(range(10, 100_000, 10))
    monkeypatch.setattr(pipeline_wait.time, "sleep", lambda _s: world.at(float(next(elapsed))))
    code, out, err = scotoma("kubeflow", "status", world.run_id, "--wait")
    assert (code, out) == (0, "# The verdict\n")
    lines = [tuple(line.split(maxsplit=1)) for line in err.splitlines()]
    for step in {step for step, *_ in world.steps()}:
        assert [state for name, state in lines if name == step and "RUNNING" in state], step
        last = [state for name, state in lines if name == step][-1]
        assert last.split()[-1] in ("SUCCEEDED", "RUNNING")  # the run ends with its last step


def test_logs_are_those_of_the_steps_at_work_until_none_is(world: World) -> None:
    steps = sorted(world.steps(), key=lambda step: step[2])
    for step, shard, start_s, end_s in (steps[-1], steps[len(steps) // 2]):
        world.logs.clear()
        for key in world.s3.names():
            if "/logs/" in key:
                world.s3.client.delete_object(Bucket=world.s3.bucket, Key=key)
        world.at((start_s + end_s) / 2)
        out = scotoma("kubeflow", "logs", world.run_id)[1]
        assert f"{step}.{shard}: at work\n" in out
        assert " ended after " not in out
    world.at(9999.0)
    code, _, err = scotoma("kubeflow", "logs", world.run_id)
    assert code == 2
    steps = [name for name in STEPS if name in {step for step, *_ in steps}]
    assert err.endswith(f"no step has failed; name one with --step: {', '.join(steps)}\n")


def test_a_step_that_is_killed_fails_with_its_run_and_runs_again(world: World) -> None:
    store = world.kfp.store
    store.outcome, store.failing = "FAILED", "quantize-int8"
    world.killed = "quantize"
    world.at(9999.0)
    code, out, err = scotoma("kubeflow", "status", world.run_id)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:2] == ["FAILED:", "large"]
    assert ["FAILED", "quantize", "shard", "0", "1"] in lines
    assert ["NOT", "RUN", "gather"] in lines
    assert err.startswith("the run failed at quantize shard 0; see scotoma kubeflow logs ")
    out = scotoma("kubeflow", "logs", world.run_id)[1]
    assert out.splitlines()[1:] == ["quantize.0: at work"]
    store.elapsed_s = store.nodes(store.runs[world.run_id])[0].end_s + 36
    assert scotoma("kubeflow", "submit", "--resume", world.run_id)[0] == 0
    now = datetime.datetime.now(datetime.UTC)
    world.write("quantize.0.2", f"{now:%Y-%m-%dT%H:%M:%SZ} quantize begins, attempt 2\nagain\n")
    lines = [line.split() for line in scotoma("kubeflow", "status", world.run_id)[1].splitlines()]
    (quantized,) = (line for line in lines if line[1:4] == ["quantize", "shard", "0"])
    assert quantized[0] == "RUNNING"
    assert quantized[-1] == "2"


def test_an_audit_that_mlflow_does_not_have_is_known_by_its_files(world: World) -> None:
    store = world.kfp.store
    store.outcome, store.failing = "FAILED", "log-tracking"
    world.at(9999.0)
    (log,) = (step for step in world.steps() if step[0] == "log")
    refused = "failed: the audit is complete but not logged: MLflow does not answer"
    world.write("log.0.1", f"{world.time(log[2])} log begins\n{world.time(log[3])} log {refused}\n")
    code, out, err = scotoma("kubeflow", "status", world.run_id, "--wait")
    assert (code, out) == (7, "# The verdict\n")
    assert "MLflow does not answer; scotoma kubeflow submit --resume" in err.splitlines()[-1]


def test_what_an_earlier_run_left_in_the_place_is_no_progress(world: World) -> None:
    world.kfp.store.elapsed_s = 5.0
    for step in ("prepare", "gather", "log"):
        world.write(f"{step}.0.1", f"{world.time(-3600)} {step} begins\n{world.time(-3000)} {step} "
                    "ended after 600.0 s\n")  # fmt: skip
    states = world.status()
    assert {states[step] for step in ("prepare", "gather", "log")} == {"WAITING"}
    assert scotoma("kubeflow", "logs", world.run_id, "--step", "gather")[1].count("\n") == 2


def test_storage_that_is_away_while_waiting_loses_no_progress(
    world: World, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elapsed, away = iter(range(60, 100_000, 40)), iter(range(1000))
    world.at(59.0)
    monkeypatch.setattr(kfp_client, "UNREAD_S", 0.0)
    tries_of = kfp_client.tries_of

    def some_fail(*words: Any) -> Any:
        if next(away) in (5, 6):
            raise DataError("the storage is away")
        return tries_of(*words)

    monkeypatch.setattr(kfp_client, "tries_of", some_fail)
    monkeypatch.setattr(pipeline_wait.time, "sleep", lambda _s: world.at(float(next(elapsed))))
    code, _, err = scotoma("kubeflow", "status", world.run_id, "--wait")
    assert code == 0
    assert err.count("the storage is away; so the steps may be further on than shown") == 1
    lines = [line.split(maxsplit=1) for line in err.splitlines()]
    assert [state for name, state in lines if name == "prepare"][-1] == "SUCCEEDED"
    assert len([state for name, state in lines if name == "prepare" if state == "SUCCEEDED"]) == 1


def test_a_step_that_never_starts_is_told_from_one_that_waits(
    world: World, kubernetes: Callable[..., None]
) -> None:
    world.kfp.store.stuck = "gather-shards"
    world.at(9999.0)
    code, out, err = scotoma("kubeflow", "status", world.run_id)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["WAITING", "report"] in lines
    if world.kfp.store.stale:
        return  # what Kubeflow told last is of other steps
    assert ["PENDING", "gather"] in lines
    assert err.startswith("gather has not started for ")
    kubernetes(pod("gather", **waiting("ImagePullBackOff")))
    err = scotoma("kubeflow", "status", world.run_id)[2]
    assert err.endswith(": ImagePullBackOff\n")


def test_the_progress_is_told_as_json(world: World) -> None:
    world.at(9999.0)
    run = json.loads(scotoma("kubeflow", "status", world.run_id, "--json")[1])
    assert {task["state"] for task in run["tasks"]} == {"SUCCEEDED"}
    trained = [task for task in run["tasks"] if task["name"] == "train"]
    assert [task["shard"] for task in trained] == list(range(8))
    assert {task["attempts"] for task in run["tasks"]} == {1}
    assert {task["seconds"] for task in trained} == {12.0}


@pytest.mark.parametrize("failed", [False, True])
def test_files_that_cannot_be_read_are_said_and_kubeflow_is_believed(
    world: World, monkeypatch: pytest.MonkeyPatch, failed: bool
) -> None:
    world.at(9999.0)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    world.kfp.store.outcome = "FAILED" if failed else "SUCCEEDED"
    if failed:
        world.kfp.store.failing = "decide-verdict"
        states = {row["step"]: row["state"] for row in status_rows(world.run_id)}
        assert (states["verdict"], states["log"]) == ("UNKNOWN", "UNKNOWN")
        return
    code, out, err = scotoma("kubeflow", "status", world.run_id)
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()[3:]} == {"SUCCEEDED"}  # as the run has
    assert "there are no credentials" in err
    assert err.endswith("so the steps may be further on than shown\n")
