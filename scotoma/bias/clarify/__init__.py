"""The 21 bias metrics of SageMaker Clarify, with intervals."""

from __future__ import annotations

from scotoma.bias.clarify.estimates import all_metrics, metric, metric_changes
from scotoma.bias.clarify.table import METRICS, Metric

__all__ = ["METRICS", "Metric", "all_metrics", "metric", "metric_changes"]
