"""Compute the gradients of many members: stacked into one pass, or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch

from scotoma.training.placement import PROCESSOR
from scotoma.training.stacked_network import Tensors, stacked_forward
from scotoma.training.task import Objective

__all__ = ["Backend", "Batch", "Gradients", "gradients"]

Backend = Literal["loop", "stacked"]


class Batch(NamedTuple):
    """One batch of each of K members."""

    images: torch.Tensor  # normalised, shape (K, B, 3, H, W)
    labels: torch.Tensor  # class ids, shape (K, B)
    attributes: torch.Tensor  # codes, shape (K, B, A)


# State and buffers of K members, each tensor with a first axis of K, and a batch of each, to their
# gradients, losses and new buffers.
Gradients = Callable[[Tensors, Tensors, Batch], tuple[Tensors, torch.Tensor, Tensors]]


def gradients(
    template: torch.nn.Module,
    objective: Objective,
    backend: Backend,
    *,
    precision: torch.dtype = torch.float32,
    device: torch.device = PROCESSOR,
    compiled: bool = False,
) -> Gradients:
    """Build the function that computes the gradients of a population.

    Args:
        template: The architecture, in training mode; its own weights are not used.
        objective: Losses of members' batches.
        backend: `stacked` makes one network of all members and wins for tiny ones of plain
            layers; `loop` takes the members in turn, images channels last, and serves any network.
        precision: Type of the products; bfloat16 is autocast's, and weights stay as they are.
        device: Where the members are.
        compiled: Whether torch compiles the pass of `loop`, which pays where a GPU finishes
            operations sooner than a processor starts them.

    Returns:
        A function without side effects.

    Raises:
        ValueError: The network has layers that cannot be stacked.
    """
    if backend == "stacked":
        forward = stacked_forward(template, precision)
        if forward is None:
            raise ValueError("a network with other layers than plain ones cannot be stacked")
        return _together(forward, objective)
    return _in_turn(template, objective, precision, device, compiled=compiled)


def _together(
    forward: Callable[[Tensors, Tensors, torch.Tensor], torch.Tensor], objective: Objective
) -> Gradients:
    def step(
        state: Tensors, buffers: Tensors, batch: Batch
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        leaves = {name: value.detach().requires_grad_() for name, value in state.items()}
        updated = dict(buffers)
        outputs = forward(leaves, updated, batch.images)
        values = objective(outputs, batch.labels, batch.attributes)
        # Members share no weight, so the gradient of the sum is each one's own.
        slopes = torch.autograd.grad(values.sum(), list(leaves.values()))
        return dict(zip(leaves, slopes, strict=True)), values.detach(), updated

    return step


def _in_turn(
    template: torch.nn.Module,
    objective: Objective,
    precision: torch.dtype,
    device: torch.device,
    *,
    compiled: bool,
) -> Gradients:
    def member_loss(state: Tensors, buffers: Tensors, batch: Batch) -> tuple[torch.Tensor, Tensors]:
        updated = {name: value.clone() for name, value in buffers.items()}
        pixels = batch.images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            outputs = torch.func.functional_call(template, (state, updated), (pixels,))
        return objective(outputs.to(pixels.dtype), batch.labels, batch.attributes), updated

    loss_of = _compile(member_loss) if compiled else member_loss

    def step(
        state: Tensors, buffers: Tensors, batch: Batch
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        slopes = {name: torch.empty_like(value) for name, value in state.items()}
        updated = {name: torch.empty_like(value) for name, value in buffers.items()}
        losses = torch.empty(len(batch.images), dtype=batch.images.dtype, device=device)
        for k in range(len(batch.images)):
            leaves = {name: value[k].detach().requires_grad_() for name, value in state.items()}
            own = {name: value[k] for name, value in buffers.items()}
            loss, seen = loss_of(leaves, own, Batch(*(part[k] for part in batch)))
            slope = torch.autograd.grad(loss, list(leaves.values()))
            # Copied before the next member's pass, which may reuse the memory of this one's.
            losses[k] = loss.detach()
            for name, value in zip(leaves, slope, strict=True):
                slopes[name][k] = value
            for name, value in seen.items():
                updated[name][k] = value
        return slopes, losses, updated

    return step


def _compile(
    member_loss: Callable[[Tensors, Tensors, Batch], tuple[torch.Tensor, Tensors]],
) -> Callable[[Tensors, Tensors, Batch], tuple[torch.Tensor, Tensors]]:
    """Let torch start all operations of a pass as one, by the backend that needs no C compiler."""
    torch.compiler.reset()  # what is compiled for another network counts against a limit of 8
    return torch.compile(member_loss, backend="cudagraphs", dynamic=False)
