"""The audit before this one: brought into the run's folder once, an input of its verdict."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma import storage
from scotoma.audit import parse_audit, read_audit, read_part, write_part
from scotoma.audit.previous import Comparable, PreviousAudit
from scotoma.config.gate import GateRules
from scotoma.config.gate_changes import SincePreviousRule
from scotoma.datasets.parts import part_digest
from scotoma.errors import DataError, ScotomaError
from scotoma.printable import printable
from scotoma.run import Run, checksums
from scotoma.run.mirror import Mirror
from scotoma.run.sources import read_sources
from scotoma.storage.files import file_digest

if TYPE_CHECKING:
    from scotoma.config import Config

PREVIOUS = "previous.json"
MARGIN = 0.01  # where the configuration says no more than that it is asked
FIRST = "the project has no earlier audit in MLflow"
UNTRACKED = "MLflow is off, or no server is named; name the previous audit with --previous"


def fetch_previous(run: Run) -> list[Path]:
    """Bring the project's previous audit into the folder, if this one is to be compared with it.

    What was there once stays, so that a run that is resumed is judged as it began; what could not
    be had is asked for again.

    Args:
        run: Its configuration says whether, and MLflow what.

    Returns:
        The file; none where the configuration asks for no comparison and nobody left one.
    """
    path, margin = run.path(PREVIOUS), margin_of(run.config)
    previous = read_previous(run.mirror)
    if margin is not None:
        if previous is None or previous.missing:
            _write(run.mirror, _from_mlflow(run), margin)
        elif margin != previous.margin:
            _write(run.mirror, previous, margin)
    return [path] if path.exists() else []


def leave_previous(folder: Mirror, place: str, margin: float | None = None) -> None:
    """Leave an audit that lies elsewhere as the previous one.

    Args:
        folder: Of the run that is to be compared with it.
        place: Folder of the previous audit, or its `s3://BUCKET/PREFIX`.
        margin: By how much a number may rise; None for what the folder says, if it does.

    Raises:
        DataError: There is no audit, it is not what an audit writes, was changed since, has scores,
            or rests on the same inputs as the audit in the folder.
    """
    address = storage.join(place, "audit.json")
    if not storage.exists(address):
        raise DataError(f"--previous must name a finished audit, got no {address}; correct it")
    if margin is None and (known := read_previous(folder)) is not None:
        margin = known.margin
    of = Mirror.of(place)
    of.fetch([of.root / "audit.json"])
    checksums.refuse_changed(of, ["audit.json"])
    previous = _read((of.root / "audit.json").read_bytes(), address, place)
    previous = previous.model_copy(update={"earlier": _earlier(read_previous(of), previous.audit)})
    _refuse_repetition(folder, previous, place)
    _write(folder, previous, MARGIN if margin is None else margin)
    checksums.amend(folder, [PREVIOUS])


def setup_digest(run: Run) -> str:
    """Compute what an audit is made from, before anything is answered.

    It is the configuration as far as it decides models and answers, what was read, and the test
    examples; neither tracking, nor rules, nor code.
    """
    sources = read_sources(run.mirror)
    parts = [part_digest(run, "training"), part_digest(run, "measured")]
    content = [run.config.models_digest(), sources.key(*sorted(sources.files)), *parts]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _earlier(before: PreviousAudit | None, audit: Comparable | None) -> Comparable | None:
    """What the previous audit was compared with, of other inputs than its own."""
    if before is None or before.audit is None or audit is None:
        return None
    return before.earlier if before.audit.same_inputs(audit) else before.audit


def _refuse_repetition(folder: Mirror, previous: PreviousAudit, place: str) -> None:
    """Refuse an audit of the same inputs, where nothing stands behind it to compare with."""
    own = folder.root / "audit.json"
    folder.fetch([own])
    if not own.is_file() or previous.audit is None or previous.earlier is not None:
        return
    if Comparable.of(read_audit(own, folder.place(own))).same_inputs(previous.audit):
        raise DataError(
            f"--previous must name an audit of other inputs, got {printable(place)} with the same "
            "examples and answers; name the audit before it"
        )


def margin_of(config: Config) -> float | None:
    """Say by how much a number may rise since the previous audit; None where nobody asks."""
    asked = False if config.retraining is None else config.retraining.no_worse_than_previous
    if asked is False:
        return None
    return MARGIN if asked is True else float(asked)


def read_previous(folder: Mirror) -> PreviousAudit | None:
    """Read the previous audit of a run; None where there is none.

    Raises:
        DataError: The file is not what an audit leaves.
    """
    path = folder.root / PREVIOUS
    folder.fetch([path])
    if not path.exists():
        return None
    return read_part(path, PreviousAudit, folder.place(path), way_out="remove it")


def with_previous(rules: GateRules, previous: PreviousAudit | None) -> GateRules:
    """Add the rule about the previous audit, unless the rules have their own.

    >>> from scotoma.config.gate import default_rules
    >>> previous = PreviousAudit(audit=None, margin=0.02)
    >>> [rule.id for rule in with_previous(default_rules(positive=False), previous).rules][-1]
    'since_previous'
    """
    if previous is None or previous.margin is None:
        return rules
    if any(isinstance(rule, SincePreviousRule) for rule in rules.rules):
        return rules
    ids = [rule.id for rule in rules.rules]
    name = "since_previous"
    while name in ids:  # a gate file may call another rule so
        name += "_"
    rule = SincePreviousRule(id=name, metric="since_previous", margin=previous.margin)
    return rules.model_copy(update={"rules": [*rules.rules, rule]})


def _from_mlflow(run: Run) -> PreviousAudit:
    from scotoma.tracking.audits import logged_previous
    from scotoma.tracking.store import tracking_uri

    uri = tracking_uri(run, dict(os.environ))
    if not uri:
        return PreviousAudit(audit=None, reason=UNTRACKED)
    own = run.path("audit.json")
    run.fetch(own)
    try:
        besides = file_digest(own) if own.exists() else ""
        setup = setup_digest(run)
        logged = logged_previous(run.config.project, uri, besides, setup)
        if logged is None:
            return PreviousAudit(audit=None, reason=FIRST)
        run_id, content = logged
        return _read(content, f"audit.json of MLflow run {run_id}", f"MLflow run {run_id}")
    except ScotomaError as error:  # a tracking server that is down does not end an audit
        return PreviousAudit(audit=None, reason=str(error), missing=True)


def _read(content: bytes, shown: str, of: str) -> PreviousAudit:
    audit = parse_audit(content, shown)
    if audit.scores is not None:
        raise DataError(
            f"the previous audit must have classes, got means of {printable(audit.scores.name)} in "
            f"{shown}; name another, or leave it out"
        )
    return PreviousAudit(
        audit=Comparable.of(audit),
        of=of,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _write(folder: Mirror, previous: PreviousAudit, margin: float) -> None:
    path = folder.root / PREVIOUS
    write_part(path, previous.model_copy(update={"margin": margin}))
    folder.publish([path])
