"""An audit that did not end, in MLflow: that it was tried, and why there is no result."""

from __future__ import annotations

from typing import Any

from scotoma.config import Config
from scotoma.printable import printable
from scotoma.run import Run, portable, shareable
from scotoma.tracking.connection import DATA_DATE, experiment_id, fault, mlflow_client, runs_of
from scotoma.tracking.kubeflow import PARENT, kubeflow_run

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
