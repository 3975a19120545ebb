"""The audit before this one: brought into the run's folder once, an input of its verdict."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from scotoma import checksums, storage
from scotoma.config import Config
from scotoma.config.gate import GateRules, SinceLastRule
from scotoma.errors import DataError, ScotomaError
from scotoma.files import file_digest
from scotoma.mirror import Mirror
from scotoma.runs import Run, read_json, write_json
from scotoma.verdict.since_last import Last, kept

__all__ = ["NAME", "fetch_last", "leave_last", "margin_of", "read_last", "with_last"]

NAME = "last.json"
MARGIN = 0.01  # where the configuration says no more than that it is asked
FIRST = "the project has no earlier audit in MLflow"
UNTRACKED = "MLflow is off, or no server is named; name the last audit with --against"


def fetch_last(run: Run) -> list[Path]:
    """Bring the project's last audit into the folder, if this one is to be compared with it.

    What was found once stays, so that a run that is taken up is judged as it began; what could not
    be had is asked for again.

    Args:
        run: Its configuration says whether, and MLflow what.

    Returns:
        The file; none where the configuration asks for no comparison and nobody left one.
    """
    path, margin = run.path(NAME), margin_of(run.config)
    last, known = read_last(run.mirror)
    if margin is not None:
        if last is None or last.missing:
            last, known = _from_mlflow(run), None
        if margin != known:
            _write(run.mirror, last, margin)
    return [path] if path.exists() else []


def leave_last(folder: Mirror, place: str, margin: float | None = None) -> None:
    """Leave an audit that lies elsewhere as the last one.

    Args:
        folder: Of the run that is to be compared with it.
        place: Folder of the last audit, or its `s3://BUCKET/PREFIX`.
        margin: By how much a number may rise; None for what the folder says, if it does.

    Raises:
        DataError: There is no audit, or it is not what an audit writes.
    """
    address = storage.join(place, "audit.json")
    if not storage.exists(address):
        raise DataError(f"--against must name a finished audit, got no {address}; correct it")
    if margin is None:
        margin = read_last(folder)[1]
    _write(folder, _read(storage.read_bytes(address), place), MARGIN if margin is None else margin)
    checksums.amend(folder, [NAME])


def margin_of(config: Config) -> float | None:
    """By how much a number may rise since the last audit; None where nobody asks."""
    asked = False if config.retraining is None else config.retraining.no_worse_than_previous
    if asked is False:
        return None
    return MARGIN if asked is True else float(asked)


def read_last(folder: Mirror) -> tuple[Last | None, float | None]:
    """The last audit of a run, and by how much a number may rise since; None where there is none.

    Raises:
        DataError: The file is not what an audit leaves.
    """
    path = folder.root / NAME
    folder.fetch([path])
    if not path.exists():
        return None, None
    try:
        found = read_json(path)
        last = Last(
            audit=found["audit"] and kept(found["audit"]),
            **{key: str(found[key]) for key in ("of", "sha256", "reason")},
            missing=found["missing"] is True,
        )
        return last, float(found["margin"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{folder.place(path)} must be what an audit leaves; remove it") from error


def with_last(rules: GateRules, margin: float | None) -> GateRules:
    """The rules, and the one about the last audit, unless they have their own.

    >>> from scotoma.config.gate import default_rules
    >>> [rule.id for rule in with_last(default_rules(positive=False), 0.02).rules][-1]
    'since_last'
    """
    if margin is None or any(isinstance(rule, SinceLastRule) for rule in rules.rules):
        return rules
    ids = [rule.id for rule in rules.rules]
    name = "since_last"
    while name in ids:  # a gate file may call another rule so
        name += "_"
    return rules.model_copy(
        update={"rules": [*rules.rules, SinceLastRule(id=name, metric="since_last", margin=margin)]}
    )


def _from_mlflow(run: Run) -> Last:
    from scotoma.tracking import tracking_uri
    from scotoma.tracking.last import last_audit

    uri = tracking_uri(run, dict(os.environ))
    if not uri:
        return Last(None, reason=UNTRACKED)
    mine = run.path("audit.json")
    run.fetch(mine)
    try:
        found = last_audit(run.config.project, uri, file_digest(mine) if mine.exists() else "")
        return _read(found[1], f"MLflow run {found[0]}") if found else Last(None, reason=FIRST)
    except ScotomaError as error:  # a tracking server that is down does not end an audit
        return Last(None, reason=str(error), missing=True)


def _read(content: bytes, of: str) -> Last:
    audit: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        audit = json.loads(content)
    return Last(kept(audit), of, hashlib.sha256(content).hexdigest())


def _write(folder: Mirror, last: Last, margin: float) -> None:
    path = folder.root / NAME
    write_json(path, {"version": 1, "margin": margin, **vars(last)})
    folder.publish([path])
