"""What Kubeflow's runs and schedules look like to a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from scotoma.document import Cell, Column, Document, Facts, Section, Table
from scotoma.pipelines.audits import ListedAudit
from scotoma.pipelines.client import KfpClient
from scotoma.pipelines.progress import Progress
from scotoma.pipelines.schedules import Schedule, ScheduleHistory
from scotoma.pipelines.wait import nothing_new


def audits_document(audits: Sequence[ListedAudit], verdicts: Mapping[str, str]) -> Document:
    """A line for each audit, with the verdicts by run."""
    columns = (
        Column("project", "project"), Column("state", "state"), Column("verdict", "verdict"),
        Column("age_s", "age", "duration"), Column("run_id", "run"), Column("run_uri", "in"),
    )  # fmt: skip
    rows = [asdict(audit) | {"verdict": verdicts.get(audit.run_id)} for audit in audits]
    return _document("Audits on Kubeflow", Table("audits", "", columns, rows, stub=3))


def run_values(run: Progress, client: KfpClient) -> dict[str, Any]:
    """All that is known of a run, with the address of its page."""
    return asdict(run) | {"link": f"{client.endpoint}/#/runs/details/{run.run_id}"}


def run_document(run: Progress) -> Document:
    """A line for each step and shard of a run."""
    columns = (
        Column("state", "state"), Column("step", "step"), Column("seconds", "time", "duration"),
        Column("attempts", "attempts", "count"), Column("error", ""),
    )  # fmt: skip
    rows: list[dict[str, Cell]] = [
        {"state": task.state, "step": task.label, "seconds": task.seconds,
         "attempts": task.attempts or None, "error": task.error}
        for task in run.tasks
    ]  # fmt: skip
    title = f"{run.state}: {run.name} in {run.run_uri}"
    if run.nothing_new:
        return Document(title, nothing_new(run))
    return _document(title, Table("steps", "", columns, rows, stub=2))


def schedule_values(schedule: Schedule, endpoint: str, **more: Any) -> dict[str, Any]:
    """All that is known of a schedule, with the address of its page."""
    link = f"{endpoint}/#/recurringrun/details/{schedule.schedule_id}"
    return asdict(schedule) | {"stale": schedule.stale, "link": link} | more


def schedule_document(schedule: Schedule, history: ScheduleHistory) -> Document:
    """What a schedule has done, and what it does next."""
    state = "enabled" if schedule.enabled else "disabled"
    code = "different code; schedule it again" if schedule.stale else "this code"
    rows = [
        ("times", f"{schedule.cron} in UTC"),
        *_history(history, schedule),
        ("code", f"compiled by {code}"),
    ]
    return _document(f"{schedule.name} is {state}; its audits are in {schedule.root}", Facts(rows))


def _history(history: ScheduleHistory, schedule: Schedule) -> Iterator[tuple[str, str]]:
    """What comes next, what was audited, and which times passed without an audit."""
    since = f"since {_minute(schedule.since)}"
    if history.next:
        yield "next", _minute(history.next)
    audits = f"none {since}"
    if history.last:
        last = f"the last began {_minute(history.last)} and is {history.last_state}"
        audits = f"{history.audits} {since}; {last}"
    yield "audits", audits
    if history.missed:
        yield (
            "missed",
            f"{len(history.missed)} of {history.times} times {since}, the last "
            f"{_minute(history.missed[-1])}: no audit began. The reason is in "
            "kubectl logs -n kubeflow deployment/ml-pipeline-scheduledworkflow",
        )


def _document(title: str, part: Table | Facts) -> Document:
    return Document(title, sections=[Section("answer", "", parts=[part])])


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
