"""Which examples does compression change?"""

from __future__ import annotations

from scotoma.divergence.distances import ByDistance, GroupByDistance, by_distance
from scotoma.divergence.flips import LedgerRow, flip_ledger
from scotoma.divergence.floor import VOTES, CieExcess, excess
from scotoma.divergence.ranking import (
    Threshold,
    percentile_weights,
    subset_weights,
    threshold,
)
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
