"""The progress of a run: what Kubeflow tells of its nodes, as the steps of the audit."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scotoma import storage
from scotoma.pipelines.nodes import executors, full_names, shard_of, steps_of
from scotoma.stages.steps import STEPS

__all__ = ["ENDED", "Node", "Progress", "Task", "progress_of", "run_place", "shown_state"]

ENDED = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
NEVER = 1971  # Kubeflow writes year 1 or 1970 for what has not happened
# By the name that a task has in the pipeline.
TABLE = {step.component.replace("_", "-"): place for place, step in enumerate(STEPS.values())}
NAMES = {step.component.replace("_", "-"): step.name for step in STEPS.values()}


@dataclass(frozen=True)
class Task:
    """One step of a run, or one shard of it.

    Attributes:
        name: Of the step, as in the table of steps.
        shard: Its shard; None for a step without.
        state: WAITING for steps before it, PENDING until its pod has started, RUNNING, SUCCEEDED,
            FAILED, or NOT RUN if the run has ended without it.
        seconds: From its start to its end, or so far; None if it has not begun.
        attempts: How often its container was started.
        pending_s: Seconds for which a pod of it has not started; None if none is awaited.
        error: What is known of its failure.
    """

    name: str
    shard: int | None = None
    state: str = "WAITING"
    seconds: float | None = None
    attempts: int = 0
    pending_s: float | None = None
    error: str = ""

    @property
    def label(self) -> str:
        """Its name, with its shard."""
        return self.name if self.shard is None else f"{self.name} shard {self.shard}"


@dataclass(frozen=True)
class Node:
    """A node of the Workflow that Kubeflow made of a run.

    Attributes:
        name: As Kubeflow shows it.
        state: As Kubeflow tells it; empty for what was never started.
        seconds: From its start to its end, or so far.
    """

    name: str
    state: str
    seconds: float | None


@dataclass(frozen=True)
class Progress:
    """A run and its steps.

    Attributes:
        run_id: Its id.
        name: Its name.
        state: Of the whole: PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED and others.
        run_uri: Place of the audit; empty for any other run.
        tasks: The steps, in the order of the table of steps.
        nodes: All that Kubeflow tells, in the order of their start.
        pending_s: Seconds for which the run itself has not begun; None if it has.
        error: Kubeflow's message, if it failed.
        mlflow: MLflow's page of the run that Kubeflow's plugin made; empty if it made none.
    """

    run_id: str
    name: str
    state: str
    run_uri: str
    tasks: tuple[Task, ...]
    nodes: tuple[Node, ...]
    pending_s: float | None
    error: str
    mlflow: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in ENDED


def progress_of(run: Any, spec: Mapping[str, Any], now: datetime.datetime) -> Progress:
    """Read a run that KFP's client answered.

    Args:
        run: The run.
        spec: Its compiled pipeline; empty if Kubeflow no longer has it.
        now: The time of the answer.
    """
    details = (run.run_details.task_details if run.run_details else None) or ()
    state = shown_state(run)
    ended = state in ENDED
    nodes = sorted(details, key=lambda task: (str(task.start_time), task.display_name or ""))
    return Progress(
        run_id=run.run_id,
        name=run.display_name or "",
        state=state,
        run_uri=run_place(run),
        tasks=_tasks(details, steps_of(spec), now, ended=ended),
        nodes=tuple(
            Node(node.display_name or "", node.state or "", _seconds(node, now)) for node in nodes
        ),
        pending_s=None if ended or details else (now - run.created_at).total_seconds(),
        error=run.error.message or "" if run.error else "",
        mlflow=_mlflow_page(run),
    )


def _mlflow_page(run: Any) -> str:
    output = (run.plugins_output or {}).get("mlflow")
    page = (output.entries or {}).get("run_url") if output else None
    return str(page.value) if page else ""


def shown_state(run: Any) -> str:
    """The state of a run; CANCELED for one that Kubeflow calls FAILED since it was cancelled."""
    states = [entry.state for entry in run.state_history or () if entry.state]
    if run.state == "FAILED" and states[-2:-1] == ["CANCELING"]:
        return "CANCELED"
    return str(run.state or "PENDING")


def run_place(run: Any) -> str:
    """The place of a run's audit, from its parameters; empty for a run of anything else."""
    parameters = (run.runtime_config.parameters if run.runtime_config else None) or {}
    if root := parameters.get("root"):
        return storage.join(str(root), run.run_id)
    return str(parameters.get("run_uri", ""))


def _tasks(
    details: Any, steps: dict[str, tuple[int | None, bool]], now: datetime.datetime, *, ended: bool
) -> tuple[Task, ...]:
    """The steps that have begun and those that wait, in order."""
    names = full_names(details)
    known = steps.keys() | TABLE.keys() | _with_executor(names)
    tasks = {
        (name, shard): Task(NAMES.get(name, name), shard, "NOT RUN" if ended else "WAITING")
        for name, (shards, _) in steps.items()
        for shard in ([None] if shards is None else range(shards))
    }
    for path in names:
        name = path.rpartition(".")[2]
        step = name.removesuffix("-driver")
        if step in known and (name == step or path.removesuffix("-driver") not in names):
            shard = shard_of(path)
            path = path.removesuffix("-driver")
            task = _task(names, path, NAMES.get(step, step), shard, now)
            # An exit step that succeeded says nothing of the audit.
            if step in TABLE or ".onExit" not in path or task.state != "SUCCEEDED":
                tasks[step, shard] = task

    def order(key: tuple[str, int | None]) -> tuple[int, str, int]:
        name, shard = key
        first = steps.get(name, (None, False))[1]  # of a scheduled audit, the step that begins it
        return TABLE.get(name, -1 if first else len(TABLE)), name, -1 if shard is None else shard

    return tuple(tasks[key] for key in sorted(tasks, key=order))


def _with_executor(names: Mapping[str, Any]) -> set[str]:
    """Names of steps that Kubeflow has started, even if nobody knows the pipeline."""
    paths = (name.removesuffix(".executor") for name in names if name.endswith(".executor"))
    return {path.removesuffix("(0)").rpartition(".")[2] for path in paths}


def _task(
    names: Mapping[str, Any], path: str, step: str, shard: int | None, now: datetime.datetime
) -> Task:
    """A step, from its own node and those of its driver and its containers."""
    node, driver = names.get(path), names.get(f"{path}-driver")
    if driver is not None and driver.state == "FAILED":
        error = "Kubeflow could not start it: its driver failed"
        return Task(step, shard, "FAILED", _seconds(driver, now), 0, None, error)
    tried = executors(names, path)
    begun = node if node is not None and node.start_time else driver
    if begun is None:
        return Task(step, shard, "PENDING")
    if node is not None and not node.state:
        return Task(step, shard, "NOT RUN")
    pods = [names.get(f"{path}-driver(0)"), names.get(tried[-1]) if tried else None]
    waiting = [pod for pod in pods if pod is not None and pod.state == "PENDING"]
    state = "PENDING" if waiting or node is None else node.state
    pending_s = max(((now - _since(pod)).total_seconds() for pod in waiting), default=None)
    return Task(step, shard, state, _seconds(begun, now), len(tried) + _restarts(begun), pending_s)


def _since(pod: Any) -> datetime.datetime:
    """When a pod began to wait."""
    times = [entry.update_time for entry in pod.state_history or () if entry.update_time]
    since: datetime.datetime = max([pod.start_time, *times])
    return since


def _restarts(node: Any) -> int:
    """How often a run was retried after this step had failed."""
    states = [entry.state for entry in node.state_history or ()]
    return sum(pair == ("FAILED", "RUNNING") for pair in pairwise(states))


def _seconds(node: Any, now: datetime.datetime) -> float | None:
    """How long a node has lasted; None if it was never started."""
    if not node.start_time or node.start_time.year < NEVER or not node.state:
        return None
    ended = node.end_time and node.end_time.year >= NEVER
    return float(((node.end_time if ended else now) - node.start_time).total_seconds())
