"""What changed between two models on the same examples, and for whom?

Pure functions of arrays: right and wrong answers or any other score, a column a model, rows of one
cluster where an example was evaluated again.
"""

from __future__ import annotations

from scotoma.comparison.arrays import Comparison, compare
from scotoma.comparison.bias_scores import BiasScore, bias_scores
from scotoma.comparison.flips import Flip, flips
from scotoma.comparison.means import (
    GroupScoreEffect,
    MeanChange,
    affected,
    group_effects,
    mean_change,
)
from scotoma.comparison.quantiles import QuantileChange, quantile_change
from scotoma.comparison.reruns import RerunFloor, align_reruns, rerun_floor

__all__ = [
    "BiasScore",
    "Comparison",
    "Flip",
    "GroupScoreEffect",
    "MeanChange",
    "QuantileChange",
    "RerunFloor",
    "affected",
    "align_reruns",
    "bias_scores",
    "compare",
    "flips",
    "group_effects",
    "mean_change",
    "quantile_change",
    "rerun_floor",
]
