"""Old audits in MLflow: the pages go, the numbers that a trend is drawn from stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.tracking.connection import fault, quiet
from scotoma.tracking.database import prepare_store

__all__ = ["PAGE", "TAG", "forget_pages"]

TAG = "scotoma.retention"
PAGE = "report.html"  # of megabytes, one a variant; audit.json, gate.json and summary.md stay


def forget_pages(runs: Iterable[str], note: str, uri: str) -> str:
    """Delete the page of each run, and write down that it was.

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
    client.set_tag(run, TAG, note)
