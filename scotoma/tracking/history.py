"""Every audit of a project that MLflow knows of: finished, failed, skipped."""

from __future__ import annotations

import datetime
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from scotoma.audit.logged import LoggedAudit
from scotoma.credentials import masked
from scotoma.errors import DataError
from scotoma.extras import home_of, needs
from scotoma.tracking.connection import DATA_DATE, UNATTACHED, fault, pages_of, quiet
from scotoma.tracking.database import holds_experiments, prepare_store, sqlite_file

__all__ = ["history"]

STANDS_FOR = ("failed", "skipped")  # names of runs without a result
NOTE = "mlflow.note.content"


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
    with quiet(uri):
        mlflow = needs("mlflow", "tracking", "tracking")
        try:
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(project)
            if experiment is not None:
                runs = _runs(client, experiment.experiment_id)
                return [_past(client, run, pages_of(uri)) for run in runs if _state(run)]
        except Exception as error:
            raise DataError(f"the audits cannot be read: {fault(error, uri)}") from error
    raise DataError(
        f"project {project!r} must have an experiment in MLflow, got none at {masked(uri)}; "
        "correct the name, or name the folder of mlflow.db with --runs or the server in "
        "MLFLOW_TRACKING_URI"
    )


def _runs(client: Any, experiment_id: str) -> list[Any]:
    runs: list[Any] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment_id], order_by=["attributes.start_time ASC"], page_token=token
        )
        runs.extend(page)
        token = page.token
        if not token:
            return runs


def _state(run: Any) -> str:
    """Say what a run tells about an audit; empty for compressed variants, and unfinished runs."""
    if run.info.run_name in STANDS_FOR and "scotoma.variant" not in run.data.tags:
        return str(run.info.run_name)
    tags = run.data.tags
    ended = run.info.status == "FINISHED" or (run.info.status == "FAILED" and UNATTACHED in tags)
    return "finished" if ended and tags.get("scotoma.variant") == "dense" else ""


def _past(client: Any, run: Any, pages: str) -> LoggedAudit:
    at = datetime.datetime.fromtimestamp(run.info.start_time // 1000, datetime.UTC)
    state, run_id = _state(run), str(run.info.run_id)
    page = f"{pages}/#/experiments/{run.info.experiment_id}/runs/{run_id}" if pages else ""
    if state != "finished":
        return LoggedAudit(at, state, run_id, run.data.tags.get(NOTE, ""), page=page)
    if why := run.data.tags.get(UNATTACHED, ""):
        verdict = f"the verdict is {run.data.tags.get('scotoma.verdict', 'not logged')}"
        date = str(run.data.tags.get(DATA_DATE, ""))
        return LoggedAudit(
            at, state, run_id, f"{verdict}; not logged: {why}", page=page, data_date=date
        )
    there = {file.path for file in client.list_artifacts(run_id)}
    place = str(run.info.artifact_uri)
    report = f"{page}/artifacts/report.html" if page else f"{place}/report.html"
    has_report = "report.html" in there and report.startswith(("http://", "https://", "file://"))
    logged = LoggedAudit(at, state, run_id)
    if {"audit.json", "gate.json"} <= there:
        audit, gate = (_content(client, run_id, name) for name in ("audit.json", "gate.json"))
        logged = LoggedAudit.of(at, run_id, audit, gate)
    return replace(
        logged,
        page=page,
        report=report if has_report else "",
        data_date=str(run.data.tags.get(DATA_DATE, "")),
    )


def _content(client: Any, run_id: str, name: str) -> bytes:
    """Download the content of an artifact."""
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(run_id, name, folder)).read_bytes()
