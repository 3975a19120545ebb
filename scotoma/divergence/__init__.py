"""Which examples does compression change?"""

from __future__ import annotations

from scotoma.divergence.agreement import CieCount, DivergenceScores, LedgerRow, flip_ledger, score
from scotoma.divergence.distances import (
    AccuracyRow,
    ByDistance,
    GroupByDistance,
    OverIndex,
    Threshold,
    by_distance,
    flip_rate,
    over_index,
    percentile_weights,
    subset_weights,
    threshold,
    top1_table,
)
from scotoma.divergence.floor import VOTES, CieExcess, excess

__all__ = [
    "VOTES",
    "AccuracyRow",
    "ByDistance",
    "CieCount",
    "CieExcess",
    "DivergenceScores",
    "GroupByDistance",
    "LedgerRow",
    "OverIndex",
    "Threshold",
    "by_distance",
    "excess",
    "flip_ledger",
    "flip_rate",
    "over_index",
    "percentile_weights",
    "score",
    "subset_weights",
    "threshold",
    "top1_table",
]
