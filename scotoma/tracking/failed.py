"""An audit that did not end, in MLflow: that it was tried, and why there is no result."""

from __future__ import annotations

from scotoma.config import Config
from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.run import Run, portable, shareable
from scotoma.tracking.connection import experiment_id, fault, quiet
from scotoma.tracking.database import prepare_store

__all__ = ["log_failure", "log_skip"]

LONGEST = 5000  # of a tag


def log_failure(run: Run, why: str, uri: str) -> str:
    """Log one run `failed`, FAILED, beside the variants of other audits of the project.

    Args:
        run: The folder, of whose configuration the digest and a copy are logged.
        why: One sentence.
        uri: MLflow tracking URI.

    Returns:
        What kept it from being logged, as a sentence without credentials; empty if it was.
    """
    return _log(run.config, "failed", "FAILED", f"The audit failed: {why}", {}, uri)


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


def _log(config: Config, name: str, state: str, why: str, tags: dict[str, str], uri: str) -> str:
    """A run with the configuration and the reason; what kept it from being logged."""
    try:
        with quiet(uri):
            mlflow = needs("mlflow", "tracking", "tracking")
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            home = experiment_id(mlflow, client, uri, config.project)
            tags = tags | {
                "scotoma.audit": config.digest(),
                "mlflow.note.content": printable(why)[:LONGEST],
            }
            run_id = client.create_run(home, tags=tags, run_name=name).info.run_id
            client.log_text(run_id, portable(shareable(config)), "config.yaml")
            client.set_terminated(run_id, state)
    except ScotomaError as error:
        return str(error)
    except Exception as error:  # whatever MLflow raises, the audit's own failure is what counts
        return fault(error, uri)
    return ""
