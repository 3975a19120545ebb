"""Update weights from gradients: torch's optimisers over stacked members."""

from __future__ import annotations

import torch
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from scotoma.config import Recipe
from scotoma.training.stacked_network import Tensors

__all__ = ["fresh_memory", "update_weights"]

REMEMBERED = {"sgd": ("momentum",), "adamw": ("momentum", "squares")}
EPSILON = 1e-8  # of adamw: Kingma and Ba (2015)


def fresh_memory(parameters: Tensors, recipe: Recipe) -> Tensors:
    """Create the optimiser's memory before its first step: zeros, as `momentum/NAME`."""
    return {
        f"{what}/{name}": torch.zeros_like(value)
        for what in REMEMBERED[recipe.optimiser]
        for name, value in parameters.items()
    }


def update_weights(
    parameters: Tensors,
    memory: Tensors,
    gradient: Tensors,
    decayed: tuple[str, ...],
    *,
    step: int,
    rate: float,
    recipe: Recipe,
) -> None:
    """Take one step of the optimiser, in place.

    Args:
        parameters: By name, without gaps in memory; any number of members stacked.
        memory: The result of `fresh_memory`, laid out as the parameters are; changed too.
        gradient: By name.
        decayed: Names of the weights that decay.
        step: Optimiser steps done before this one.
        rate: Step size.
        recipe: Its optimiser, momentum, weight decay and rate of biases.
    """
    biases = [name for name in parameters if name.rpartition(".")[2] == "bias"]
    others = [name for name in parameters if name not in {*decayed, *biases}]
    groups = (
        (list(decayed), recipe.weight_decay, rate),
        (biases, 0.0, rate * recipe.bias_rate),
        (others, 0.0, rate),
    )
    for names, decay, size in groups:
        weights = [parameters[name] for name in names]
        slopes = [_laid_out_as(parameters[name], gradient[name]) for name in names]
        means, *squares = (
            [memory[f"{what}/{name}"] for name in names] for what in REMEMBERED[recipe.optimiser]
        )
        if recipe.optimiser == "sgd":
            sgd(
                weights, slopes, list(means), fused=True, weight_decay=decay, lr=size,
                momentum=recipe.momentum, dampening=0.0, nesterov=recipe.momentum > 0,
                maximize=False,
            )  # fmt: skip
        else:
            done = [torch.tensor(float(step), device=weight.device) for weight in weights]
            adamw(
                weights, slopes, means, squares[0], [], done, fused=True, amsgrad=False,
                beta1=recipe.momentum, beta2=recipe.adamw_squares, lr=size, weight_decay=decay,
                eps=EPSILON, maximize=False,
            )  # fmt: skip


def _laid_out_as(weight: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Bring a gradient into the weight's order: fused updates go through memory, not by index."""
    if slope.stride() == weight.stride():
        return slope
    return torch.empty_like(weight).copy_(slope)
