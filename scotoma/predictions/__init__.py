"""Predictions: the matrix of N examples by K members, and its files."""

from __future__ import annotations

from scotoma.predictions.files import PredictionFile, write_predictions
from scotoma.predictions.matrix import Predictions, label_counts, smallest_type

__all__ = [
    "PredictionFile",
    "Predictions",
    "label_counts",
    "smallest_type",
    "write_predictions",
]
