"""The first step of a scheduled audit, is there new input; and what its last step leaves for that.

Below the root of a schedule lie a folder for each audit, named by the id of its run in Kubeflow,
and `schedule.json`, which says what the last finished audit was made of.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import Any

from scotoma import storage
from scotoma.config import Config
from scotoma.config.gate import GateRules
from scotoma.errors import ConfigError, ScotomaError
from scotoma.run import Run, code_digest, read_json, write_json
from scotoma.run.judging import Judging
from scotoma.run.mirror import Mirror, local_folder
from scotoma.run.sources import Sources, read_sources, write_sources
from scotoma.run.step_logs import step_log
from scotoma.steps.inputs import look, resolved
from scotoma.steps.kubeflow.begin import begin_run, read_configuration, read_rules
from scotoma.steps.runner import error_recorded

NOTHING = "nothing"  # to do; an empty text is easily lost between steps
SKIPPED = "skipped.json"  # in the place of an audit that had nothing to do


def begin(root: str, job: str, config: str, rules: str) -> str:
    """Begin an audit, if there is anything new. A step that is retried goes on with its audit.

    Args:
        root: Folder or `s3://BUCKET/PREFIX` of the schedule.
        job: Id of the pipeline's run, which names the audit's folder.
        config: Configuration (YAML).
        rules: Gate file (YAML); empty for the default rules.

    Returns:
        The place of the audit; `NOTHING` if the last finished audit was made of the same input,
        configuration, rules and code. The place then gets `skipped.json`, MLflow a run `skipped`.

    Raises:
        ScotomaError: The newest input cannot be read, or the place cannot be written. The reason is
            also left in `error.json` of the place.
    """
    run_uri = place_of(root, job)
    step = "begin-scheduled"
    with step_log(run_uri, step), error_recorded(step, run_uri):
        return _begin(root, run_uri, read_configuration(config), read_rules(rules))


def _begin(root: str, run_uri: str, scheduled: Config, gate: GateRules | None) -> str:
    audited, newest = resolved(scheduled, run_uri)
    for record in ("error.json", SKIPPED):  # of an earlier try
        storage.remove(storage.join(run_uri, record))
    begun = storage.exists(storage.join(run_uri, "config.yaml"))
    seen = _seen(audited, read_sources(Mirror.of(root))) if newest and not begun else Sources()
    ingredients = _ingredients(audited, str(newest), gate, seen)
    if newest and not begun and _finished(root) == ingredients:
        _write(run_uri, SKIPPED, {"newest": str(newest)})  # the exit step and `status` look for it
        _log_skip(Run(local_folder(run_uri), audited), str(newest))
        return NOTHING
    begin_run(run_uri, audited, gate, newest)
    _write(run_uri, "scheduled.json", ingredients)
    return run_uri


def remember(run: Run) -> None:
    """Leave what a scheduled audit was made of where the next one looks; nothing of any other."""
    mark = run.path("scheduled.json")
    run.fetch(mark)
    if not mark.exists():
        return
    root = run.uri.rpartition("/")[0] if run.uri else str(run.root.parent)
    read = read_sources(run.mirror)
    write_sources(Mirror.of(root), read)
    ingredients = _ingredients(run.config, run.newest, Judging.of(run).rules, read)
    _write(root, "schedule.json", ingredients)


def _seen(config: Config, known: Sources) -> Sources:
    """The files that the audit would read; of none that prepare would refuse anything is known."""
    try:
        return look(config, known)
    except ScotomaError:
        return Sources()


def _ingredients(
    config: Config, newest: str | None, rules: GateRules | None, sources: Sources
) -> dict[str, Any]:
    """All that an audit is made of; `newest` tells the version of registered models."""
    registered = config.source.registered is not None
    keys = sorted({*sources.files} - ({"models"} if registered else set()))
    gate = rules.model_dump_json(exclude_unset=True) if rules else ""
    return {
        "newest": newest,
        "inputs": sources.key(*keys),
        "config": config.digest(),
        "rules": hashlib.sha256(gate.encode()).hexdigest(),
        "code": code_digest(),
    }


def _finished(root: str) -> Any:
    """The ingredients of the last finished audit; None before the first."""
    home = Mirror.of(root)
    record = home.root / "schedule.json"
    home.fetch([record])
    return read_json(record) if record.exists() else None


def _log_skip(run: Run, newest: str) -> None:
    from scotoma.tracking.audits import log_skip
    from scotoma.tracking.store import tracking_uri

    why = f"nothing new: {newest} was audited before, with this configuration, gate and code"
    uri = tracking_uri(run, dict(os.environ))
    if uri and (reason := log_skip(run.config, newest, why, uri)):
        sys.stderr.write(f"not logged: {reason}\n")


def place_of(root: str, job: str) -> str:
    """Return the place of the audit of one run of the pipeline.

    Raises:
        ConfigError: Kubeflow has not filled in the run's id.
    """
    if not re.fullmatch(r"[\w-]{1,100}", job):
        raise ConfigError(
            f"the id of a scheduled run is letters, digits and dashes, got {job!r}; use Kubeflow "
            "Pipelines 2.17 or later"
        )
    return storage.join(root, job)


def _write(place: str, name: str, value: dict[str, Any]) -> None:
    mirror = Mirror.of(place)
    mirror.root.mkdir(parents=True, exist_ok=True)
    write_json(mirror.root / name, value)
    mirror.publish([mirror.root / name])
