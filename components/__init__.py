"""What are the steps of the pipeline? One file a Kubeflow component."""

from __future__ import annotations

from scotoma.components.begin_scheduled import begin_scheduled
from scotoma.components.decide_verdict import decide_verdict
from scotoma.components.find_slices import find_slices
from scotoma.components.gather_shards import gather_shards
from scotoma.components.import_models import import_models
from scotoma.components.log_tracking import log_tracking
from scotoma.components.measure_robustness import measure_robustness
from scotoma.components.paired_verdict import paired_verdict
from scotoma.components.predict_batch import predict_batch
from scotoma.components.prepare_data import prepare_data
from scotoma.components.prune_magnitude import prune_magnitude
from scotoma.components.quantize_int8 import quantize_int8
from scotoma.components.record_failure import record_failure
from scotoma.components.report_bias import report_bias
from scotoma.components.score_divergence import score_divergence
from scotoma.components.train_dense import train_dense
from scotoma.components.write_report import write_report

__all__ = [
    "begin_scheduled",
    "decide_verdict",
    "find_slices",
    "gather_shards",
    "import_models",
    "log_tracking",
    "measure_robustness",
    "paired_verdict",
    "predict_batch",
    "prepare_data",
    "prune_magnitude",
    "quantize_int8",
    "record_failure",
    "report_bias",
    "score_divergence",
    "train_dense",
    "write_report",
]
