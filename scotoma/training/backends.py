"""How the gradients of many members are had: stacked into one pass, or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from scotoma.training.stacked import Tensors, stacked_forward

__all__ = ["Backend", "Gradients", "Objective", "Tensors", "gradients"]

Backend = Literal["loop", "stacked"]
# Outputs and labels of one member's batch to one number.
Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# State, buffers, images and labels of K members, each tensor with a first axis of K, to their
# gradients, losses and new buffers.
Gradients = Callable[
    [Tensors, Tensors, torch.Tensor, torch.Tensor], tuple[Tensors, torch.Tensor, Tensors]
]


def gradients(
    template: torch.nn.Module,
    objective: Objective,
    backend: Backend,
    *,
    precision: torch.dtype = torch.float32,
) -> Gradients:
    """The gradient step of a population.

    Args:
        template: The architecture, in training mode; its own weights are not used.
        objective: Loss of one member's batch.
        backend: `stacked` makes one network of all members and wins for tiny ones of plain
            layers; `loop` takes the members in turn, images channels last, and serves any network.
        precision: Of the products; bfloat16 is autocast's, and weights stay as they are.

    Returns:
        A function without side effects.

    Raises:
        ValueError: The network has layers that cannot be stacked.
    """
    if backend == "stacked":
        forward = stacked_forward(template, precision)
        if forward is None:
            raise ValueError("a network with other layers than plain ones cannot be stacked")
        return _together(forward, torch.vmap(objective))
    return _in_turn(template, objective, precision)


def _together(
    forward: Callable[[Tensors, Tensors, torch.Tensor], torch.Tensor], objective: Objective
) -> Gradients:
    def step(
        state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        leaves = {name: value.detach().requires_grad_() for name, value in state.items()}
        updated = dict(buffers)
        values = objective(forward(leaves, updated, images), labels)
        # Members share no weight, so the gradient of the sum is each one's own.
        slopes = torch.autograd.grad(values.sum(), list(leaves.values()))
        return dict(zip(leaves, slopes, strict=True)), values.detach(), updated

    return step


def _in_turn(template: torch.nn.Module, objective: Objective, precision: torch.dtype) -> Gradients:
    def one(
        state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        leaves = {name: value.detach().requires_grad_() for name, value in state.items()}
        updated = {name: value.clone() for name, value in buffers.items()}
        pixels = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            outputs = torch.func.functional_call(template, (leaves, updated), (pixels,))
        value = objective(outputs.to(images.dtype), labels)
        slopes = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, slopes, strict=True)), value.detach(), updated

    def step(
        state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        found = [
            one(
                {name: value[k] for name, value in state.items()},
                {name: value[k] for name, value in buffers.items()},
                images[k],
                labels[k],
            )
            for k in range(len(images))
        ]
        slopes, values, updated = zip(*found, strict=True)
        return _stack(slopes), torch.stack(values), _stack(updated)

    return step


def _stack(members: tuple[Tensors, ...]) -> Tensors:
    return {name: torch.stack([member[name] for member in members]) for name in members[0]}
