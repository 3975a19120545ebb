"""Smooth weights over steps: by a moving average beside them, or one that they go back to."""

from __future__ import annotations

import torch

from scotoma.config import Recipe
from scotoma.training.stacked_network import Tensors

__all__ = ["averaged", "fresh_average", "update_average"]

PREFIX = "average/"


def fresh_average(tensors: Tensors, recipe: Recipe) -> Tensors:
    """Start the average before the first step: the values themselves, as `average/NAME`.

    Args:
        tensors: Parameters and buffers; what counts, such as batches seen, is left out.
        recipe: Its kind of averaging.

    Returns:
        Empty where nothing is averaged.
    """
    if recipe.averaging == "none":
        return {}
    return {f"{PREFIX}{n}": v.clone() for n, v in tensors.items() if v.is_floating_point()}


def update_average(memory: Tensors, tensors: Tensors, *, step: int, recipe: Recipe) -> None:
    """Move the average towards the values and, with `lookahead`, the values to it; in place.

    Args:
        memory: Holds the result of `fresh_average`.
        tensors: Parameters and buffers.
        step: The step before this call, from 0.
        recipe: Its averaging, with its decay, distance and ramp.

    References:
        Zhang et al. (2019), "Lookahead Optimizer: k steps forward, 1 step back", algorithm 1; their
        alpha is 1 - decay.
    """
    if recipe.averaging == "none" or (step + 1) % recipe.average_every:
        return
    averages, values = _pairs(memory, tensors)
    decay = recipe.average_decay * ((step + 1) / recipe.total_steps) ** recipe.average_ramp
    torch._foreach_lerp_(averages, values, 1 - decay)
    if recipe.averaging == "lookahead":
        torch._foreach_copy_(values, averages)


def averaged(memory: Tensors, tensors: Tensors) -> Tensors:
    """Replace parameters and buffers by their averages, where there are any."""
    return {name: memory.get(f"{PREFIX}{name}", value) for name, value in tensors.items()}


def _pairs(memory: Tensors, tensors: Tensors) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    names = [name for name in tensors if f"{PREFIX}{name}" in memory]
    return [memory[f"{PREFIX}{name}"] for name in names], [tensors[name] for name in names]
