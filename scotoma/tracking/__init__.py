"""Where are the runs logged? In MLflow: a run for each audit, its variants below it, its models."""

from __future__ import annotations

from scotoma.tracking.audits import forget_pages, history, log_failure, log_skip
from scotoma.tracking.connection import import_client
from scotoma.tracking.kubeflow import scalar_metrics
from scotoma.tracking.registry import Registered, register
from scotoma.tracking.store import Tracked, log_audit, tracking_uri

__all__ = [
    "Registered",
    "Tracked",
    "forget_pages",
    "history",
    "import_client",
    "log_audit",
    "log_failure",
    "log_skip",
    "register",
    "scalar_metrics",
    "tracking_uri",
]
