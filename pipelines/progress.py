"""The progress of a run, as the steps of the audit: from its own files, and from Kubeflow.

Kubeflow tells nothing new of a run's nodes once its Workflow passes 1 MB. So what a step has
written in the run's place counts, and Kubeflow is asked only about steps that wrote nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from scotoma import storage
from scotoma.pipelines.nodes import full_names, shard_of, steps_of
from scotoma.run.step_logs import Try
from scotoma.steps.table import STEPS

OPEN = ("WAITING", "PENDING", "RUNNING")
ENDED = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
SKEW = datetime.timedelta(seconds=60)  # of a node's clock against Kubeflow's
NEVER = 1971  # Kubeflow writes year 1 or 1970 for what has not happened
NAMES = {step.component.replace("_", "-"): step.name for step in STEPS.values()}
# Those beside the table: the first step of a scheduled audit, and the exit step.
ORDER = {name: place for place, name in enumerate(("begin-scheduled", *STEPS, "record-failure"))}
Key = tuple[str, int | None]  # a step and its shard


@dataclass(frozen=True)
class Task:
    """One step of a run, or one shard of it.

    Attributes:
        name: Of the step, as in the table of steps.
        shard: Its shard; None for a step without.
        state: WAITING for steps before it, PENDING until its pod has started, RUNNING, SUCCEEDED,
            FAILED, NOT RUN if the run has ended without it, or UNKNOWN if it has ended and neither
            its files nor Kubeflow tell.
        seconds: From its start to its end, or so far; None if it has not begun, or its end is not
            known.
        attempts: How often it was begun.
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
class Progress:
    """A run and its steps.

    Attributes:
        run_id: Its id.
        name: Its name.
        state: Of the whole: PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED and others.
        run_uri: Place of the audit; empty for any other run.
        tasks: The steps, in the order of the table of steps.
        pending_s: Seconds for which the run itself has not begun; None if it has.
        error: Kubeflow's message, if it failed.
        mlflow: MLflow's page of the run that Kubeflow's plugin made; empty if it made none.
        unread: Why the files of the run cannot be read from here; Kubeflow alone is asked then.
        nothing_new: The input since which nothing is new, of a scheduled audit that ended for that;
            empty for all others.
    """

    run_id: str
    name: str
    state: str
    run_uri: str
    tasks: tuple[Task, ...]
    pending_s: float | None
    error: str
    mlflow: str = ""
    unread: str = ""
    nothing_new: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in ENDED


def progress_of(
    run: Any,
    spec: Mapping[str, Any],
    tries: Sequence[Try],
    now: datetime.datetime,
    unread: str = "",
) -> Progress:
    """Read a run that KFP's client answered.

    Args:
        run: The run.
        spec: Its compiled pipeline; empty if Kubeflow no longer has it.
        tries: What the logs in its place tell, those of earlier runs there too.
        now: The time of the answer.
        unread: Why the logs cannot be read.
    """
    details = (run.run_details.task_details if run.run_details else None) or ()
    tries = [one for one in tries if one.began is None or one.began >= run.created_at - SKEW]
    state = shown_state(run)
    waits = state == "PENDING" and not (details or tries)
    return Progress(
        run_id=run.run_id,
        name=run.display_name or "",
        state=state,
        run_uri=run_place(run),
        tasks=_tasks(run, details, steps_of(spec), tries, now, unread=bool(unread)),
        pending_s=(now - run.created_at).total_seconds() if waits else None,
        error=run.error.message or "" if run.error else "",
        mlflow=_mlflow_page(run),
        unread=unread,
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
    run: Any,
    details: Sequence[Any],
    steps: Mapping[str, int | None],
    tries: Sequence[Try],
    now: datetime.datetime,
    *,
    unread: bool,
) -> tuple[Task, ...]:
    """The steps that have begun and those that wait, in order."""
    tasks: dict[Key, Task] = {
        (NAMES.get(step, step), shard): Task(NAMES.get(step, step), shard)
        for step, shards in steps.items()
        for shard in ([None] if shards is None else range(shards))
    }
    names = full_names(details)
    starting = {node.start_time for node in details if node.state == "PENDING"}
    nodes: dict[Key, Any] = {}
    for path in dict.fromkeys(name.removesuffix("-driver") for name in names):
        step = path.rpartition(".")[2]
        if step in steps or NAMES.get(step, step) in ORDER:
            key = NAMES.get(step, step), shard_of(path)
            nodes[key] = names.get(path)
            task = _asked(key, nodes[key], names.get(f"{path}-driver"), starting, now)
            # An exit step that succeeded says nothing of the audit.
            if key[0] != "record-failure" or task.state != "SUCCEEDED":
                tasks[key] = task
    state, restarted = shown_state(run), _restarted(run)
    for key, its in _by_task(tries).items():
        tasks[key] = replace(tasks.get(key, Task(*key)), attempts=len(its))
        if its[-1].state == "SUCCEEDED" or (its[-1].began or now) >= restarted - SKEW:
            tasks[key] = _written(key, its, nodes.get(key), state, now)
    if state not in ENDED and not details:
        _let_wait(tasks, tries, now)
    if state in ENDED:
        open_ = {key: task for key, task in tasks.items() if task.state in OPEN}
        stale = not details or any(task.state != "WAITING" for task in open_.values())
        ended = "UNKNOWN" if stale and unread else "NOT RUN"
        if stale and state == "SUCCEEDED":
            ended = "SUCCEEDED"
        tasks |= {key: Task(*key, ended, attempts=task.attempts) for key, task in open_.items()}
    return tuple(sorted(tasks.values(), key=_place))


def _place(task: Task) -> tuple[int, str, int]:
    return ORDER.get(task.name, len(ORDER)), task.name, -1 if task.shard is None else task.shard


def _by_task(tries: Sequence[Try]) -> dict[Key, list[Try]]:
    written: dict[Key, list[Try]] = {}
    for one in tries:
        sharded = one.log.step in STEPS and STEPS[one.log.step].sharded
        written.setdefault((one.log.step, one.log.shard if sharded else None), []).append(one)
    return written


def _restarted(run: Any) -> datetime.datetime:
    """When a run began, or was last retried."""
    entries = [entry for entry in run.state_history or () if entry.state]
    again = [
        after.update_time for before, after in pairwise(entries)
        if before.state in ENDED and after.state == "RUNNING"
    ]  # fmt: skip
    restarted: datetime.datetime = max(again, default=run.created_at)
    return restarted


def _written(
    key: Key, its: Sequence[Try], node: Any, run_state: str, now: datetime.datetime
) -> Task:
    """A step, from the logs of its tries; nothing in them says that a try was killed."""
    last = its[-1]
    state, seconds = last.state, None
    if last.began:
        seconds = ((last.ended or now) - last.began).total_seconds()
        killed = node is not None and node.state == "FAILED" and node.end_time >= last.began
        if state == "RUNNING" and (killed or run_state in ENDED):
            state, seconds = "SUCCEEDED" if run_state == "SUCCEEDED" else "FAILED", None
    return Task(*key, state, seconds, len(its), None, last.reason)


def _let_wait(tasks: dict[Key, Task], tries: Sequence[Try], now: datetime.datetime) -> None:
    """Let the next step be PENDING if none is at work, where Kubeflow tells of no step."""
    ends = [one.ended for one in tries if one.ended]
    ordered = sorted(tasks.values(), key=_place)
    due = next((task for task in ordered if task.state != "SUCCEEDED"), None)
    if due is not None and due.state == "WAITING" and ends:
        pending_s = (now - max(ends)).total_seconds()
        tasks[due.name, due.shard] = replace(due, state="PENDING", pending_s=pending_s)


def _asked(
    key: Key, node: Any, driver: Any, starting: set[datetime.datetime], now: datetime.datetime
) -> Task:
    """A step of which Kubeflow tells, from its own node and that of its driver.

    Pods that start in the same second cannot be told apart: while one waits, all do.
    """
    if driver is not None and driver.state == "FAILED":
        error = "Kubeflow could not start it: its driver failed"
        return Task(*key, "FAILED", _seconds(driver, now), 0, None, error)
    begun = node if node is not None and node.start_time else driver
    if begun is None or (node is not None and not node.state):
        return Task(*key, "PENDING" if begun is None else "NOT RUN")
    waits = begun.start_time in starting and begun.state == "RUNNING"
    state = "PENDING" if waits or node is None else node.state
    pending_s = (now - begun.start_time).total_seconds() if waits else None
    return Task(*key, state, _seconds(begun, now), int(node is not None), pending_s)


def _seconds(node: Any, now: datetime.datetime) -> float | None:
    """How long a node has lasted; None if it was never started."""
    if not node.start_time or node.start_time.year < NEVER or not node.state:
        return None
    ended = node.end_time and node.end_time.year >= NEVER
    return float(((node.end_time if ended else now) - node.start_time).total_seconds())
