"""Predictions: the matrix of N examples by K members, and its files."""

from __future__ import annotations

from scotoma.predictions.files import PredictionFile, write_predictions
from scotoma.predictions.matrix import TOP, Predictions, kept_classes, label_counts, smallest_type

__all__ = [
    "TOP",
    "PredictionFile",
    "Predictions",
    "kept_classes",
    "label_counts",
    "smallest_type",
    "write_predictions",
]
