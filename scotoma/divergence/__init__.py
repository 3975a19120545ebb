"""Which examples does compression change?"""

from __future__ import annotations

from scotoma.divergence.agreement import LedgerRow, flip_ledger
from scotoma.divergence.distances import (
    ByDistance,
    GroupByDistance,
    Threshold,
    by_distance,
    percentile_weights,
    subset_weights,
    threshold,
)
from scotoma.divergence.floor import VOTES, CieExcess, excess
from scotoma.divergence.scoring import CieCount, DivergenceScores, score
from scotoma.divergence.tables import (
    AccuracyRow,
    OverIndex,
    flip_rate,
    over_index,
    top1_table,
)

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
