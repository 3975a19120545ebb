"""The last step where one before it failed: MLflow is told, if it is a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scotoma.run import Run, read_json

__all__ = ["log"]

UNKNOWN = "a step ended without saying why; its logs do"


def log(run: Run) -> list[Path]:
    """Log that the audit failed, and why; a database beside the run is not made for that."""
    from scotoma.tracking import log_failure, tracking_uri

    uri = tracking_uri(run, dict(os.environ))
    if uri and not uri.startswith("sqlite:"):
        record = run.path("error.json")
        run.fetch(record)
        why = read_json(record)["message"] if record.exists() else UNKNOWN
        if reason := log_failure(run, why, uri):
            sys.stderr.write(f"not logged: {reason}\n")
    return []
