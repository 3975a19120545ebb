"""Schedules of Kubeflow Pipelines: made, changed and taken away by name.

KFP cannot change a recurring run. A changed one is made beside the old one, which goes afterwards:
a fault in between leaves two, never none, and the next call tidies up. Two that wake at one time
harm nothing, since the first step of an audit passes over what was due before.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma.errors import ConfigError
from scotoma.pipelines.cluster import TIMEOUTS_S, Cluster, named
from scotoma.runs import code_digest

__all__ = ["Schedule", "Schedules", "Wanted", "missed"]

PIPELINE = "scotoma-scheduled"
PAGE = 100
SLACK = datetime.timedelta(minutes=2)  # by which a run may seem to come before it is due


@dataclass(frozen=True)
class Wanted:
    """What is to be repeated, and when.

    Attributes:
        name: Of the schedule; one of a name is kept.
        experiment: Of KFP.
        definition: The compiled pipeline.
        cron: Six fields, in UTC, seconds first.
        root: Folder or `s3://BUCKET/PREFIX` below which every audit has its folder.
        description: A line for people.
    """

    name: str
    experiment: str
    definition: Path
    cron: str
    root: str
    description: str


@dataclass(frozen=True)
class Schedule:
    """A recurring run of KFP that is one of ours.

    Attributes:
        schedule_id: Its id.
        name: Its name.
        cron: Six fields, in UTC.
        root: Below which its audits lie.
        enabled: Whether it wakes.
        created_at: When it was made; in UTC.
        version_id, pipeline_id: Of what it runs.
        code: Digest of Scotoma's code that its version was made by, shortened.
    """

    schedule_id: str
    name: str
    cron: str
    root: str
    enabled: bool
    created_at: datetime.datetime
    version_id: str
    pipeline_id: str
    code: str

    @property
    def stale(self) -> bool:
        """Whether it was made by other code than this."""
        return self.code != _code()


class Schedules:
    """The schedules of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        import kfp_server_api as api

        self.cluster = cluster
        self._recurring = api.RecurringRunServiceApi(cluster.client)

    def put(self, wanted: Wanted) -> tuple[Schedule, str]:
        """Have exactly one schedule of a name, as it is wanted.

        Returns:
            The schedule, and what was done: `made`, `changed`, `enabled` or `unchanged`.
        """
        import kfp_server_api as api

        cluster = self.cluster
        home = cluster.experiment(wanted.experiment)
        pipeline, version = cluster.version(wanted.definition, PIPELINE, _code())
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        body = api.V2beta1RecurringRun(
            display_name=wanted.name,
            description=wanted.description,
            experiment_id=home,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(
                parameters={"root": wanted.root, "since": now.isoformat()}
            ),
            service_account=cluster.settings.service_account,
            max_concurrency="1",
            no_catchup=True,
            mode="ENABLE",
            trigger=api.V2beta1Trigger(cron_schedule=api.V2beta1CronSchedule(cron=wanted.cron)),
        )

        def fitting() -> Any:
            return next((one for one in self._named(wanted.name) if _alike(one, body)), None)

        there = self._named(wanted.name)
        kept = next((one for one in there if _alike(one, body)), None)
        done = "unchanged"
        if kept is None:
            done = "changed" if there else "made"
            kept = cluster.ask(
                lambda: self._recurring.recurring_run_service_create_recurring_run(
                    recurring_run=body, _request_timeout=TIMEOUTS_S
                ),
                "make the schedule",
                fitting,
            )
        elif kept.status == "DISABLED":
            done = "enabled"
            self._enable(kept.recurring_run_id)
        for one in there:
            if one.recurring_run_id != kept.recurring_run_id:
                self._delete(one.recurring_run_id)
        found = self.find(wanted.name)
        assert found is not None
        return found, done

    def remove(self, name: str) -> int:
        """Take away every schedule of a name; runs that have begun go on.

        Returns:
            How many there were.
        """
        there = self._named(name)
        for one in there:
            self._delete(one.recurring_run_id)
        return len(there)

    def find(self, name: str) -> Schedule | None:
        """The schedule of a name; the newest where a fault left two."""
        import kfp_server_api as api

        there = self._named(name)
        if not there:
            return None
        one = max(there, key=lambda one: one.created_at)
        of = one.pipeline_version_reference
        pipelines = api.PipelineServiceApi(self.cluster.client)
        version = self.cluster.ask(
            lambda: pipelines.pipeline_service_get_pipeline_version(
                pipeline_id=of.pipeline_id,
                pipeline_version_id=of.pipeline_version_id,
                _request_timeout=TIMEOUTS_S,
            ),
            "show the pipeline's version",
        )
        return Schedule(
            schedule_id=one.recurring_run_id,
            name=one.display_name,
            cron=one.trigger.cron_schedule.cron,
            root=str(one.runtime_config.parameters["root"]),
            enabled=one.status != "DISABLED",
            created_at=_utc(one.created_at),
            version_id=of.pipeline_version_id,
            pipeline_id=of.pipeline_id,
            code=str(version.display_name or "").rpartition(" ")[2],
        )

    def woken(self, schedule: Schedule, experiment: str) -> list[datetime.datetime]:
        """When Kubeflow made runs of a schedule, ascending, in UTC."""
        import kfp_server_api as api

        runs = api.RunServiceApi(self.cluster.client)
        home = self.cluster.experiment(experiment)

        def page(token: str) -> Any:
            return runs.run_service_list_runs(
                experiment_id=home, sort_by="created_at desc", page_size=PAGE, page_token=token,
                _request_timeout=TIMEOUTS_S,
            )  # fmt: skip

        times = []
        for run in self._paged(page, "runs", "list the runs"):
            if _utc(run.created_at) < schedule.created_at:
                break
            if run.recurring_run_id == schedule.schedule_id:
                times.append(_utc(run.created_at))
        return sorted(times)

    def _named(self, name: str) -> list[Any]:
        def page(token: str) -> Any:
            return self._recurring.recurring_run_service_list_recurring_runs(
                filter=named(name), page_size=PAGE, page_token=token, **self.cluster.where,
                _request_timeout=TIMEOUTS_S,
            )  # fmt: skip

        found = list(self._paged(page, "recurring_runs", "list the schedules"))
        for one in found:
            parameters = one.runtime_config.parameters if one.runtime_config else None
            if set(parameters or ()) != {"root", "since"}:
                raise ConfigError(
                    f"the recurring run {name!r} of Kubeflow was not made by Scotoma; choose "
                    "another name with --name"
                )
        return found

    def _paged(self, page: Callable[[str], Any], kind: str, what: str) -> Iterator[Any]:
        token = ""
        while True:
            found = self.cluster.ask(lambda token=token: page(token), what)  # type: ignore[misc]
            yield from getattr(found, kind) or ()
            token = found.next_page_token or ""
            if not token:
                return

    def _enable(self, key: str) -> None:
        self.cluster.ask(
            lambda: self._recurring.recurring_run_service_enable_recurring_run(
                key, _request_timeout=TIMEOUTS_S
            ),
            "enable the schedule",
        )

    def _delete(self, key: str) -> None:
        import kfp_server_api as api

        def gone() -> Any:
            try:
                self._recurring.recurring_run_service_get_recurring_run(
                    key, _request_timeout=TIMEOUTS_S
                )
            except api.ApiException as error:
                if error.status == 404:
                    return True
                raise
            return None

        self.cluster.ask(
            lambda: self._recurring.recurring_run_service_delete_recurring_run(
                key, _request_timeout=TIMEOUTS_S
            ),
            "remove the schedule",
            gone,
        )


def missed(
    due: list[datetime.datetime], woken: list[datetime.datetime], now: datetime.datetime
) -> list[datetime.datetime]:
    """Due times after which no run was made before the next was due.

    Args:
        due: Ascending, up to now.
        woken: When runs were made, ascending.
        now: A time that has only just passed is not missed.

    >>> at = lambda hour: datetime.datetime(2026, 1, 1, hour, tzinfo=datetime.UTC)
    >>> [f"{time:%H:%M}" for time in missed([at(1), at(2), at(3)], [at(1), at(3)], at(4))]
    ['02:00']
    """
    ends = [*(time - SLACK for time in due[1:]), now]
    return [
        time
        for time, end in zip(due, ends, strict=False)  # one more where nothing was due
        if now - time > 2 * SLACK and not any(time - SLACK <= one < end for one in woken)
    ]


def _code() -> str:
    return code_digest()[:12]


def _alike(one: Any, body: Any) -> bool:
    """Whether a recurring run does what is wanted, whenever it was made."""
    asked = body.service_account
    return (
        one.pipeline_version_reference.pipeline_version_id
        == body.pipeline_version_reference.pipeline_version_id
        and one.experiment_id == body.experiment_id
        and one.runtime_config.parameters["root"] == body.runtime_config.parameters["root"]
        and one.trigger.cron_schedule is not None
        and one.trigger.cron_schedule.cron == body.trigger.cron_schedule.cron
        and int(one.max_concurrency or 1) == 1
        and bool(one.no_catchup)
        and (asked is None or one.service_account == asked)
    )


def _utc(time: datetime.datetime) -> datetime.datetime:
    """A time of the server's, which says UTC or nothing."""
    return time.astimezone(datetime.UTC) if time.tzinfo else time.replace(tzinfo=datetime.UTC)
