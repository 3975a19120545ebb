"""What do members learn? The pieces that a fairer way of training replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Recipe
from scotoma.training.randomness import minibatch

__all__ = ["Objective", "Sampler", "TrainingTask", "classification", "cross_entropy"]

# Outputs (..., B, outputs), labels (..., B) and attributes (..., B, A) of a batch of each of any
# number of members to their losses (...).
Objective = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
# Seed, step, batch size and number of examples to the rows of a batch.
Sampler = Callable[[int, int, int, int], NDArray[np.int64]]


def cross_entropy(
    outputs: torch.Tensor,
    labels: torch.Tensor,
    attributes: torch.Tensor,
    *,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Compute the mean cross-entropy of each member's labels; attributes play no part.

    Args:
        outputs: Scores, shape (..., B, outputs).
        labels: Class ids, shape (..., B).
        attributes: Codes, shape (..., B, A).
        label_smoothing: Share of each label that is spread over all classes, in [0, 1).

    Returns:
        The loss of every member, shape (...).

    >>> labels = torch.zeros(2, 3, dtype=torch.long)
    >>> cross_entropy(torch.zeros(2, 3, 4), labels, torch.zeros(2, 3, 0)).exp()
    tensor([4., 4.])
    """
    losses = torch.nn.functional.cross_entropy(
        outputs.flatten(0, -2),
        labels.flatten(),
        reduction="none",
        label_smoothing=label_smoothing,
    )
    return losses.view(labels.shape).mean(-1)


@dataclass(frozen=True)
class TrainingTask:
    """The learning task, whatever the network and the recipe.

    Attributes:
        outputs: Scores of the network for one image: one a class, and those of further heads.
        objective: From the scores, labels and attributes of batches to the losses.
        sampler: Which rows a member sees at a step; a function of its seed and the step.
    """

    outputs: int
    objective: Objective = cross_entropy
    sampler: Sampler = minibatch


def classification(classes: int, recipe: Recipe) -> TrainingTask:
    """Build the task of an audit's members: to name the class, by cross-entropy.

    >>> classification(10, Recipe(label_smoothing=0.2)).outputs
    10
    """
    return TrainingTask(classes, partial(cross_entropy, label_smoothing=recipe.label_smoothing))
