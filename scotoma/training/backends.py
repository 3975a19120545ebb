"""How the gradients of many members are had: stacked into one pass, or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch

from scotoma.training.placement import PROCESSOR
from scotoma.training.stacked import Tensors, stacked_forward
from scotoma.training.task import Objective

__all__ = ["Backend", "Batch", "Gradients", "Tensors", "gradients"]

Backend = Literal["loop", "stacked"]


class Batch(NamedTuple):
    """One batch of each of K members."""

    images: torch.Tensor  # normalised, shape (K, B, 3, H, W)
    labels: torch.Tensor  # class ids, shape (K, B)
    attributes: torch.Tensor  # codes, shape (K, B, A)


# State and buffers of K members, each tensor with a first axis of K, and a batch of each, to their
# gradients, losses and new buffers.
Found = tuple[Tensors, torch.Tensor, Tensors]
Gradients = Callable[[Tensors, Tensors, Batch], Found]


def gradients(
    template: torch.nn.Module,
    objective: Objective,
    backend: Backend,
    *,
    precision: torch.dtype = torch.float32,
    device: torch.device = PROCESSOR,
) -> Gradients:
    """The gradient step of a population.

    Args:
        template: The architecture, in training mode; its own weights are not used.
        objective: Losses of members' batches.
        backend: `stacked` makes one network of all members and wins for tiny ones of plain
            layers; `loop` takes the members in turn, images channels last, and serves any network.
        precision: Of the products; bfloat16 is autocast's, and weights stay as they are.
        device: Where the members are.

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
    return _in_turn(template, objective, precision, device)


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
) -> Gradients:
    def one(
        state: Tensors, buffers: Tensors, batch: Batch
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        leaves = {name: value.detach().requires_grad_() for name, value in state.items()}
        updated = {name: value.clone() for name, value in buffers.items()}
        pixels = batch.images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(
            device.type,
            torch.bfloat16,
            enabled=precision == torch.bfloat16,
            cache_enabled=False,  # a CUDA graph must not hold what another step has cast
        ):
            outputs = torch.func.functional_call(template, (leaves, updated), (pixels,))
        value = objective(outputs.to(pixels.dtype), batch.labels, batch.attributes)
        slopes = torch.autograd.grad(value, list(leaves.values()))
        return dict(zip(leaves, slopes, strict=True)), value.detach(), updated

    def step(
        state: Tensors, buffers: Tensors, batch: Batch
    ) -> tuple[Tensors, torch.Tensor, Tensors]:
        found = _side_by_side(
            [
                partial(
                    one,
                    {name: value[k] for name, value in state.items()},
                    {name: value[k] for name, value in buffers.items()},
                    Batch(*(part[k] for part in batch)),
                )
                for k in range(len(batch.images))
            ],
            device,
        )
        slopes, values, updated = zip(*found, strict=True)
        return _stack(slopes), torch.stack(values), _stack(updated)

    return step


def _side_by_side(works: list[Callable[[], Found]], device: torch.device) -> list[Found]:
    """Do some works that know nothing of each other: on a GPU, each in a stream of its own."""
    if device.type != "cuda":
        return [work() for work in works]
    here, found = torch.cuda.current_stream(device), []
    # From a pool that torch keeps.
    streams = [torch.cuda.Stream(device) for _ in works]  # type: ignore[no-untyped-call]
    for work, stream in zip(works, streams, strict=True):
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            found.append(work())
    for stream in streams:
        here.wait_stream(stream)
    return found


def _stack(members: tuple[Tensors, ...]) -> Tensors:
    return {name: torch.stack([member[name] for member in members]) for name in members[0]}
