"""Which weights are zero when: magnitude pruning on the schedule of Zhu and Gupta (2017)."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

__all__ = ["cubic_sparsity", "magnitude_mask", "prunable", "pruned_count"]


def cubic_sparsity(step: int, *, final: float, begin: int, end: int, every: int) -> float:
    """Sparsity in force at a step.

    Args:
        step: Optimiser step, counted from 0.
        final: Sparsity from `end` on, a fraction in [0, 1).
        begin: Step of the first mask update.
        end: Step of the last one.
        every: Steps between updates; in between the sparsity stays.

    Returns:
        s_f + (s_i - s_f) (1 - (t - t0)/(n dt))^3 with s_i = 0, a fraction; 0 before `begin`.

    References:
        Zhu and Gupta (2017), "To prune, or not to prune", equation 1.

    >>> [round(cubic_sparsity(t, final=0.9, begin=100, end=500, every=100), 4)
    ...  for t in (99, 100, 199, 200, 500, 900)]
    [0.0, 0.0, 0.0, 0.5203, 0.9, 0.9]
    """
    if step < begin:
        return 0.0
    if step >= end:
        return final
    progress = (step - begin) // every * every / (end - begin)
    return final - final * (1 - progress) ** 3


def prunable(module: torch.nn.Module) -> tuple[str, ...]:
    """Names of the parameters that pruning may zero: conv and linear weights, nothing else."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
    return tuple(
        f"{name}.weight" if name else "weight"
        for name, child in module.named_modules()
        if isinstance(child, kinds)
    )


def pruned_count(size: int, sparsity: float) -> int:
    """How many of `size` weights are zero: the nearest whole number, halves to the even one.

    >>> pruned_count(10, 0.95), pruned_count(288, 0.9)
    (10, 259)
    """
    return int(np.rint(size * sparsity))


def magnitude_mask(weight: torch.Tensor, sparsity: float) -> torch.Tensor:
    """Keep the largest magnitudes of one layer.

    Args:
        weight: Any shape.
        sparsity: Fraction to remove, in [0, 1).

    Returns:
        Bool, the shape of `weight`; False for exactly `pruned_count` weights, none of them larger
        in magnitude than a kept one. Among equals the first in memory go.
    """
    remove = pruned_count(weight.numel(), sparsity)
    if remove == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    magnitude = weight.detach().abs().flatten()
    threshold = magnitude.kthvalue(remove).values
    keep = magnitude > threshold
    tied = magnitude == threshold
    spare = weight.numel() - remove - int(keep.sum())  # of the tied ones, the last stay
    keep |= tied & (tied.flip(0).cumsum(0).flip(0) <= spare)
    return keep.view_as(weight)
