"""`scotoma pipeline schedule`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scotoma.commands.pipeline import options

if TYPE_CHECKING:
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.commands.pipeline.submission import Submission
    from scotoma.pipelines.schedules import Schedule, ScheduleHistory

__all__ = ["schedule"]


def schedule(
    config: Annotated[
        Path, typer.Argument(help="Configuration (YAML) with a section `retraining`.")
    ],
    out: Annotated[
        str | None,
        typer.Option(
            help="Where to store the audits: s3://BUCKET/PREFIX, or a folder of the volume."
        ),
    ] = None,
    rules: options.Rules = None,
    name: options.ScheduleName = None,
    show: Annotated[
        bool, typer.Option("--status", help="Show the schedule; change nothing.")
    ] = False,
    seed: options.Seed = None,
    data: options.Data = None,
    deterministic: options.Deterministic = False,
    endpoint: options.Endpoint = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Repeat an audit at the times of retraining.cron, each time with the newest data.

    Prints the schedule's id. Repeat the command after a change: it changes the schedule.
    """
    from scotoma.commands.pipeline.connection import Connection
    from scotoma.commands.pipeline.submission import Submission

    connection = Connection(endpoint, namespace, as_json, quiet)
    submission = Submission(config, rules, seed, data, deterministic)
    if show:
        _show(submission, connection, name)
    elif out is None:
        raise typer.BadParameter("give --out (where to store the audits) or --status")
    else:
        _put(submission, out, connection, name)


def _put(submission: Submission, root: str, connection: Connection, name: str | None) -> None:
    from scotoma.commands.asking import print_out
    from scotoma.commands.pipeline.inputs import require_inputs
    from scotoma.commands.pipeline.submission import check_place, size_text
    from scotoma.config.newest import asks_for_newest
    from scotoma.errors import ConfigError
    from scotoma.pipelines.schedules import ScheduleRequest, Schedules

    config, kubeflow = submission.read()
    if config.retraining is None:
        raise ConfigError(
            f"a schedule needs the section `retraining`, and {submission.path} has none; add it, "
            'such as retraining: {cron: "0 0 3 1 * *"}'
        )
    check_place(root, kubeflow)
    cluster = connection.cluster(kubeflow)
    with submission.definition(config, kubeflow, scheduled_root=root) as definition:
        if not asks_for_newest(config):  # which need not be there yet
            require_inputs(config, kubeflow, connection.message)
        request = ScheduleRequest(
            name=name or config.project,
            project=config.project,
            experiment=kubeflow.experiment or config.project,
            definition=definition,
            cron=config.retraining.cron,
            root=root,
        )
        scheduled, change = Schedules(cluster).put(request)
        size = size_text(definition)
    connection.message(f"{change:<10}{_link(cluster.endpoint, scheduled)}")
    connection.message(f"{'cron':<10}{scheduled.cron} in UTC")
    connection.message(f"{'size':<10}{size}")
    text = _json(scheduled, cluster.endpoint, change=change)
    print_out(text if connection.as_json else f"{scheduled.schedule_id}\n", sys.stdout)


def _show(submission: Submission, connection: Connection, name: str | None) -> None:
    from scotoma.commands.asking import print_out
    from scotoma.config import load_config
    from scotoma.errors import ConfigError
    from scotoma.pipelines.schedules import Schedules
    from scotoma.printable import printable

    config = load_config(submission.path)
    cluster = connection.cluster(config.kubeflow)
    schedules = Schedules(cluster)
    scheduled = schedules.find(name or config.project)
    if scheduled is None:
        raise ConfigError(
            f"no schedule is called {name or config.project!r}; make it with scotoma pipeline "
            "schedule CONFIG --out PLACE"
        )
    history = schedules.history(scheduled)
    if connection.as_json:
        print_out(_json(scheduled, cluster.endpoint, **asdict(history)), sys.stdout)
        return
    code = "different code; schedule it again" if scheduled.stale else "this code"
    lines = {
        "enabled" if scheduled.enabled else "disabled": f"{scheduled.name}  {scheduled.root}",
        "cron": f"{scheduled.cron} in UTC",
        **_history_lines(history, scheduled),
        "code": f"compiled by {code}",
        "runs": _link(cluster.endpoint, scheduled),
    }
    text = "".join(f"{word:<10}{printable(value)}\n" for word, value in lines.items())
    print_out(text, sys.stdout)


def _history_lines(history: ScheduleHistory, scheduled: Schedule) -> dict[str, str]:
    """What comes next, what was audited, and which times passed without an audit."""
    since = f"since {_day_and_time(scheduled.since)}"
    lines = {}
    if history.next:
        lines["next"] = _day_and_time(history.next)
    lines["audits"] = f"none {since}"
    if history.last:
        last = f"the last began {_day_and_time(history.last)} and is {history.last_state}"
        lines["audits"] = f"{history.audits} {since}; {last}"
    if history.missed:
        lines["missed"] = (
            f"{len(history.missed)} of {history.times} times {since}, the last "
            f"{_day_and_time(history.missed[-1])}: no audit began. The reason is in "
            "kubectl logs -n kubeflow deployment/ml-pipeline-scheduledworkflow"
        )
    return lines


def _day_and_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _json(scheduled: Schedule, endpoint: str, **more: Any) -> str:
    values = asdict(scheduled) | {"stale": scheduled.stale, "link": _link(endpoint, scheduled)}
    return json.dumps(values | more, indent=1, default=datetime.isoformat) + "\n"


def _link(endpoint: str, scheduled: Schedule) -> str:
    return f"{endpoint}/#/recurringrun/details/{scheduled.schedule_id}"
