"""How members are trained: many at once as one stacked state, by one pure step function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Recipe
from scotoma.machine import has_fast_bfloat16
from scotoma.training.augmentation import augment
from scotoma.training.backends import Backend, Batch, Tensors, gradients
from scotoma.training.models import build_model
from scotoma.training.pruning import cubic_sparsity, magnitude_mask, prunable
from scotoma.training.task import Task

__all__ = [
    "Member",
    "TrainedMember",
    "learning_rate",
    "normalise",
    "products_precision",
    "train_members",
]


@dataclass(frozen=True)
class Member:
    """One model to train."""

    variant: str
    index: int  # in its population
    seed: int
    sparsity: float = 0.0


@dataclass(frozen=True)
class TrainedMember:
    """One trained model.

    Attributes:
        member: What was asked for.
        state: Parameters and buffers; masked weights are exactly 0.
        loss: Mean training loss of every tenth of the run (fewer where it has fewer steps).
    """

    member: Member
    state: Tensors
    loss: tuple[float, ...]


def normalise(pixels: torch.Tensor) -> torch.Tensor:
    """Pixels in [0, 255] to floats in [-1, 1]: what every model of ours is fed."""
    return pixels.float() / 127.5 - 1.0


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up to the peak, then a cosine to 0.

    >>> from scotoma.config import Recipe
    >>> recipe = Recipe(steps=100, warmup=0.1, learning_rate=1.0)
    >>> [round(learning_rate(step, recipe), 3) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    rising = max(1, round(recipe.warmup * recipe.steps))
    if step < rising:
        return recipe.learning_rate * (step + 1) / rising
    progress = (step - rising) / max(1, recipe.steps - rising)
    return float(recipe.learning_rate * 0.5 * (1 + np.cos(np.pi * progress)))


def products_precision(recipe: Recipe) -> torch.dtype:
    """What convolutions and products are computed in: bfloat16 where it is asked for or pays."""
    pays = recipe.precision == "auto" and has_fast_bfloat16()
    return torch.bfloat16 if pays or recipe.precision == "bfloat16" else torch.float32


def train_members(
    members: list[Member],
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    *,
    model: str,
    task: Task,
    recipe: Recipe,
    backend: Backend = "stacked",
    attributes: NDArray[np.int64] | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> list[TrainedMember]:
    """Train a chunk of members together.

    Masks are kept as shadows: a masked weight is 0 in the forward pass, goes on receiving the
    gradient of that 0, and can come back until the last update.

    Args:
        members: Seeds and sparsities; all of one model and one recipe.
        images: uint8, shape (N, 3, H, W).
        labels: Class ids, shape (N,).
        model: Name of the network.
        task: Outputs, objective and sampler.
        recipe: Steps, rates, augmentation and the pruning schedule.
        backend: How the members' gradients are had.
        attributes: Codes, shape (N, A), for objectives that look at them.
        progress: Called with the number of member-steps just done.

    Returns:
        The members, in the order given.
    """
    template = build_model(model, task.outputs, 0)
    state, buffers = _stack([build_model(model, task.outputs, member.seed) for member in members])
    masked = prunable(template)
    masks = {name: torch.ones_like(state[name], dtype=torch.bool) for name in masked}
    momentum = {name: torch.zeros_like(value) for name, value in state.items()}
    precision = products_precision(recipe)
    gradient_of = gradients(template, task.objective, backend, precision=precision)
    pixels, targets = torch.from_numpy(images), torch.from_numpy(labels)
    codes = torch.from_numpy(
        np.empty((len(labels), 0), np.int64) if attributes is None else attributes
    )
    begin, end, every = recipe.mask_updates
    marks = {round(part * recipe.steps / 10) for part in range(1, 11)}
    losses, running, since = [], torch.zeros(len(members)), 0

    for step in range(recipe.steps):
        if begin <= step <= end and (step - begin) % every == 0:
            _update_masks(masks, state, members, step, recipe)
        rows = torch.from_numpy(
            np.stack([task.sampler(m.seed, step, recipe.batch_size, len(labels)) for m in members])
        )
        shown = [
            augment(pixels[own], recipe.augmentation, seed=member.seed, step=step)
            for member, own in zip(members, rows, strict=True)
        ]
        batch = Batch(normalise(torch.stack(shown)), targets[rows], codes[rows])
        effective = {n: v * masks[n] if n in masks else v for n, v in state.items()}
        gradient, loss, buffers = gradient_of(effective, buffers, batch)
        _nesterov(state, momentum, gradient, masked, learning_rate(step, recipe), recipe)
        running, since = running + loss, since + 1
        if step + 1 in marks:
            losses.append(running / since)
            progress(since * len(members))
            running, since = torch.zeros(len(members)), 0

    curves = torch.stack(losses, dim=1).tolist()
    return [
        TrainedMember(
            member,
            {
                **{n: (v[k] * masks[n][k] if n in masks else v[k]) for n, v in state.items()},
                **{name: value[k] for name, value in buffers.items()},
            },
            tuple(curves[k]),
        )
        for k, member in enumerate(members)
    ]


def _stack(models: list[torch.nn.Module]) -> tuple[Tensors, Tensors]:
    """Parameters and buffers of many models, each stacked along a new first axis."""
    state, buffers = torch.func.stack_module_state(models)
    return {name: value.detach().clone() for name, value in state.items()}, dict(buffers)


def _nesterov(
    state: Tensors,
    momentum: Tensors,
    gradient: Tensors,
    decayed: tuple[str, ...],
    rate: float,
    recipe: Recipe,
) -> None:
    """One step of SGD with Nesterov momentum, in place, as torch.optim.SGD has it."""
    for name, value in state.items():
        slope = gradient[name]
        if name in decayed:
            slope = slope.add(value, alpha=recipe.weight_decay)
        momentum[name].mul_(recipe.momentum).add_(slope)
        value.sub_(slope.add(momentum[name], alpha=recipe.momentum), alpha=rate)


def _update_masks(
    masks: Tensors, state: Tensors, members: list[Member], step: int, recipe: Recipe
) -> None:
    begin, end, every = recipe.mask_updates
    for k, member in enumerate(members):
        if member.sparsity == 0:
            continue
        now = cubic_sparsity(step, final=member.sparsity, begin=begin, end=end, every=every)
        for name, mask in masks.items():
            mask[k] = magnitude_mask(state[name][k], now)
