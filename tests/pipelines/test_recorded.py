"""The stand-in answers with the keys, states and names that Kubeflow 2.17.0 was recorded with."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scotoma.pipelines.client import KfpClient
from tests.kfp_server.argo import hook_state
from tests.kfp_server.server import BASE, KfpServer
from tests.kfp_server.store import Store, recorded
from tests.pipelines.test_client import client, definition, sent

__all__ = ["definition"]

OPEN = {"parameters", "entries"}  # their keys are the user's, or a plugin's


def answer(kfp: KfpServer, path: str, method: str = "GET") -> tuple[int, Any]:
    """A status and a body, without the client."""
    request = urllib.request.Request(f"{kfp.address}{BASE}/{path}", method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def keys(value: Any, path: str = "") -> Iterator[str]:
    """The path of every key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            if key not in OPEN:
                yield from keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{path}[]")


def shapes(run: dict[str, Any]) -> set[tuple[Any, ...]]:
    """What tasks look like: their keys, their state, whether they have ended or never began."""
    return {
        (
            frozenset(task),
            task.get("state"),
            task["end_time"].startswith("0001"),
            len(task["state_history"]) == 1 and "state" not in task["state_history"][0],
        )
        for task in run["run_details"]["task_details"]
    }


def kinds(run: dict[str, Any]) -> set[str]:
    """The names of tasks, without numbers and without the names of steps."""
    steps = r"(?<![\w-])(?!root|iteration|executor|exit|for-loop)[a-z]+-[a-z0-9]+(?=[-(]|$)"
    names = (task["display_name"] for task in run["run_details"]["task_details"])
    named = (re.sub(r"scotoma-audit-\w+", "WORKFLOW", name) for name in names)
    return {re.sub(r"\d+", "0", re.sub(steps, "STEP", name)) for name in named}


def situation(kfp: KfpServer, definition: Path, name: str) -> dict[str, Any]:
    """A run of the stand-in that is where a recorded one was."""
    store = kfp.store
    failed = ("run-step-failing", "run-failed", "run-retried")
    store.outcome = "FAILED" if name in failed else "SUCCEEDED"
    store.stuck = "prepare-data" if name == "run-pod-cannot-start" else ""
    store.plugin = name == "run-with-mlflow-plugin"
    run_id = sent(definition).run_id
    if name == "run-canceled":  # while the second shard waits for the first
        store.elapsed_s = starts(store, run_id, "", "train-dense(0).executor(0)") + 2
        store.look(run_id)
        store.terminate(run_id)
    if name == "run-step-failing":
        store.elapsed_s = starts(store, run_id, ".onExit", "executor(0)") + 6
    else:
        store.elapsed_s = {"run-running": 16.0, "run-pod-cannot-start": 600.0}.get(name, 9999.0)
    if name == "run-retried":
        answer(kfp, f"runs/{run_id}")
        store.retry(run_id)
    status, run = answer(kfp, f"runs/{run_id}")
    assert status == 200
    assert isinstance(run, dict)
    return run


def starts(store: Store, run_id: str, part: str, end: str) -> float:
    """The second in which a node begins, by a part and the end of its full name."""
    nodes = store.nodes(store.runs[run_id])
    return next(n.start_s for n in nodes if part in n.name and n.name.endswith(end))


@pytest.mark.parametrize(
    "name",
    [
        "run-running", "run-succeeded", "run-training-succeeded", "run-step-failing", "run-failed",
        "run-retried", "run-canceled", "run-pod-cannot-start", "run-with-mlflow-plugin",
    ],
)  # fmt: skip
def test_a_run_has_the_keys_and_states_of_the_recorded_one(
    kfp: KfpServer, definition: Path, name: str
) -> None:
    told, real = situation(kfp, definition, name), recorded(name)
    assert set(keys(told)) == set(keys(real))
    assert told["state"] == real["state"]
    if name == "run-with-mlflow-plugin":  # three of its tasks were recorded
        return
    assert shapes(told) == shapes(real)
    if name != "run-running":  # how far it is differs
        assert kinds(told) == kinds(real)
    states = [entry.get("state") for entry in told["state_history"]]
    assert states == [entry["state"] for entry in real["state_history"] if "state" in entry]
    assert (told["finished_at"] < "1971") == (real["finished_at"] < "1971")


def test_lists_and_schedules_have_the_keys_of_the_recorded_ones(
    kfp: KfpServer, definition: Path
) -> None:
    store, cluster = kfp.store, client()
    ids = [sent(definition).run_id for _ in range(3)]
    for run_id in ids:
        store.look(run_id)
    store.schedule(recorded("recurringrun") | _of_first(kfp))
    (schedule,) = store.recurring
    for path, name in {
        "runs?page_size=2": "runs",
        "pipelines?page_size=2": "pipelines",
        "experiments?page_size=8": "experiments",
        "recurringruns": "recurringruns",
        f"recurringruns/{schedule}": "recurringrun",
    }.items():
        status, told = answer(kfp, path)
        real = set(keys(recorded(name)))
        if name == "experiments":
            real.remove(".experiments[].description")  # of the one that Kubeflow makes itself
        assert (status, set(keys(told))) == (200, real), name
    first = answer(kfp, "runs?page_size=2")[1]
    last = answer(kfp, f"runs?page_size=2&page_token={first['next_page_token']}")[1]
    assert [run["run_id"] for run in first["runs"] + last["runs"]] == ids
    assert cluster.endpoint == kfp.address


def _of_first(kfp: KfpServer) -> dict[str, Any]:
    """What of a schedule names other things of the server."""
    (version, *_), (experiment, *_) = kfp.store.versions.values(), kfp.store.experiments
    reference = {key: version[key] for key in ("pipeline_id", "pipeline_version_id")}
    return {"pipeline_version_reference": reference, "experiment_id": experiment}


@pytest.mark.parametrize("request_", recorded("errors"))
def test_a_refusal_has_the_status_and_the_words_of_the_recorded_one(
    kfp: KfpServer, definition: Path, request_: str
) -> None:
    real = recorded("errors")[request_]
    method, path = request_.split()
    run_id = sent(definition).run_id
    kfp.store.look(run_id)
    if "SUCCEEDED" in path:
        kfp.store.elapsed_s = 9999.0
        kfp.store.look(run_id)
    if "GONE" in path:
        kfp.store.gone.add(run_id)
    path = re.sub(r"[A-Z_]{4,}", run_id, path)
    status, body = answer(kfp, path, method)
    assert status == real["status"]

    def plain(value: Any) -> str:
        """Without ids, and without what Go says of a syntax error."""
        text = re.sub(r"[0-9a-f]{8}-[\w-]{27}|scotoma-audit-\w+", "ID", json.dumps(value))
        text = text.replace(" after multiple retries: Failed to terminate workflow ID due to "
                            "patching error", "")  # fmt: skip
        text = re.sub(r"proto: syntax error[^\"]*", "proto: syntax error", text)
        return re.sub(r"Invalid page token: illegal[^\"]*", "Invalid page token", text)

    assert plain(body) == plain(real["body"])


def test_what_a_deleted_schedule_owned_stays_as_it_was_for_ever(
    kfp: KfpServer, definition: Path
) -> None:
    """Unless it is orphaned, as Kubernetes has it."""
    sent(definition)
    store = kfp.store
    for policy, end in (("", "RUNNING"), ("ORPHAN", "SUCCEEDED")):
        version, experiment = _of_first(kfp).values()
        body = recorded("recurringrun") | {
            "runtime_config": {"parameters": {"run_uri": "s3://b/r"}}
        }
        made = store.schedule(
            body | {"pipeline_version_reference": version, "experiment_id": experiment}
        )
        run_id = store.fire(made["recurring_run_id"])
        assert answer(kfp, f"runs/{run_id}")[1]["state"] == "RUNNING"
        query = f"?propagation_policy={policy}" if policy else ""
        assert answer(kfp, f"recurringruns/{made['recurring_run_id']}{query}", "DELETE")[0] == 200
        states = [answer(kfp, f"runs/{run_id}")[1]["state"] for _ in range(5)]
        assert states[-1] == end


def test_the_exit_step_is_told_a_state_of_its_own() -> None:
    ends = ("SUCCEEDED", "FAILED", "CANCELING", "SKIPPED")
    assert [hook_state(end) for end in ends] == ["COMPLETE", "FAILED", "RUNNING", "RUNNING"]


def test_a_recorded_run_is_told_as_it_was(kfp: KfpServer) -> None:
    run_id = kfp.store.serve("run-with-mlflow-plugin")
    assert answer(kfp, f"runs/{run_id}") == (200, recorded("run-with-mlflow-plugin"))
    assert isinstance(client(), KfpClient)
