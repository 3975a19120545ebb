"""Which technique makes models fairer, at what cost, and is the gain still there when compressed?

Pure functions of arrays: values of training runs by technique, metric and variant.
"""

from __future__ import annotations

from scotoma.tournament.cells import (
    COSTS,
    FEWEST_RUNS,
    AccuracyCell,
    Cell,
    Tournament,
    compare_techniques,
)
from scotoma.tournament.correlation import MetricCorrelation, correlate_metrics
from scotoma.tournament.one_seed import OneSeedCell, compare_one_seed
from scotoma.tournament.paired import PairedCell, compare_paired, paired_permutation_p
from scotoma.tournament.resampled import resampled_bias
from scotoma.tournament.risk import single_run_risk
from scotoma.tournament.survival import SurvivalCell, equal_accuracy, fieller, survival_cells
from scotoma.tournament.technique_runs import TechniqueRuns, baselines
from scotoma.tournament.totals import Totals, count_totals

__all__ = [
    "COSTS",
    "FEWEST_RUNS",
    "AccuracyCell",
    "Cell",
    "MetricCorrelation",
    "OneSeedCell",
    "PairedCell",
    "SurvivalCell",
    "TechniqueRuns",
    "Totals",
    "Tournament",
    "baselines",
    "compare_one_seed",
    "compare_paired",
    "compare_techniques",
    "correlate_metrics",
    "count_totals",
    "equal_accuracy",
    "fieller",
    "paired_permutation_p",
    "resampled_bias",
    "single_run_risk",
    "survival_cells",
]
