"""What trained networks weigh, and what they predict where predictions are invented."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scotoma.predictions import Predictions
from scotoma.run import Run
from scotoma.steps.measures.gallery import network_predictions

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = ["numpy_weights", "write_network_predictions"]


def numpy_weights(model: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """List parameters and buffers of a network, as `Architecture.with_weights` takes them."""
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


def write_network_predictions(run: Run, predictions: Predictions) -> None:
    """Write that the first network predicts what the first member of its variant predicts."""
    path = network_predictions(run, predictions.variant)
    path.parent.mkdir(parents=True, exist_ok=True)
    first = replace(predictions, members=(0,), predicted=predictions.predicted[:, :1], scores=None)
    first.write(path)
