"""How the gradients of many members are had: stacked into one call, or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

__all__ = ["Backend", "Gradients", "Objective", "Tensors", "gradients"]

Backend = Literal["loop", "vmap"]
Tensors = dict[str, torch.Tensor]
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
        backend: `vmap` stacks the members into every operation and wins for tiny networks;
            `loop` takes them in turn, images channels last, and wins from ResNet-8 up.
        precision: Of the products; bfloat16 is autocast's, and weights stay as they are.

    Returns:
        A function without side effects.
    """

    def loss(
        state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, Tensors]]:
        updated = {name: value.clone() for name, value in buffers.items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
            outputs = torch.func.functional_call(template, (state, updated), (images,))
        value = objective(outputs.to(images.dtype), labels)
        return value, (value, updated)

    if backend == "vmap":
        stacked = torch.func.vmap(torch.func.grad(loss, has_aux=True), randomness="error")

        def together(
            state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
        ) -> tuple[Tensors, torch.Tensor, Tensors]:
            slopes, (values, updated) = stacked(state, buffers, images, labels)
            return slopes, values.detach(), updated

        return together

    def in_turn(
        state: Tensors, buffers: Tensors, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        slopes: list[Tensors] = []
        values: list[torch.Tensor] = []
        updated: list[Tensors] = []
        for k in range(len(images)):
            leaves = {name: value[k].detach().requires_grad_() for name, value in state.items()}
            own = {name: value[k] for name, value in buffers.items()}
            pixels = images[k].contiguous(memory_format=torch.channels_last)
            value, (_, after) = loss(leaves, own, pixels, labels[k])
            slope = torch.autograd.grad(value, list(leaves.values()))
            slopes.append(dict(zip(leaves, slope, strict=True)))
            values.append(value.detach())
            updated.append(after)
        return _stack(slopes), torch.stack(values), _stack(updated)

    return in_turn


def _stack(members: list[Tensors]) -> Tensors:
    return {name: torch.stack([member[name] for member in members]) for name in members[0]}
