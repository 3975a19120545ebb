"""Where are predictions kept? The matrix of N examples by K members, and its files."""

from __future__ import annotations

from scotoma.predictions.matrix import (
    TOP,
    Predictions,
    ScoredExamples,
    kept_classes,
    label_counts,
    smallest_type,
    write_predictions,
)
from scotoma.predictions.scores import ScoreHeads, read_heads, read_scores, write_scores

__all__ = [
    "TOP",
    "Predictions",
    "ScoreHeads",
    "ScoredExamples",
    "kept_classes",
    "label_counts",
    "read_heads",
    "read_scores",
    "smallest_type",
    "write_predictions",
    "write_scores",
]
