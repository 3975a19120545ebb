"""Update weights from gradients: torch's optimisers over stacked members."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from scotoma.config import Recipe
from scotoma.training.stacked_network import Tensors

REMEMBERED = {
    "sgd": ("momentum",),
    "adamw": ("momentum", "squares"),
    "adam": ("momentum", "squares"),
}
EPSILON = 1e-8  # of adamw: Kingma and Ba (2015)


def fresh_memory(parameters: Tensors, recipe: Recipe) -> Tensors:
    """Create the optimiser's memory before its first step: zeros, as `momentum/NAME`."""
    return _zeros(parameters, recipe.optimiser)


def _zeros(parameters: Tensors, optimiser: str) -> Tensors:
    return {
        f"{what}/{name}": torch.zeros_like(value)
        for what in REMEMBERED[optimiser]
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
    members = len(next(iter(head.values())))
    return {**_zeros(head, "adam"), "adversary-steps": torch.zeros(members)}


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


def _laid_out_as(weight: Tensor, slope: Tensor) -> Tensor:
    """Bring a gradient into the weight's order: fused updates go through memory, not by index."""
    if slope.stride() == weight.stride():
        return slope
    return torch.empty_like(weight).copy_(slope)


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
    names = [name for name in tensors if f"{PREFIX}{name}" in memory]
    averages, values = [memory[f"{PREFIX}{name}"] for name in names], [tensors[n] for n in names]
    decay = recipe.average_decay * ((step + 1) / recipe.total_steps) ** recipe.average_ramp
    torch._foreach_lerp_(averages, values, 1 - decay)
    if recipe.averaging == "lookahead":
        torch._foreach_copy_(values, averages)


def averaged(memory: Tensors, tensors: Tensors) -> Tensors:
    """Replace parameters and buffers by their averages, where there are any."""
    return {name: memory.get(f"{PREFIX}{name}", value) for name, value in tensors.items()}


# Where the rate of one-cycle starts and ends, as Smith and Topin (2018) and torch have it.
STARTS_AT, ENDS_AT = 1 / 25, 1 / 25 / 1e4


def learning_rate(step: int, recipe: Recipe) -> float:
    """Compute the step size at a step.

    Args:
        step: Optimiser step, from 0.
        recipe: In steps. `cosine` and `linear` fall to 0 and `constant` stays, each after a linear
            warm-up; `one-cycle` rises along a cosine from a 25th of the peak and falls along one
            to a 10,000th of that.

    Returns:
        Above 0; at most `recipe.learning_rate`.

    >>> recipe = Recipe(steps=100, warmup=0.1, learning_rate=1.0)
    >>> [round(learning_rate(step, recipe), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    peak, steps = recipe.learning_rate, recipe.total_steps
    if recipe.schedule == "one-cycle":
        top = recipe.warmup * steps - 1  # where the peak lies, perhaps between two steps
        if step <= top:
            return peak * _between(STARTS_AT, 1.0, step / top if top > 0 else 1.0)
        return peak * _between(1.0, ENDS_AT, (step - top) / (steps - 1 - top))
    rising = max(1, round(recipe.warmup * steps))
    if step < rising:
        return peak * (step + 1) / rising
    progress = (step - rising) / max(1, steps - rising)
    match recipe.schedule:
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return peak * (1 - progress)
        case "constant":
            return peak


def _between(start: float, end: float, progress: float) -> float:
    """Go from `start` to `end` along half a cosine."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * progress))
