"""What do members of several labels minimise? Losses on labels [N, L], and the adversary's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from scotoma.mitigation.learning.adversaries import reverse_gradient

__all__ = ["adversarial_loss", "label_weights", "weighted_binary_loss"]


def label_weights(labels: torch.Tensor) -> torch.Tensor:
    """Compute w_l = n_neg / n_pos of each label of the training set.

    Args:
        labels: 0 and 1, shape (N, L).

    Returns:
        Shape (L,); nan for a label that no example has, which cannot be weighted.

    >>> label_weights(torch.tensor([[1, 0], [0, 0], [0, 0], [0, 1]])).tolist()
    [3.0, 3.0]
    """
    positive = labels.sum(0).double()
    ratio = (len(labels) - positive) / positive
    return torch.where(positive > 0, ratio, torch.nan)


def weighted_binary_loss(
    scores: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Compute the mean binary cross-entropy, both terms of label l times w_l.

    Args:
        scores: Before the sigmoid, shape (..., B, L).
        labels: 0 and 1, shape (..., B, L).
        weights: w_l, shape (L,).

    Returns:
        Losses, shape (...).

    References:
        Wang et al. (2019), "Balanced Datasets Are Not Enough"; its published code.
    """
    each = functional.binary_cross_entropy_with_logits(
        scores, labels.to(scores.dtype), reduction="none"
    )
    return (each * weights.to(scores.dtype)).mean(dim=(-2, -1))


def adversarial_loss(
    task: torch.Tensor,
    feature_map: torch.Tensor,
    adversary: Callable[[torch.Tensor], torch.Tensor],
    groups: torch.Tensor,
    *,
    strength: float,
) -> torch.Tensor:
    """Compute the loss of A4 and A5: the task's, and that of an adversary it works against.

    Args:
        task: Loss of the task, a scalar.
        feature_map: Output map of a stage, shape (B, channels, H, W).
        adversary: From the flattened map to the scores of the groups.
        groups: Group codes, shape (B,).
        strength: lambda: the gradient into the network is that of the adversary times -lambda; 0
            in the first phase, when only the last layer and the adversary learn.

    Returns:
        A scalar, whose gradient trains the adversary to read groups and the network to hide them.
    """
    read = adversary(reverse_gradient(feature_map, strength))
    return task + functional.cross_entropy(read, groups)
