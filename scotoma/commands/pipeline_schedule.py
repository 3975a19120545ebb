"""The schedule commands: an audit on Kubeflow's calendar, off it, and what has become of it."""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scotoma.commands.gate import print_out
from scotoma.commands.pipeline import Reached, Submission, check_place
from scotoma.config import Config, Kubeflow, Retraining, load_config
from scotoma.config.cron import Cron
from scotoma.errors import ConfigError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.pipelines.schedules import Schedule

__all__ = ["run_schedule", "run_schedule_status", "run_unschedule"]

SHOWN = 3  # runs to come
LONGEST = 1000  # due times that are compared with runs, the last ones
MOST = 20  # missed ones that are printed


def run_schedule(asked: Submission, root: str, reached: Reached, *, name: str | None) -> None:
    """Put an audit on Kubeflow's calendar, or bring it up to date there.

    Args:
        asked: The audit; its configuration has a section `retraining`.
        root: `s3://BUCKET/PREFIX`, or a folder below `kubeflow.volume.mount`.
        reached: The cluster.
        name: Of the schedule; None for the project.

    Raises:
        ConfigError: The cluster cannot have what is asked for, or refuses it.
        ScotomaError: It does not answer.
    """
    from scotoma.pipelines.schedules import Schedules, Wanted

    config, kubeflow = asked.read()
    retraining = _retraining(config, asked.path)
    check_place(root, kubeflow, wait=False)
    now = datetime.datetime.now(datetime.UTC)
    zone = ZoneInfo(retraining.time_zone)
    wire = Cron.parse(retraining.cron).in_utc(zone, now)
    cluster = reached.cluster(kubeflow)
    with tempfile.TemporaryDirectory() as folder:
        definition = Path(folder, "pipeline.yaml")
        asked.compile(config, kubeflow, definition, scheduled=True)
        wanted = Wanted(
            name=name or config.project,
            experiment=kubeflow.experiment or config.project,
            definition=definition,
            cron=wire,
            root=root,
            description=f"Scotoma: {retraining.cron} in {retraining.time_zone}",
        )
        found, done = Schedules(cluster).put(wanted)
    coming = Cron.parse(retraining.cron).next_few(zone, now, SHOWN)
    console = reached.console
    link = _link(cluster.endpoint, found)
    for line in (f"{done:<10}{link}", f"{'wakes':<10}{wire} in UTC", *_lines("next", coming, zone)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    shown = _shown(found, link, coming, zone) | {"done": done}
    print_out(_json(shown) if reached.as_json else f"{found.schedule_id}\n", sys.stdout)


def run_schedule_status(path: Path, reached: Reached, *, name: str | None) -> None:
    """Print what Kubeflow's calendar has of an audit, whether by this code, and what was missed.

    Raises:
        ConfigError: There is no such schedule, or the cluster refuses to say.
        ScotomaError: It does not answer.
    """
    from scotoma.pipelines.schedules import Schedules, missed

    config = load_config(path)
    kubeflow = config.kubeflow or Kubeflow()
    retraining = _retraining(config, path)
    zone, cron = ZoneInfo(retraining.time_zone), Cron.parse(retraining.cron)
    now = datetime.datetime.now(datetime.UTC)
    cluster = reached.cluster(kubeflow)
    schedules = Schedules(cluster)
    found = schedules.find(name or config.project)
    if found is None:
        raise ConfigError(
            f"no schedule is called {name or config.project!r}; make it with scotoma pipeline "
            "schedule CONFIG --out ROOT"
        )
    woken = schedules.woken(found, kubeflow.experiment or config.project)
    due = _due_since(cron, zone, found.created_at, now)
    lost = missed(due, woken, now)
    coming = cron.next_few(zone, now, SHOWN) if found.enabled else []
    link = _link(cluster.endpoint, found)
    if reached.as_json:
        shown = _shown(found, link, coming, zone)
        shown |= {"due": len(due), "woken": len(woken), "missed": [t.isoformat() for t in lost]}
        print_out(_json(shown), sys.stdout)
        return
    state = "enabled" if found.enabled else "disabled"
    code = "made by other code than this: schedule it again" if found.stale else "made by this code"
    lines = [
        f"{state:<10}{printable(found.name)}  {found.root}",
        f"{'code':<10}{code}",
        *_lines("next", coming, zone),
        f"{'missed':<10}{len(lost)} of {len(due)} due since {_both(found.created_at, zone)}",
        *_lines("missed", lost[-MOST:], zone),
    ]
    print_out("".join(f"{line}\n" for line in lines), sys.stdout)


def run_unschedule(which: str, reached: Reached) -> None:
    """Take an audit off Kubeflow's calendar; its audits stay, and one that runs goes on.

    Args:
        which: A configuration, or the name of a schedule.
        reached: The cluster.
    """
    from scotoma.pipelines.schedules import Schedules

    name, kubeflow = which, Kubeflow()
    if Path(which).suffix in (".yaml", ".yml"):
        config = load_config(Path(which))
        name, kubeflow = config.project, config.kubeflow or Kubeflow()
    count = Schedules(reached.cluster(kubeflow)).remove(name)
    said = f"removed   {name}" if count else f"unchanged no schedule is called {name}"
    reached.console.print(printable(said), markup=False, highlight=False, soft_wrap=True)
    if reached.as_json:
        print_out(_json({"name": name, "removed": count}), sys.stdout)


def _retraining(config: Config, path: Path) -> Retraining:
    if config.retraining is None:
        raise ConfigError(
            f"a schedule needs the section `retraining`, and {path} has none; add it, such as "
            'retraining: {cron: "0 3 1 * *"}'
        )
    return config.retraining


def _due_since(
    cron: Cron, zone: ZoneInfo, since: datetime.datetime, now: datetime.datetime
) -> list[datetime.datetime]:
    """Due times until now, at most so many of the last."""
    found: list[datetime.datetime] = []
    time = cron.last(zone, now)
    while time is not None and time > since and len(found) < LONGEST:
        found.append(time)
        time = cron.last(zone, time - datetime.timedelta(microseconds=1))
    return found[::-1]


def _lines(word: str, times: list[datetime.datetime], zone: ZoneInfo) -> list[str]:
    return [f"{word:<10}{_both(time, zone)}" for time in times]


def _both(time: datetime.datetime, zone: ZoneInfo) -> str:
    """A time as people there read it, and in UTC.

    >>> _both(datetime.datetime(2026, 7, 1, 1, tzinfo=datetime.UTC), ZoneInfo("Europe/Berlin"))
    '2026-07-01 03:00 CEST  (2026-07-01 01:00 UTC)'
    """
    local = f"{time.astimezone(zone):%Y-%m-%d %H:%M %Z}"
    utc = f"{time.astimezone(datetime.UTC):%Y-%m-%d %H:%M UTC}"
    return utc if local == utc else f"{local}  ({utc})"


def _shown(
    found: Schedule, link: str, coming: list[datetime.datetime], zone: ZoneInfo
) -> dict[str, Any]:
    return asdict(found) | {
        "created_at": found.created_at.isoformat(),
        "stale": found.stale,
        "link": link,
        "next": [
            {"local": time.astimezone(zone).isoformat(), "utc": time.isoformat()} for time in coming
        ],
    }


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _link(endpoint: str, found: Schedule) -> str:
    return f"{endpoint}/#/recurringrun/details/{found.schedule_id}"
