"""Where are the runs logged? In MLflow: one flat run per variant, one run per member."""

from __future__ import annotations

from scotoma.tracking.connection import import_client
from scotoma.tracking.failed import log_failure, log_skip
from scotoma.tracking.history import history
from scotoma.tracking.metric_names import metric_names
from scotoma.tracking.registry import Registered, register
from scotoma.tracking.retention import forget_pages
from scotoma.tracking.scalars import scalar_metrics
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
    "metric_names",
    "register",
    "scalar_metrics",
    "tracking_uri",
]
