"""An audit that did not end, in MLflow: that it was tried, and why there is no result."""

from __future__ import annotations

from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.runs import Run, portable
from scotoma.tracking.connection import experiment_id, fault, prepare_store, quiet

__all__ = ["log_failure"]

NAME = "failed"  # of the run
LONGEST = 5000  # of a tag


def log_failure(run: Run, why: str, uri: str) -> str:
    """Log one run, FAILED, beside the variants of other audits of the project.

    Args:
        run: The folder, of whose configuration the digest and a copy are logged.
        why: One sentence.
        uri: MLflow tracking URI.

    Returns:
        What kept it from being logged, as a sentence without credentials; empty if it was.
    """
    project, digest = run.config.project, run.config.digest()
    try:
        with quiet():
            mlflow = needs("mlflow", "tracking", "tracking")
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            home = experiment_id(mlflow, client, uri, project)
            note = printable(f"The audit failed: {why}")[:LONGEST]
            tags = {"scotoma.audit": digest, "mlflow.note.content": note}
            made = client.create_run(home, tags=tags, run_name=NAME).info.run_id
            text = run.path("config.yaml").read_text(encoding="utf-8")
            client.log_text(made, portable(text), "config.yaml")
            client.set_terminated(made, "FAILED")
    except ScotomaError as error:
        return str(error)
    except Exception as error:  # whatever MLflow raises, the audit's own failure is what counts
        return fault(error, uri)
    return ""
