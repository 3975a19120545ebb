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
from scotoma.tournament.paired import PairedCell, compare_paired, paired_permutation_p
from scotoma.tournament.risk import single_run_risk
from scotoma.tournament.survival import SurvivalCell, fieller, survival_cells
from scotoma.tournament.technique_runs import TechniqueRuns, baselines
from scotoma.tournament.totals import Totals, count_totals

__all__ = [
    "COSTS",
    "FEWEST_RUNS",
    "AccuracyCell",
    "Cell",
    "MetricCorrelation",
    "PairedCell",
    "SurvivalCell",
    "TechniqueRuns",
    "Totals",
    "Tournament",
    "baselines",
    "compare_paired",
    "compare_techniques",
    "correlate_metrics",
    "count_totals",
    "fieller",
    "paired_permutation_p",
    "single_run_risk",
    "survival_cells",
]
