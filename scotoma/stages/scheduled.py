"""The first and the last step of a scheduled audit: is it due, is there anything new, what came.

Below the root of a schedule lie a folder an audit, named by when it was due, `jobs/` with a file a
run of the pipeline, and `schedule.json`: when the last audit was due, and of what the last that
finished was made.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from scotoma import storage
from scotoma.config import Config, Retraining
from scotoma.config.cron import Cron
from scotoma.config.newest import Newest
from scotoma.errors import ConfigError, ScotomaError
from scotoma.mirror import Mirror, local_folder
from scotoma.runs import Run, code_digest, read_json, write_json
from scotoma.stages.beginning import begun, read_configuration
from scotoma.stages.newest import resolved

__all__ = ["NOTHING", "begin", "end"]

EARLY = datetime.timedelta(minutes=2)  # by which clocks of a cluster may differ
SCHEDULE = "schedule.json"
MOST = 100  # due times that are counted
NOTHING = "nothing"  # to do; an empty text is easily lost between steps


def begin(root: str, job: str, since: str, config: str, rules: str) -> str:
    """Begin an audit, if one is due and there is anything new.

    Args:
        root: Folder or `s3://BUCKET/PREFIX` of the schedule.
        job: Id of the pipeline's run; asked again, a step that is retried answers the same.
        since: When the schedule was made, ISO 8601; what was due before is not.
        config: Configuration (YAML) with a section `retraining`.
        rules: Gate file (YAML); empty for the default rules.

    Returns:
        Where the audit runs; `NOTHING` if there is nothing to do. That there was nothing new is
        logged to MLflow as a run `skipped`, that nothing began at earlier times as one `missed`.

    Raises:
        ScotomaError: The newest input cannot be had, or the places cannot be read or written.
    """
    home = _home(root)
    mine = _record(home, job)
    found = _read(home, mine)
    if found.get("begun"):
        return str(found["run_uri"]) or NOTHING
    asked = read_configuration(config)
    schedule = _read(home, home.root / SCHEDULE)
    if not found:  # else an earlier try was cut off: it goes on, whatever else is due by now
        due, lost = _due(asked.retraining, since, schedule.get("due"))
        if due is None:
            return NOTHING
        found = {"run_uri": storage.join(root, f"{due:%Y-%m-%dT%H%MZ}"), "begun": False}
        _write(home, mine, found)
        _write(home, home.root / SCHEDULE, schedule | {"due": due.isoformat()})
        if lost:
            _say_missed(_run(home, found["run_uri"], asked), lost)
    run_uri = str(found["run_uri"])
    try:
        audited, newest = resolved(asked, run_uri)
    except ScotomaError as error:
        run = Run.create(run_uri, asked)
        write_json(run.path("error.json"), {"message": str(error), "exit_code": error.exit_code})
        run.publish(run.path("error.json"))
        raise
    made_of = {
        "newest": None if newest is None else str(newest),
        "config": audited.digest(),
        "rules": hashlib.sha256(rules.encode()).hexdigest(),
        "code": code_digest(),
    }
    if newest is not None and schedule.get("made_of") == made_of:
        _say_skipped(_run(home, run_uri, audited), newest)
        _write(home, mine, {"run_uri": "", "begun": True})
        return NOTHING
    begun(run_uri, audited, rules, newest=newest)
    _write(home, mine, {"run_uri": run_uri, "begun": True, "made_of": made_of})
    return run_uri


def end(root: str, job: str, pointer: str, ended: str) -> None:
    """Log the audit of a run of the pipeline, or that it failed; nothing where none began.

    Args:
        root: As of `begin`.
        job: As of `begin`.
        pointer: As of `scotoma.stages.execute`.
        ended: How the steps before this one ended.
    """
    from scotoma.stages import execute

    home = _home(root)
    mine = _read(home, _record(home, job))
    run_uri = str(mine.get("run_uri", ""))
    if not run_uri:
        write_json(Path(pointer), {"run_uri": "", "files": {}})
        return
    execute("log", run_uri, pointer, ended=ended)
    if ended == "SUCCEEDED":
        schedule = _read(home, home.root / SCHEDULE)
        _write(home, home.root / SCHEDULE, schedule | {"made_of": mine["made_of"]})


def _due(
    retraining: Retraining | None, since: str, served: str | None
) -> tuple[datetime.datetime | None, list[datetime.datetime]]:
    """The last due time, if it was not served yet, and the first ones before it that were not."""
    if retraining is None:
        raise ConfigError(
            "a scheduled audit needs the section `retraining`, and the pipeline's configuration "
            "has none; schedule it again"
        )
    now = datetime.datetime.now(datetime.UTC)
    cron, zone = Cron.parse(retraining.cron), ZoneInfo(retraining.time_zone)
    due = cron.last(zone, now + EARLY)
    before = max(datetime.datetime.fromisoformat(text) for text in (since, served) if text)
    if due is None or due <= before:
        return None, []
    return due, [time for time in cron.next_few(zone, before, MOST) if time < due]


def _run(home: Mirror, run_uri: str, config: Config) -> Run:
    """A run of which nothing is made."""
    return Run(local_folder(run_uri), config, home.uri and run_uri)


def _say_missed(run: Run, lost: list[datetime.datetime]) -> None:
    from scotoma.tracking import log_missed, tracking_uri

    times = ", ".join(f"{time:%Y-%m-%d %H:%M}" for time in lost[:3])
    more = f" and {'at least ' if len(lost) == MOST else ''}{len(lost) - 3} times more"
    why = f"nothing began when it was due, UTC: {times}{more if len(lost) > 3 else ''}"
    uri = tracking_uri(run, dict(os.environ))
    if uri and (reason := log_missed(run.config, why, uri)):
        sys.stderr.write(f"not logged: {reason}\n")


def _say_skipped(run: Run, newest: Newest) -> None:
    from scotoma.tracking import log_skip, tracking_uri

    why = f"nothing new: {newest} was audited before, with this configuration, gate and code"
    uri = tracking_uri(run, dict(os.environ))
    if uri and (reason := log_skip(run.config, str(newest), why, uri)):
        sys.stderr.write(f"not logged: {reason}\n")


def _home(root: str) -> Mirror:
    return Mirror(local_folder(root), root if storage.is_remote(root) else "")


def _record(home: Mirror, job: str) -> Path:
    if not re.fullmatch(r"[\w-]{1,100}", job):
        raise ConfigError(
            f"the id of a scheduled run is letters, digits and dashes, got {job!r}; Kubeflow "
            "Pipelines 2.17 or later gives it"
        )
    return home.root / "jobs" / f"{job}.json"


def _read(home: Mirror, path: Path) -> dict[str, Any]:
    home.fetch([path])
    found: dict[str, Any] = read_json(path) if path.exists() else {}
    return found


def _write(home: Mirror, path: Path, value: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, dict(value))
    home.publish([path])
