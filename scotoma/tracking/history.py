"""Every audit of a project that MLflow knows of: finished, failed, skipped."""

from __future__ import annotations

import datetime
import json
import tempfile
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.extras import home_of, needs
from scotoma.files import redact
from scotoma.tracking.connection import fault, prepare_store, quiet, sqlite_file

__all__ = ["history"]

STANDS_FOR = ("failed", "skipped")  # names of runs that no audit's result stands behind
SAYS = "mlflow.note.content"


def history(project: str, uri: str) -> list[dict[str, Any]]:
    """The audits of a project in the order in which they were logged.

    Args:
        project: Its name, which is that of the experiment.
        uri: MLflow tracking URI.

    Returns:
        Of each `at` (ISO 8601, UTC), `state` (`finished`, `failed`, `skipped`), `run` (the id of
        the MLflow run that stands for it), `reason` (why it has no result, as a sentence), and
        `audit` and `gate`, the content of its audit.json and gate.json; None where
        there is none.

    Raises:
        ScotomaError: MLflow is not installed, does not answer, or has no such project.
    """
    home_of("mlflow", "tracking", "tracking")
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        raise DataError(f"{database} must hold the runs of MLflow, got no such file; correct it")
    with quiet():
        mlflow = needs("mlflow", "tracking", "tracking")
        try:
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(project)
            if experiment is not None:
                runs = _runs(client, experiment.experiment_id)
                return [_past(client, run) for run in runs if _state(run)]
        except Exception as error:
            raise DataError(f"the audits cannot be had: {fault(error, uri)}") from error
    raise DataError(
        f"project {project!r} must have an experiment in MLflow, got none at {redact(uri)}; "
        "correct the name, or name the server in MLFLOW_TRACKING_URI"
    )


def _runs(client: Any, experiment_id: str) -> list[Any]:
    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment_id], order_by=["attributes.start_time ASC"], page_token=token
        )
        found.extend(page)
        token = page.token
        if not token:
            return found


def _state(run: Any) -> str:
    """What a run says of an audit; empty for those of the compressed variants, and unfinished."""
    if run.info.run_name in STANDS_FOR and "scotoma.variant" not in run.data.tags:
        return str(run.info.run_name)
    finished = run.info.status == "FINISHED" and run.data.tags.get("scotoma.variant") == "dense"
    return "finished" if finished else ""


def _past(client: Any, run: Any) -> dict[str, Any]:
    at = datetime.datetime.fromtimestamp(run.info.start_time / 1000, datetime.UTC)
    state = _state(run)
    found = {
        "at": at.isoformat(timespec="seconds"),
        "state": state,
        "run": run.info.run_id,
        "reason": "" if state == "finished" else run.data.tags.get(SAYS, ""),
        "audit": None,
        "gate": None,
    }
    if state == "finished":
        there = {file.path for file in client.list_artifacts(run.info.run_id)}
        for name in ("audit", "gate"):
            if f"{name}.json" in there:
                found[name] = _json(client, run.info.run_id, f"{name}.json")
    return found


def _json(client: Any, run_id: str, name: str) -> Any:
    """Content of an artifact; None where it is not JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = client.download_artifacts(run_id, name, folder)
        try:
            return json.loads(Path(path).read_bytes())
        except (ValueError, RecursionError):
            return None
