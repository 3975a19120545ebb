"""What do adversaries read, and how do networks hide it? None is exported with its network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

FLAT = 1e-5  # norm of a gradient from which nothing is projected


def fresh_adversary(
    inputs: int, groups: int, seed: int, *, perceptron: bool = False
) -> dict[str, torch.Tensor]:
    """Initialise an adversary as torch's layers are.

    Args:
        inputs: Values that it reads of an example.
        groups: G.
        seed: Decides the values, and nothing else.
        perceptron: Whether it is `group_adversary` of A4 and A5; else a linear layer.

    Returns:
        Parameters by name; of a linear layer `weight`, shape (G, F), and `bias`, shape (G,).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = group_adversary(inputs, groups) if perceptron else nn.Linear(inputs, groups)
    return {name: value.detach().clone() for name, value in layers.named_parameters()}


def linear_head(read: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Compute an adversary's scores.

    Args:
        read: Features or scores of the network, shape (..., B, F).
        weight: Shape (..., G, F).
        bias: Shape (..., G).

    Returns:
        Scores of the groups, shape (..., B, G).
    """
    return read.to(weight.dtype) @ weight.transpose(-1, -2) + bias.unsqueeze(-2)


def projected(
    task: torch.Tensor, adversary: torch.Tensor, *, alpha: float, leading: int = 0
) -> torch.Tensor:
    """Take out of one gradient what helps the adversary, and go against the adversary.

    Args:
        task: u, the gradient of the task's loss by one parameter tensor.
        adversary: v, the gradient of the adversary's loss by the same tensor.
        alpha: Weight of going against the adversary.
        leading: First axes over which members are stacked; each is projected by itself.

    Returns:
        u - alpha v - proj_v(u), of the same shape; u - alpha v where the norm of v is at most 1e-5.

    References:
        Zhang, Lemoine, Mitchell (2018), "Mitigating Unwanted Biases with Adversarial Learning",
        equation 1. The fixed-seed study calls it gradient reversal; its code projects per tensor.

    >>> u, v = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0])
    >>> projected(u, v, alpha=0.0).tolist(), projected(u, v, alpha=2.0).tolist()
    ([0.0, 4.0], [-2.0, 4.0])
    """
    own = tuple(range(leading, task.ndim)) or None
    square = (adversary * adversary).sum(own, keepdim=True) if own else adversary * adversary
    product = (task * adversary).sum(own, keepdim=True) if own else task * adversary
    steep = square.sqrt() > FLAT
    share = torch.where(steep, product / torch.where(steep, square, 1), 0)
    return task - alpha * adversary - share * adversary


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, strength: float) -> torch.Tensor:
        ctx.strength = strength
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:
        return -ctx.strength * slopes[0], None


def reverse_gradient(values: torch.Tensor, strength: float) -> torch.Tensor:
    """Pass values on, and their gradient back times -strength.

    References:
        Ganin and Lempitsky (2015), "Unsupervised Domain Adaptation by Backpropagation".

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> reverse_gradient(3 * x, 2.0).backward()
    >>> x.grad.item()
    -6.0
    """
    return _Reverse.apply(values, strength)  # type: ignore[no-any-return]


def group_adversary(inputs: int, groups: int = 2, *, width: int = 300) -> nn.Module:
    """Build the adversary of A4 and A5: a perceptron on a flattened feature map.

    Args:
        inputs: Values of the map: 1024 x 14 x 14 for A4, 2048 x 7 x 7 for A5 at 224 pixels.
        groups: Outputs.
        width: Of each of three hidden layers, followed by batch normalisation and LeakyReLU.

    References:
        Wang et al. (2019), "Balanced Datasets Are Not Enough", section 4.
    """
    hidden: list[nn.Module] = []
    for size in [inputs, width, width]:
        normalised = nn.BatchNorm1d(width, track_running_stats=False)  # only ever in training
        hidden += [nn.Linear(size, width), normalised, nn.LeakyReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, groups))


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
