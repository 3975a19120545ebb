"""The previous audit of a project, from MLflow: what the next one is compared with."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.tracking.connection import fault, quiet
from scotoma.tracking.database import holds_experiments, prepare_store, sqlite_file

__all__ = ["logged_previous"]

# The dense variant is logged last: where its run has ended, the whole audit is there.
FINISHED = "tags.`scotoma.variant` = 'dense' and attributes.status = 'FINISHED'"
AHEAD_S = 86400  # an audit that began more than a day after now was logged by a clock that jumped
NEWEST_FIRST = ["attributes.start_time DESC"]


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
        Id of its dense run and its audit.json as it was logged; None where there is none.

    Raises:
        ScotomaError: MLflow is not installed, does not answer or does not give the file.
    """
    database = sqlite_file(uri)
    if database is not None and not holds_experiments(database):  # nothing was ever logged there
        return None
    with quiet(uri):
        mlflow = needs("mlflow", "tracking", "tracking")
        try:
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(project)
            for run in _finished_audits(client, experiment) if experiment else ():
                with tempfile.TemporaryDirectory() as folder:
                    path = client.download_artifacts(run.info.run_id, "audit.json", folder)
                    content = Path(path).read_bytes()
                if hashlib.sha256(content).hexdigest() != besides and not _repeats(content, setup):
                    return str(run.info.run_id), content
        except Exception as error:
            raise DataError(f"the previous audit cannot be read: {fault(error, uri)}") from error
    return None


def _repeats(content: bytes, setup: str) -> bool:
    """Whether an audit.json is made from the same; one that cannot be read is not."""
    try:
        fingerprint = json.loads(content).get("fingerprint") or {}
    except (ValueError, AttributeError):
        return False
    return bool(setup) and fingerprint.get("setup") == setup


def _finished_audits(client: Any, experiment: Any) -> Iterator[Any]:
    """List the dense runs of an experiment's finished audits, newest first; none of the future."""
    query = f"{FINISHED} and attributes.start_time <= {int(1000 * (time.time() + AHEAD_S))}"
    token = None
    while True:
        page = client.search_runs(
            [experiment.experiment_id], query, order_by=NEWEST_FIRST, page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return
