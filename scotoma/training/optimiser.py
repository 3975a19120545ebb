"""Update weights from gradients: torch's optimisers over stacked members."""

from __future__ import annotations

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from scotoma.config import Recipe
from scotoma.training.stacked_network import Tensors

__all__ = ["forget_steps", "fresh_head_memory", "fresh_memory", "update_head", "update_weights"]

REMEMBERED = {
    "sgd": ("momentum",),
    "adamw": ("momentum", "squares"),
    "adam": ("momentum", "squares"),
}
EPSILON = 1e-8  # of adamw: Kingma and Ba (2015)


def fresh_memory(parameters: Tensors, recipe: Recipe) -> Tensors:
    """Create the optimiser's memory before its first step: zeros, as `momentum/NAME`."""
    return {
        f"{what}/{name}": torch.zeros_like(value)
        for what in REMEMBERED[recipe.optimiser]
        for name, value in parameters.items()
    }


def forget_steps(memory: Tensors) -> None:
    """Empty the optimiser's memory, in place; an average of weights stays.

    >>> memory = {"momentum/w": torch.ones(1), "average/w": torch.ones(1)}
    >>> forget_steps(memory)
    >>> memory["momentum/w"].item(), memory["average/w"].item()
    (0.0, 1.0)
    """
    for name, value in memory.items():
        if name.partition("/")[0] in ("momentum", "squares"):
            value.zero_()


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
            update = adam if recipe.optimiser == "adam" else adamw
            update(
                weights, slopes, means, squares[0], [], done, fused=True, amsgrad=False,
                beta1=recipe.momentum, beta2=recipe.adamw_squares, lr=size, weight_decay=decay,
                eps=EPSILON, maximize=False,
            )  # fmt: skip


def fresh_head_memory(head: Tensors) -> Tensors:
    """Create the memory of an adversary's Adam: zeros, and the number of its steps by member."""
    zeros = {
        f"{what}/{name}": torch.zeros_like(value)
        for what in REMEMBERED["adam"]
        for name, value in head.items()
    }
    members = len(next(iter(head.values())))
    return {**zeros, "adversary-steps": torch.zeros(members)}


def update_head(values: Tensors, slopes: Tensors, rate: float) -> None:
    """Take one step of Adam for an adversary, in place.

    Args:
        values: Hold the adversary by name, and the result of `fresh_head_memory`.
        slopes: Its gradients by name.
        rate: Step size.
    """
    names = list(slopes)
    steps = values["adversary-steps"]
    done = [steps[0].clone() for _ in names]
    adam(
        [values[name] for name in names],
        [slopes[name].contiguous() for name in names],
        [values[f"momentum/{name}"] for name in names],
        [values[f"squares/{name}"] for name in names],
        [], done, foreach=False, amsgrad=False, beta1=0.9, beta2=0.999, lr=rate,
        weight_decay=0.0, eps=EPSILON, maximize=False,
    )  # fmt: skip
    steps += 1


def _laid_out_as(weight: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Bring a gradient into the weight's order: fused updates go through memory, not by index."""
    if slope.stride() == weight.stride():
        return slope
    return torch.empty_like(weight).copy_(slope)
