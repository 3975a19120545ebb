"""Take one step of a chunk of members: gradients, weights, losses, all in place."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from scotoma.config import Recipe
from scotoma.training.backends import Batch, Gradients
from scotoma.training.optimiser import forget_steps, update_head, update_weights
from scotoma.training.stacked_network import Tensors
from scotoma.training.task import Phase
from scotoma.training.weight_average import update_average

__all__ = ["Moving", "TrainingStep"]


@dataclass(frozen=True)
class Moving:
    """The values that steps change, in place; every tensor has a first axis of K.

    Attributes:
        parameters: By name; those of masked weights are the values behind the mask.
        buffers: By name.
        memory: Memory of the optimiser and the average of weights.
        running: Sum of the losses of the steps, shape (K,).
        values: What a technique keeps of each member.
        kept: By name, 1 where a weight is kept and 0 where it is masked; empty while all are kept.
    """

    parameters: Tensors
    buffers: Tensors
    memory: Tensors
    running: torch.Tensor
    values: Tensors = field(default_factory=dict)
    kept: Tensors = field(default_factory=dict)

    def keep(self, masks: Tensors) -> None:
        """Mask weights from now on.

        Args:
            masks: By name; True is kept.
        """
        for name, mask in masks.items():  # bools are slow to multiply with
            factor = self.kept.setdefault(name, torch.empty_like(self.parameters[name]))
            factor.copy_(mask)


@dataclass(frozen=True)
class TrainingStep:
    """A training step of the members of a chunk.

    Attributes:
        gradients: Computes gradients of the members from their weights and a batch of each.
        decayed: Names of the weights that decay.
        recipe: Recipe of their training.
        phase: What is learned.
        head_rate: Step size of the adversary.
    """

    gradients: Gradients
    decayed: tuple[str, ...]
    recipe: Recipe
    phase: Phase
    head_rate: float = 0.0

    def take(
        self, moving: Moving, batch: Batch, rate: float, step: int, told: Tensors | None = None
    ) -> None:
        """Learn from a batch.

        Args:
            moving: Changed in place.
            batch: One of each member.
            rate: Step size.
            step: Optimiser steps done before this one.
            told: Values of members that hold for this batch alone.
        """
        repeats, begins = self.phase.repeats, self.phase.begins
        if begins and step == begins:
            forget_steps(moving.memory)
        for turn in range(repeats):
            masked = {name: moving.parameters[name] * keep for name, keep in moving.kept.items()}
            learned = self.gradients(
                {**moving.parameters, **masked},
                moving.buffers,
                batch,
                {**moving.values, **(told or {})},
            )
            if learned.slopes:
                update_weights(
                    {name: moving.parameters[name] for name in learned.slopes}, moving.memory,
                    learned.slopes, tuple(n for n in self.decayed if n in learned.slopes),
                    step=(step - begins) * repeats + turn, rate=rate, recipe=self.recipe,
                )  # fmt: skip
            names = list(moving.buffers)
            if names:
                torch._foreach_copy_(
                    [moving.buffers[n] for n in names], [learned.buffers[n] for n in names]
                )
        if learned.head:
            update_head(moving.values, learned.head, self.head_rate)
        moving.values.update(learned.values)
        moving.running.add_(learned.losses)

    def average(self, moving: Moving, step: int) -> None:
        """Move averages of the weights, where the recipe keeps some.

        Args:
            moving: Changed in place.
            step: The step before this call, from 0.
        """
        values = {**moving.parameters, **moving.buffers}
        update_average(moving.memory, values, step=step, recipe=self.recipe)
