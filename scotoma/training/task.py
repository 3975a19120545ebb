"""What members learn: the pieces that a fairer way of training replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Recipe
from scotoma.training.randomness import minibatch

__all__ = ["Objective", "Sampler", "Task", "classification", "cross_entropy"]

# Outputs, labels and attributes of one member's batch to one number.
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
    """Mean cross-entropy of the labels; attributes play no part.

    Args:
        outputs: Scores, shape (B, outputs).
        labels: Class ids, shape (B,).
        attributes: Codes, shape (B, A).
        label_smoothing: Share of each label that is spread over all classes, in [0, 1).

    Returns:
        A scalar.
    """
    return torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=label_smoothing)


@dataclass(frozen=True)
class Task:
    """What is learnt, whatever the network and the recipe.

    Attributes:
        outputs: Scores of the network for one image: one a class, and those of further heads.
        objective: From the scores, labels and attributes of a batch to the loss.
        sampler: Which rows a member sees at a step; a function of its seed and the step.
    """

    outputs: int
    objective: Objective = cross_entropy
    sampler: Sampler = minibatch


def classification(classes: int, recipe: Recipe) -> Task:
    """What an audit's members learn: to name the class, by cross-entropy.

    >>> classification(10, Recipe(label_smoothing=0.2)).outputs
    10
    """
    return Task(classes, partial(cross_entropy, label_smoothing=recipe.label_smoothing))
