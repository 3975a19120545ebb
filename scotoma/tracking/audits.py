"""Which audits of a project does MLflow know: finished, failed, skipped, the previous one?"""

from __future__ import annotations

import datetime
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.audit.reading import LoggedAudit
from scotoma.errors import DataError
from scotoma.extras import home_of
from scotoma.printable import printable
from scotoma.run import Run, portable, shareable
from scotoma.storage.credentials import masked
from scotoma.tracking.connection import (
    DATA_DATE,
    UNATTACHED,
    cause,
    does_not_answer,
    experiment_id,
    fault,
    holds_experiments,
    mlflow_client,
    pages_of,
    reading,
    runs_of,
    sqlite_file,
)
from scotoma.tracking.kubeflow import PARENT, kubeflow_run
from scotoma.tracking.records import NOTE

if TYPE_CHECKING:
    from scotoma.config import Config

WITHOUT_RESULT = ("failed", "skipped")  # names of runs
PAGE = "report.html"  # of megabytes; audit.json, gate.json and the chart of the months stay
RETENTION = "scotoma.retention"  # a tag: what was deleted, and why
AHEAD_S = 86400  # an audit that began more than a day after now was logged by a clock that jumped


def history(project: str, uri: str) -> list[LoggedAudit]:
    """Fetch the audits of a project in the order in which they were logged.

    Args:
        project: Its name, which is that of the experiment.
        uri: MLflow tracking URI.

    Returns:
        Audits; one whose files cannot be read has a reason instead of them.

    Raises:
        ScotomaError: MLflow is not installed, does not answer, or has no such project.
    """
    home_of("mlflow", "tracking", "tracking")
    database = sqlite_file(uri)
    if database is not None and not holds_experiments(database):
        raise DataError(
            f"{database} must hold the runs of MLflow, got none; name the folder of mlflow.db with "
            "--runs, or the server in MLFLOW_TRACKING_URI"
        )
    with reading(uri, "the audits cannot be read") as client:
        experiment = client.get_experiment_by_name(project)
        if experiment is not None:
            return logged_audits(client, experiment.experiment_id)
    raise DataError(
        f"project {project!r} must have an experiment in MLflow, got none at {masked(uri)}; "
        "correct the name, or name the folder of mlflow.db with --runs or the server in "
        "MLFLOW_TRACKING_URI"
    )


def logged_audits(client: Any, experiment_id: str, most: int | None = None) -> list[LoggedAudit]:
    """Fetch the audits of an experiment in the order in which they were logged.

    Args:
        client: Of MLflow.
        experiment_id: Id of the project's experiment.
        most: How many, the newest; None for all.
    """
    newest = islice(filter(_state, runs_of(client, experiment_id)), most)
    return [_past(client, run) for run in reversed(list(newest))]


def logged_previous(
    project: str, uri: str, besides: str = "", setup: str = ""
) -> tuple[str, bytes] | None:
    """Fetch the newest finished audit of a project.

    Args:
        project: Its name, which is that of the experiment.
        uri: MLflow tracking URI.
        besides: SHA-256 of the audit.json that asks, which is not its own predecessor.
        setup: What the audit that asks is made from: an audit of the same is no predecessor, for
            repeating it would compare it with itself.

    Returns:
        Id of its run and its audit.json as it was logged; None where there is none.

    Raises:
        ScotomaError: MLflow is not installed, does not answer or does not give the file.
    """
    database = sqlite_file(uri)
    if database is not None and not holds_experiments(database):  # nothing was ever logged there
        return None
    with reading(uri, "the previous audit cannot be read") as client:
        experiment = client.get_experiment_by_name(project)
        if experiment is None:
            return None
        latest = int(1000 * (time.time() + AHEAD_S))
        query = f"attributes.status = 'FINISHED' and attributes.start_time <= {latest}"
        for run in runs_of(client, experiment.experiment_id, query):
            if not _stands_for_an_audit(run):
                continue
            content = _content(client, run.info.run_id, "audit.json")
            if hashlib.sha256(content).hexdigest() != besides and not _repeats(content, setup):
                return str(run.info.run_id), content
    return None


def forget_pages(runs: Iterable[str], note: str, uri: str) -> str:
    """Delete the page of old audits, and write down that it was; their numbers stay.

    Args:
        runs: Ids of the runs of one audit.
        note: What is deleted and why, for the tag.
        uri: MLflow tracking URI.

    Returns:
        What kept it from being done, as a sentence without credentials; empty if it was.
    """
    try:
        with mlflow_client(uri) as (client, _):
            for run in runs:
                _forget(client, run, note)
    except Exception as error:
        return fault(error, uri)
    return ""


def _forget(client: Any, run: str, note: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if PAGE in [file.path for file in client.list_artifacts(run)]:
        where = client.get_run(run).info.artifact_uri
        artifacts: Any = get_artifact_repository(where, tracking_uri=client.tracking_uri)
        artifacts.delete_artifacts(PAGE)
    client.set_tag(run, RETENTION, note)


def _stands_for_an_audit(run: Any) -> bool:
    """Whether a run is that of an audit; of one that 0.1.0 logged, the run of its dense models."""
    tags = run.data.tags
    if "scotoma.result" not in tags:
        return False
    variant = tags.get("scotoma.variant")
    return variant is None or (variant == "dense" and PARENT not in tags)


def _state(run: Any) -> str:
    """Say what a run tells about an audit; empty for variants, and for unfinished runs."""
    tags = run.data.tags
    if run.info.run_name in WITHOUT_RESULT and "scotoma.variant" not in tags:
        return str(run.info.run_name)
    ended = run.info.status == "FINISHED" or (run.info.status == "FAILED" and UNATTACHED in tags)
    return "finished" if ended and _stands_for_an_audit(run) else ""


def _past(client: Any, run: Any) -> LoggedAudit:
    """One audit; its files may lie where this machine cannot read."""
    info, tags = run.info, run.data.tags
    at = datetime.datetime.fromtimestamp(info.start_time // 1000, datetime.UTC)
    logged = LoggedAudit(
        at, _state(run), str(info.run_id), data_date=str(tags.get(DATA_DATE, ""))
    )  # fmt: skip
    try:
        return _read(client, run, logged)
    except Exception as error:
        if does_not_answer(error):
            raise
        return replace(
            logged, reason=f"its files are not to be had: {cause(error, client.tracking_uri)}"
        )


def _read(client: Any, run: Any, logged: LoggedAudit) -> LoggedAudit:
    info, tags = run.info, run.data.tags
    if pages := pages_of(client.tracking_uri):
        page = f"{pages}/#/experiments/{info.experiment_id}/runs/{logged.run}"
        logged = replace(logged, page=page)
    if logged.state != "finished":
        return replace(logged, reason=tags.get(NOTE, ""))
    if why := tags.get(UNATTACHED, ""):
        verdict = f"the verdict is {tags.get('scotoma.verdict', 'not logged')}"
        return replace(logged, reason=f"{verdict}; not logged: {why}")
    there = {file.path for file in client.list_artifacts(logged.run)}
    report = f"{logged.page}/artifacts/{PAGE}" if pages else f"{info.artifact_uri}/{PAGE}"
    if PAGE in there and report.startswith(("http://", "https://", "file://")):
        logged = replace(logged, report=report)
    if {"audit.json", "gate.json"} <= there:
        files = (_content(client, logged.run, name) for name in ("audit.json", "gate.json"))
        return logged.with_files(*files)
    return logged


def _content(client: Any, run_id: str, name: str) -> bytes:
    """Download the content of an artifact."""
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(run_id, name, folder)).read_bytes()


def _repeats(content: bytes, setup: str) -> bool:
    """Whether an audit.json is made from the same; one that cannot be read is not."""
    try:
        fingerprint = json.loads(content).get("fingerprint") or {}
    except (ValueError, AttributeError):
        return False
    return bool(setup) and fingerprint.get("setup") == setup


PLACE = "scotoma.place"  # of an audit that did not end: what is logged when it is resumed
LONGEST = 5000  # of a tag


def log_failure(run: Run, why: str, uri: str, *, cancelled: bool = False, job: str = "") -> str:
    """Log one run `failed`, FAILED, or `cancelled`, KILLED, beside those of the project's audits.

    Args:
        run: The folder, of whose configuration the digest and a copy are logged.
        why: One sentence.
        uri: MLflow tracking URI.
        cancelled: Whether somebody ended it.
        job: Id of the run in Kubeflow; empty outside a pipeline.

    Returns:
        What kept it from being logged, as a sentence without credentials; empty if it was.
    """
    tags = {PLACE: audit_place(run)}
    if cancelled:
        note = f"The audit was cancelled: {why}"
        return _log(run.config, "cancelled", "KILLED", note, tags, uri, job)
    return _log(run.config, "failed", "FAILED", f"The audit failed: {why}", tags, uri, job)


def close_failures(client: Any, experiment: str, run: Run) -> None:
    """Mark what `log_failure` logged of an audit that has ended since: `resumed`, FINISHED.

    Args:
        client: Of MLflow.
        experiment: Id of the project's experiment.
        run: The folder of the audit.
    """
    unended = f"tags.`{PLACE}` != '' and attributes.status != 'FINISHED'"
    for logged in list(runs_of(client, experiment, unended)):
        tags = logged.data.tags
        if tags[PLACE] == audit_place(run) and "scotoma.result" not in tags:
            client.update_run(logged.info.run_id, status="FINISHED", name="resumed")


def audit_place(run: Run, uri: str = "") -> str:
    """The folder of an audit, without those of this machine above it where others read it.

    Args:
        run: The audit.
        uri: Where it is logged; a database of this machine is read by this machine.
    """
    local = str(run.root.resolve()) if uri.startswith("sqlite:") else run.root.name
    return printable(run.uri or local)[:LONGEST]


def log_skip(config: Config, newest: str, why: str, uri: str) -> str:
    """Log one run `skipped`, KILLED: there was nothing new to audit.

    Args:
        config: What would have been audited.
        newest: The newest input, as the tag `scotoma.newest`.
        why: One sentence.
        uri: MLflow tracking URI.

    Returns:
        See `log_failure`.
    """
    tags = {"scotoma.newest": printable(newest)[:LONGEST]}
    return _log(config, "skipped", "KILLED", f"The audit was skipped: {why}", tags, uri)


def _log(
    config: Config, name: str, state: str, why: str, tags: dict[str, str], uri: str, job: str = ""
) -> str:
    """A run with the configuration and the reason; what kept it from being logged."""
    try:
        with mlflow_client(uri) as (client, _):
            home = experiment_id(client, config.project)
            pipeline = kubeflow_run(client, config, job)
            if pipeline.root is not None:
                tags = tags | {PARENT: pipeline.root.info.run_id}
            tags = tags | pipeline.tags() | {
                "scotoma.audit": config.digest(),
                "mlflow.note.content": printable(why)[:LONGEST],
                **({DATA_DATE: config.data_date} if config.data_date else {}),
            }  # fmt: skip
            run_id = client.create_run(home, tags=tags, run_name=name).info.run_id
            client.log_text(run_id, portable(shareable(config)), "config.yaml")
            client.set_terminated(run_id, state)
    except Exception as error:  # whatever MLflow raises, the audit's own failure is what counts
        return fault(error, uri)
    return ""
