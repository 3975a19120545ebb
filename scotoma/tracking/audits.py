"""Which audits of a project does MLflow know: finished, failed, skipped, the previous one?"""

from __future__ import annotations

import datetime
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scotoma.audit.logged import LoggedAudit
from scotoma.errors import DataError, ScotomaError
from scotoma.extras import home_of, needs
from scotoma.storage.credentials import masked
from scotoma.tracking.connection import (
    DATA_DATE,
    UNATTACHED,
    cause,
    does_not_answer,
    fault,
    pages_of,
    quiet,
)
from scotoma.tracking.database import holds_experiments, prepare_store, sqlite_file
from scotoma.tracking.kubeflow import PARENT
from scotoma.tracking.records import NOTE

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
    with _client(uri, "the audits cannot be read") as client:
        experiment = client.get_experiment_by_name(project)
        if experiment is not None:
            return logged_audits(client, experiment.experiment_id, uri)
    raise DataError(
        f"project {project!r} must have an experiment in MLflow, got none at {masked(uri)}; "
        "correct the name, or name the folder of mlflow.db with --runs or the server in "
        "MLFLOW_TRACKING_URI"
    )


def logged_audits(
    client: Any, experiment_id: str, uri: str, most: int | None = None
) -> list[LoggedAudit]:
    """Fetch the audits of an experiment in the order in which they were logged.

    Args:
        client: Of MLflow.
        experiment_id: Id of the project's experiment.
        uri: MLflow tracking URI, of which links are made.
        most: How many, the newest; None for all.
    """
    runs: list[Any] = []
    for run in _runs(client, experiment_id, "", "attributes.start_time DESC"):
        if len(runs) == most:
            break
        if _state(run):
            runs.append(run)
    return [_past(client, run, uri) for run in reversed(runs)]


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
    with _client(uri, "the previous audit cannot be read") as client:
        experiment = client.get_experiment_by_name(project)
        if experiment is None:
            return None
        latest = int(1000 * (time.time() + AHEAD_S))
        query = f"attributes.status = 'FINISHED' and attributes.start_time <= {latest}"
        order = "attributes.start_time DESC"
        for run in _runs(client, experiment.experiment_id, query, order):
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
        with quiet(uri):
            mlflow = needs("mlflow", "tracking", "tracking")
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            for run in runs:
                _forget(client, run, note, uri)
    except ScotomaError as error:
        return str(error)
    except Exception as error:
        return fault(error, uri)
    return ""


def _forget(client: Any, run: str, note: str, uri: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if PAGE in [file.path for file in client.list_artifacts(run)]:
        where = client.get_run(run).info.artifact_uri
        artifacts: Any = get_artifact_repository(where, tracking_uri=uri)
        artifacts.delete_artifacts(PAGE)
    client.set_tag(run, RETENTION, note)


@contextmanager
def _client(uri: str, failed: str) -> Iterator[Any]:
    """A client of MLflow; whatever goes wrong in the block is one sentence."""
    with quiet(uri):
        mlflow = needs("mlflow", "tracking", "tracking")
        try:
            prepare_store(uri)
            yield mlflow.MlflowClient(tracking_uri=uri)
        except ScotomaError:
            raise
        except Exception as error:
            raise DataError(f"{failed}: {fault(error, uri)}") from error


def _runs(client: Any, experiment_id: str, query: str, order: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, order_by=[order], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


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


def _past(client: Any, run: Any, uri: str) -> LoggedAudit:
    """One audit; its files may lie where this machine cannot read."""
    try:
        return _read(client, run, pages_of(uri))
    except Exception as error:
        if does_not_answer(error):
            raise
        at = datetime.datetime.fromtimestamp(run.info.start_time // 1000, datetime.UTC)
        date = str(run.data.tags.get(DATA_DATE, ""))
        reason = f"its files are not to be had: {cause(error, uri)}"
        return LoggedAudit(at, "finished", str(run.info.run_id), reason, data_date=date)


def _read(client: Any, run: Any, pages: str) -> LoggedAudit:
    at = datetime.datetime.fromtimestamp(run.info.start_time // 1000, datetime.UTC)
    state, run_id = _state(run), str(run.info.run_id)
    page = f"{pages}/#/experiments/{run.info.experiment_id}/runs/{run_id}" if pages else ""
    date = str(run.data.tags.get(DATA_DATE, ""))
    if state != "finished":
        reason = run.data.tags.get(NOTE, "")
        return LoggedAudit(at, state, run_id, reason, page=page, data_date=date)
    if why := run.data.tags.get(UNATTACHED, ""):
        verdict = f"the verdict is {run.data.tags.get('scotoma.verdict', 'not logged')}"
        reason = f"{verdict}; not logged: {why}"
        return LoggedAudit(at, state, run_id, reason, page=page, data_date=date)
    there = {file.path for file in client.list_artifacts(run_id)}
    place = str(run.info.artifact_uri)
    report = f"{page}/artifacts/{PAGE}" if page else f"{place}/{PAGE}"
    has_report = PAGE in there and report.startswith(("http://", "https://", "file://"))
    logged = LoggedAudit(at, state, run_id)
    if {"audit.json", "gate.json"} <= there:
        audit, gate = (_content(client, run_id, name) for name in ("audit.json", "gate.json"))
        logged = LoggedAudit.of(at, run_id, audit, gate)
    return replace(logged, page=page, report=report if has_report else "", data_date=date)


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
