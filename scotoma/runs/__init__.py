"""How far do training runs lie apart, and which technique is fairer?"""

from __future__ import annotations

from scotoma.runs.comparing import (
    NO_POWER,
    compare_one_seed,
    compare_paired,
    compare_runs,
    spread,
)
from scotoma.runs.effects import THIS_TEST_SET
from scotoma.runs.finding import RunFinding, finding_rows
from scotoma.runs.finished import resampled_bias
from scotoma.runs.survival import equal_accuracy, survival
from scotoma.runs.table import ACCURACY, RunSets, VariantSets
from scotoma.runs.techniques import (
    FEWEST_RUNS,
    MetricCorrelation,
    Tournament,
    baselines,
    compare_techniques,
    count_totals,
)

__all__ = [
    "ACCURACY",
    "FEWEST_RUNS",
    "NO_POWER",
    "THIS_TEST_SET",
    "MetricCorrelation",
    "RunFinding",
    "RunSets",
    "Tournament",
    "VariantSets",
    "baselines",
    "compare_one_seed",
    "compare_paired",
    "compare_runs",
    "compare_techniques",
    "count_totals",
    "equal_accuracy",
    "finding_rows",
    "resampled_bias",
    "spread",
    "survival",
]
