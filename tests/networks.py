"""What trained networks predict, for audits whose predictions are invented."""

from __future__ import annotations

from dataclasses import replace

from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.stages.measures.parity import network_predictions

__all__ = ["write_network_predictions"]


def write_network_predictions(run: Run, predictions: Predictions) -> None:
    """Write that the first network predicts what the first member of its variant predicts."""
    path = network_predictions(run, predictions.variant)
    path.parent.mkdir(parents=True, exist_ok=True)
    first = replace(predictions, members=(0,), predicted=predictions.predicted[:, :1], scores=None)
    first.write(path)
