"""Schedules of Kubeflow Pipelines: made, changed and removed by name.

KFP cannot change a recurring run. A changed one is made beside the old one, which is removed
afterwards: a fault in between leaves two, never none, and the next call removes the older.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

from scotoma.errors import ConfigError
from scotoma.pipelines.client import KfpClient
from scotoma.pipelines.progress import ENDED, shown_state
from scotoma.pipelines.uploads import filter_by_name, kubeflow_experiment_id, version_ids
from scotoma.run import code_digest

PIPELINE = "scotoma-scheduled"
MOST_RUNS = 1000  # of an experiment that are looked at
MARK = "Scotoma: "  # begins the description of every schedule of ours


@dataclass(frozen=True)
class ScheduleRequest:
    """An audit that is to be repeated.

    Attributes:
        name: Of the schedule; Kubeflow keeps one of each name.
        project: Of the audits.
        experiment: Of KFP.
        definition: The compiled pipeline.
        cron: Six fields in UTC, seconds first, which KFP gets as they are.
        root: Folder or `s3://BUCKET/PREFIX` below which every audit has its folder.
    """

    name: str
    project: str
    experiment: str
    definition: Path
    cron: str
    root: str


@dataclass(frozen=True)
class Schedule:
    """A recurring run of KFP that repeats an audit.

    Attributes:
        schedule_id: Its id.
        name: Its name.
        cron: Six fields in UTC, seconds first.
        root: The place that holds its audits.
        enabled: Whether KFP starts runs.
        version_id: Id of the pipeline version that it runs.
        pipeline_id: Id of that pipeline.
        code: Digest of the code of Scotoma that compiled the version, shortened.
        experiment_id: Id of KFP's experiment that has its runs.
        since: When it was made.
    """

    schedule_id: str
    name: str
    cron: str
    root: str
    enabled: bool
    version_id: str
    pipeline_id: str
    code: str
    experiment_id: str
    since: datetime.datetime

    @property
    def stale(self) -> bool:
        """Whether other code than this compiled it."""
        return self.code != _code()


@dataclass(frozen=True)
class ScheduleHistory:
    """What a schedule has done, and what it does next.

    Attributes:
        next: Its next time; None where it is disabled, or its cron line cannot be read.
        audits: Number of its runs that were found.
        last: When the newest of them began; None before the first.
        last_state: State of that run; empty before the first.
        times: Number of times that have passed since it was made, the last thousand at most.
        missed: Those at which no audit began though none was running.
    """

    next: datetime.datetime | None
    audits: int
    last: datetime.datetime | None
    last_state: str
    times: int
    missed: tuple[datetime.datetime, ...]


class Schedules:
    """The schedules of a Kubeflow."""

    def __init__(self, client: KfpClient) -> None:
        import kfp_server_api as api

        self.client = client
        self._recurring = api.RecurringRunServiceApi(client.api)

    def put(self, request: ScheduleRequest) -> tuple[Schedule, str]:
        """Make or change the schedule of a name, so that exactly one is left.

        Returns:
            The schedule, and the change: `made`, `changed`, `enabled` or `unchanged`.
        """
        import kfp_server_api as api

        client = self.client
        in_experiment = kubeflow_experiment_id(client, request.experiment)
        client.refuse_older()
        pipeline_id, version_id = version_ids(client, request.definition, PIPELINE, _code())
        body = api.V2beta1RecurringRun(
            display_name=request.name,
            description=f"{MARK}audits of {request.project}",
            experiment_id=in_experiment,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline_id, pipeline_version_id=version_id
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters={"root": request.root}),
            service_account=client.settings.service_account,
            max_concurrency="1",
            no_catchup=True,
            mode="ENABLE",
            # Nothing is asked of plugins: beside a version, Kubeflow 2.17 then forgets the
            # parameters and starts no run.
            trigger=api.V2beta1Trigger(cron_schedule=api.V2beta1CronSchedule(cron=request.cron)),
        )

        def matching() -> Any:
            return next((run for run in self._named(request.name) if _equal(run, body)), None)

        existing = self._named(request.name)
        current = next((run for run in existing if _equal(run, body)), None)
        change = "unchanged"
        if current is None:
            change = "changed" if existing else "made"
            current = client.ask(
                lambda: self._recurring.recurring_run_service_create_recurring_run(
                    recurring_run=body
                ),
                "make the schedule",
                matching,
            )
        elif current.status == "DISABLED":
            change = "enabled"
            self._enable(current.recurring_run_id)
        for run in existing:
            if run.recurring_run_id != current.recurring_run_id:
                self._delete(run.recurring_run_id)
        schedule = self.find(request.name)
        assert schedule is not None
        return schedule, change

    def remove(self, name: str) -> int:
        """Remove every schedule of a name; runs that have begun go on.

        Returns:
            The number of schedules removed.
        """
        existing = self._named(name)
        self.client.refuse_older()
        for run in existing:
            self._delete(run.recurring_run_id)
        return len(existing)

    def find(self, name: str) -> Schedule | None:
        """Look a schedule up by its name; the newest if a fault left two."""
        existing = self._named(name)
        if not existing:
            return None
        run = max(existing, key=lambda run: run.created_at)
        reference = run.pipeline_version_reference
        version = self.client.ask(
            lambda: self.client.pipelines.pipeline_service_get_pipeline_version(
                pipeline_id=reference.pipeline_id, pipeline_version_id=reference.pipeline_version_id
            ),
            "show the pipeline's version",
        )
        return Schedule(
            schedule_id=run.recurring_run_id,
            name=run.display_name,
            cron=run.trigger.cron_schedule.cron,
            root=str(run.runtime_config.parameters["root"]),
            enabled=run.status != "DISABLED",
            version_id=reference.pipeline_version_id,
            pipeline_id=reference.pipeline_id,
            code=str(version.display_name or "").rpartition(" ")[2],
            experiment_id=run.experiment_id,
            since=run.created_at,
        )

    def history(self, schedule: Schedule) -> ScheduleHistory:
        """Compare the times of a schedule with the clock of Kubeflow and with its runs."""
        runs = list(self._runs(schedule))
        now = self.client.time()
        times = Times.of(schedule.cron) if schedule.enabled else None
        spans = [
            (run.created_at, run.finished_at if shown_state(run) in ENDED else None) for run in runs
        ]
        missed, passed = missed_times(times, schedule.since, now, spans) if times else ([], 0)
        newest = max(runs, key=lambda run: run.created_at, default=None)
        return ScheduleHistory(
            next=next(times.after(now), None) if times else None,
            audits=len(runs),
            last=newest.created_at if newest else None,
            last_state=shown_state(newest) if newest else "",
            times=passed,
            missed=tuple(missed),
        )

    def _runs(self, schedule: Schedule) -> Iterator[Any]:
        """The runs that Kubeflow has started for a schedule, the newest first."""
        runs = self.client.newest_runs(
            "list the runs of the schedule", experiment_id=schedule.experiment_id
        )
        for run in islice(runs, MOST_RUNS):
            if run.created_at < schedule.since:
                return
            if run.recurring_run_id == schedule.schedule_id:
                yield run

    def _named(self, name: str) -> list[Any]:
        answer = self.client.ask(
            lambda: self._recurring.recurring_run_service_list_recurring_runs(
                filter=filter_by_name(name), **self.client.where
            ),
            "list the schedules",
        )
        runs = list(answer.recurring_runs or ())
        for run in runs:
            parameters = run.runtime_config.parameters if run.runtime_config else None
            if set(parameters or ()) != {"root"} or not (run.description or "").startswith(MARK):
                raise ConfigError(
                    f"the recurring run {name!r} of Kubeflow was not made by Scotoma; choose "
                    "another name with --name"
                )
        return runs

    def _enable(self, schedule_id: str) -> None:
        self.client.ask(
            lambda: self._recurring.recurring_run_service_enable_recurring_run(schedule_id),
            "enable the schedule",
        )

    def _delete(self, schedule_id: str) -> None:
        import kfp_server_api as api

        def gone() -> Any:
            try:
                self._recurring.recurring_run_service_get_recurring_run(schedule_id)
            except api.ApiException as error:
                if error.status == 404:
                    return True
                raise
            return None

        self.client.ask(
            # Kubernetes would delete the audits of the schedule too, and end the one that runs.
            lambda: self._recurring.recurring_run_service_delete_recurring_run(
                schedule_id, propagation_policy="ORPHAN"
            ),
            "remove the schedule",
            gone,
        )


def _code() -> str:
    return code_digest()[:12]


def _equal(run: Any, body: Any) -> bool:
    """Whether a recurring run does what a request asks for."""
    account = body.service_account
    return (
        run.pipeline_version_reference.pipeline_version_id
        == body.pipeline_version_reference.pipeline_version_id
        and run.experiment_id == body.experiment_id
        and run.runtime_config.parameters["root"] == body.runtime_config.parameters["root"]
        and run.trigger.cron_schedule is not None
        and run.trigger.cron_schedule.cron == body.trigger.cron_schedule.cron
        and int(run.max_concurrency or 1) == 1
        and bool(run.no_catchup)
        and (account is None or run.service_account == account)
    )


BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
NAMES = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9,
    "oct": 10, "nov": 11, "dec": 12,
    "sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}  # fmt: skip
HORIZON_YEARS = 5  # the controller looks no farther for the next time
FIRST_YEAR = 1970
MOST = 1000  # times that are looked at
GRACE = datetime.timedelta(minutes=3)  # for the controller to start what is due
AHEAD = datetime.timedelta(seconds=10)  # by which a server's clocks may differ
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Times:
    """The times of a cron line, in UTC.

    Attributes:
        fields: The values of seconds, minutes, hours, days of the month, months, days of the week.
        both: Whether a day must match both fields of days.
    """

    fields: tuple[frozenset[int], ...]
    both: bool

    @classmethod
    def of(cls, line: str) -> Times | None:
        """Read a cron line; None if it is none.

        >>> next(Times.of("0 30 2 1 * *").after(datetime.datetime(2026, 11, 5)))
        datetime.datetime(2026, 12, 1, 2, 30)
        """
        texts = line.lower().split()
        try:
            fields = tuple(map(_values, texts, BOUNDS))
        except ValueError:
            return None
        if len(texts) != len(BOUNDS) or not all(fields):
            return None
        stars = (part[:1] in "*?" for text in (texts[3], texts[5]) for part in text.split(","))
        return cls(fields, any(stars))

    def after(self, start: datetime.datetime) -> Iterator[datetime.datetime]:
        """List the times after a time, the first first; none where no day ever matches."""
        return (time for time in self._all(start, 1) if time > start)

    def until(self, end: datetime.datetime) -> Iterator[datetime.datetime]:
        """List the times up to a time, the last first."""
        return (time for time in self._all(end, -1) if time <= end)

    def _all(self, start: datetime.datetime, step: int) -> Iterator[datetime.datetime]:
        seconds, minutes, hours, _, _, _ = (sorted(field)[::step] for field in self.fields)
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        last = start.year
        for days in count():
            day = midnight + step * days * DAY
            if abs(day.year - last) > HORIZON_YEARS or day.year < FIRST_YEAR:
                return
            if self._matches(day):
                last = day.year
                yield from (
                    day.replace(hour=hour, minute=minute, second=second)
                    for hour in hours for minute in minutes for second in seconds
                )  # fmt: skip

    def _matches(self, day: datetime.datetime) -> bool:
        _, _, _, days, months, weekdays = self.fields
        matches = (day.day in days, day.isoweekday() % 7 in weekdays)
        return day.month in months and (all(matches) if self.both else any(matches))


def _values(text: str, bounds: tuple[int, int]) -> frozenset[int]:
    """The values of a field.

    Raises:
        ValueError: It cannot be read.
    """
    least, most = bounds
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, dash, high = span.partition("-")
        if low in ("*", "?"):
            first, last = least, most
        else:
            first = _number(low)
            last = _number(high) if dash else (most if step else first)
        if not least <= first <= last <= most:
            raise ValueError(part)
        values |= set(range(first, last + 1, int(step or 1)))
    return frozenset(values)


def _number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def missed_times(
    times: Times,
    since: datetime.datetime,
    now: datetime.datetime,
    audits: Iterable[tuple[datetime.datetime, datetime.datetime | None]],
) -> tuple[list[datetime.datetime], int]:
    """Find the times at which no audit began though none was running.

    Args:
        times: The times of the schedule.
        since: When the schedule was made.
        now: The time of Kubeflow.
        audits: Begin and end of the schedule's audits; None for an end that has not come.

    Returns:
        The missed times, the first first, and the number of times that were looked at: the last
        thousand at most.
    """
    audits = list(audits)
    passed = list(islice(takewhile(lambda time: time > since, times.until(now - GRACE)), MOST))[
        ::-1
    ]
    missed = []
    for place, time in enumerate(passed):
        following = passed[place + 1] if place + 1 < len(passed) else now
        served = any(
            time - AHEAD <= begun < following or (begun <= time and (end is None or end > time))
            for begun, end in audits
        )
        if not served:
            missed.append(time)
    return missed, len(passed)
