"""`scotoma kubeflow schedule`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from scotoma.commands.asking import Answer, argument, option
from scotoma.commands.kubeflow import SentOptions
from scotoma.errors import ConfigError


class ScheduleOptions(SentOptions):
    """What is repeated, and where its audits are stored."""

    config: Path = argument("Configuration (YAML) with a section `retraining`.")
    out: str | None = option(
        None, "Where to store the audits: s3://BUCKET/PREFIX, or a folder of the volume."
    )
    name: str | None = option(None, "Name of the schedule. Default: the project's.")
    show: bool = option(False, "Show the schedule; change nothing.", name="--status")

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.out is None and not self.show:
            yield "give --out (where to store the audits) or --status"


def schedule(options: ScheduleOptions) -> Answer:
    """Repeat an audit at the times of retraining.cron, each time with the newest data.

    Prints the schedule's id. Repeat the command after a change: it changes the schedule.
    """
    if options.out is None or options.show:
        return _shown(options)
    from scotoma.config.newest import asks_for_newest
    from scotoma.pipelines.documents import schedule_values
    from scotoma.pipelines.schedules import ScheduleRequest, Schedules
    from scotoma.pipelines.submission import (
        check_place,
        compiled,
        require_inputs,
        size_text,
    )

    config, kubeflow = options.audit(options.config)
    if config.retraining is None:
        raise ConfigError(
            f"a schedule needs the section `retraining`, and {options.config} has none; add it, "
            'such as retraining: {cron: "0 0 3 1 * *"}'
        )
    check_place(options.out, kubeflow)
    client = options.client(kubeflow)
    with compiled(config, kubeflow, options.rules, scheduled_root=options.out) as definition:
        if not asks_for_newest(config):  # which need not be there yet
            require_inputs(config, kubeflow, options.say)
        request = ScheduleRequest(
            name=options.name or config.project,
            project=config.project,
            experiment=kubeflow.experiment or config.project,
            definition=definition,
            cron=config.retraining.cron,
            root=options.out,
        )
        scheduled, change = Schedules(client).put(request)
        size = size_text(definition)
    values = schedule_values(scheduled, client.endpoint, change=change)
    notes = [
        f"{change:<10}{values['link']}",
        f"{'cron':<10}{scheduled.cron} in UTC",
        f"{'size':<10}{size}",
    ]
    return Answer(scheduled.schedule_id, values, notes)


def _shown(options: ScheduleOptions) -> Answer:
    from scotoma.config import load_config
    from scotoma.pipelines.documents import schedule_document, schedule_values
    from scotoma.pipelines.schedules import Schedules

    config = load_config(options.config)
    client = options.client(config.kubeflow)
    schedules = Schedules(client)
    name = options.name or config.project
    if (scheduled := schedules.find(name)) is None:
        raise ConfigError(
            f"no schedule is called {name!r}; make it with scotoma kubeflow schedule CONFIG --out "
            "PLACE"
        )
    history = schedules.history(scheduled)
    values = schedule_values(scheduled, client.endpoint, **asdict(history))
    notes = [f"runs      {values['link']}"]  # on a line of its own, so that it can be copied
    return Answer(schedule_document(scheduled, history), values, notes)
