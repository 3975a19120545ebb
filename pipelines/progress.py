"""The progress of a run, from Kubeflow's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Progress", "Task", "progress_of"]

ENDED = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")


@dataclass(frozen=True)
class Task:
    """One step of a run.

    Attributes:
        name: Of the step; the shards of a step share it.
        state: Such as RUNNING or SUCCEEDED.
        seconds: From its start to its end; None if it has not ended.
        pod: Name of its pod; empty if it has none.
        error: Kubeflow's message, if it failed.
    """

    name: str
    state: str
    seconds: float | None
    pod: str
    error: str


@dataclass(frozen=True)
class Progress:
    """A run and its steps.

    Attributes:
        run_id: Its id.
        name: Its name.
        state: Of the whole: PENDING, RUNNING, SUCCEEDED, FAILED and others.
        run_uri: Place of the audit; empty for any other run.
        tasks: Steps that have started, in the order of their start.
        error: Kubeflow's message, if it failed.
    """

    run_id: str
    name: str
    state: str
    run_uri: str
    tasks: tuple[Task, ...]
    error: str

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in ENDED


def progress_of(run: Any) -> Progress:
    """Read a run that KFP's client answered."""
    details = run.run_details.task_details if run.run_details else None
    parameters = (run.runtime_config.parameters if run.runtime_config else None) or {}
    tasks = sorted(details or (), key=lambda task: str(task.start_time or task.create_time or ""))
    return Progress(
        run_id=run.run_id,
        name=run.display_name or "",
        state=run.state or "PENDING",
        run_uri=str(parameters.get("run_uri", "")),
        tasks=tuple(_task(task) for task in tasks),
        error=run.error.message or "" if run.error else "",
    )


def _task(task: Any) -> Task:
    pods = [task.pod_name, *(child.pod_name for child in task.child_tasks or ())]
    seconds = None
    if task.start_time and task.end_time:
        seconds = (task.end_time - task.start_time).total_seconds()
    return Task(
        name=task.display_name or "",
        state=task.state or "PENDING",
        seconds=seconds,
        pod=next((pod for pod in pods if pod), ""),
        error=task.error.message or "" if task.error else "",
    )
