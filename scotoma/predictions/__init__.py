"""Predictions: the matrix of N examples by K members, and its files."""

from __future__ import annotations

from scotoma.predictions.files import PredictionFile, write_predictions
from scotoma.predictions.matrix import TOP, Predictions, kept_classes, label_counts, smallest_type
from scotoma.predictions.numbers import ScoredExamples
from scotoma.predictions.scores import ScoreHeads, ScoresFile, write_scores

__all__ = [
    "TOP",
    "PredictionFile",
    "Predictions",
    "ScoreHeads",
    "ScoredExamples",
    "ScoresFile",
    "kept_classes",
    "label_counts",
    "smallest_type",
    "write_predictions",
    "write_scores",
]
