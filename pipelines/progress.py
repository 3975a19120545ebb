"""A run as Kubeflow knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Progress", "Task", "progress_of"]

ENDED = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")


@dataclass(frozen=True)
class Task:
    """One step of a run, as Kubeflow knows it.

    Attributes:
        name: Of the step; steps of several shards share it.
        state: Such as RUNNING or SUCCEEDED.
        seconds: Since it started, until it ended; None if it has not started or runs.
        pod: Name of its pod; empty if it has none.
        error: Kubeflow's words, if it failed.
    """

    name: str
    state: str
    seconds: float | None
    pod: str
    error: str


@dataclass(frozen=True)
class Progress:
    """A run, as Kubeflow knows it.

    Attributes:
        run_id: Its id.
        name: Its name.
        state: Of the whole: PENDING, RUNNING, SUCCEEDED, FAILED and others.
        run_uri: Where the audit keeps its files; empty if the run is not one of ours.
        tasks: Steps that have started, in the order of their start.
        error: Kubeflow's words, if it failed.
    """

    run_id: str
    name: str
    state: str
    run_uri: str
    tasks: tuple[Task, ...]
    error: str

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED


def progress_of(found: Any) -> Progress:
    """What KFP's client answers, without what nobody asks for."""
    details = found.run_details.task_details if found.run_details else None
    parameters = (found.runtime_config.parameters if found.runtime_config else None) or {}
    tasks = sorted(details or (), key=lambda task: str(task.start_time or task.create_time or ""))
    return Progress(
        run_id=found.run_id,
        name=found.display_name or "",
        state=found.state or "PENDING",
        run_uri=str(parameters.get("run_uri", "")),
        tasks=tuple(_task(task) for task in tasks),
        error=found.error.message or "" if found.error else "",
    )


def _task(task: Any) -> Task:
    pods = [task.pod_name, *(child.pod_name for child in task.child_tasks or ())]
    spent = None
    if task.start_time and task.end_time:
        spent = (task.end_time - task.start_time).total_seconds()
    return Task(
        name=task.display_name or "",
        state=task.state or "PENDING",
        seconds=spent,
        pod=next((pod for pod in pods if pod), ""),
        error=task.error.message or "" if task.error else "",
    )
