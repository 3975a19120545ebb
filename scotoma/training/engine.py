"""How members are trained: many at once as one stacked state, by one pure step function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Recipe
from scotoma.machine import has_fast_bfloat16
from scotoma.training.augmentation import augment
from scotoma.training.backends import Backend, Batch, Tensors, gradients
from scotoma.training.models import build_model
from scotoma.training.pruning import cubic_sparsity, magnitude_mask, prunable
from scotoma.training.state import TrainingState
from scotoma.training.task import Task

__all__ = [
    "Member",
    "TrainedMember",
    "Training",
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


class Training:
    """A chunk of members in training: where it starts, how it goes on, what comes out.

    Masks are kept as shadows: a masked weight is 0 in the forward pass, goes on receiving the
    gradient of that 0, and can come back until the last update.

    Until the first mask update a member's steps depend on its seed alone. A state of that step
    is the trunk from which every sparsity of the same seeds can go on.
    """

    def __init__(
        self,
        members: list[Member],
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        model: str,
        task: Task,
        recipe: Recipe,
        backend: Backend = "stacked",
        attributes: NDArray[np.int64] | None = None,
    ) -> None:
        """Look at the data; nothing is trained yet.

        Args:
            members: Seeds and sparsities; all of one model and one recipe.
            images: uint8, shape (N, 3, H, W).
            labels: Class ids, shape (N,).
            model: Name of the network.
            task: Outputs, objective and sampler.
            recipe: Steps, rates, augmentation and the pruning schedule.
            backend: How the members' gradients are had.
            attributes: Codes, shape (N, A), for objectives that look at them.
        """
        self.members, self.task, self.recipe = members, task, recipe
        self._model = model
        template = build_model(model, task.outputs, 0)
        self._masked = prunable(template)
        precision = products_precision(recipe)
        self._gradients = gradients(template, task.objective, backend, precision=precision)
        self._pixels, self._labels = torch.from_numpy(images), torch.from_numpy(labels)
        if attributes is None:
            attributes = np.empty((len(labels), 0), np.int64)
        self._attributes = torch.from_numpy(attributes)

    def start(self) -> TrainingState:
        """Freshly initialised members."""
        models = [build_model(self._model, self.task.outputs, m.seed) for m in self.members]
        state, buffers = _stack(models)
        return TrainingState(
            step=0,
            parameters=state,
            buffers=buffers,
            masks={n: torch.ones_like(state[n], dtype=torch.bool) for n in self._masked},
            optimiser={f"momentum/{name}": torch.zeros_like(v) for name, v in state.items()},
            losses=torch.empty(len(models), 0),
            running=torch.zeros(len(models)),
        )

    def advance(
        self,
        state: TrainingState,
        until: int | None = None,
        progress: Callable[[int], None] = lambda steps: None,
    ) -> TrainingState:
        """Train on.

        Args:
            state: Where the members stand; left as it is.
            until: Steps to have been done, counted from the start of the run; None for all.
            progress: Called with the number of member-steps just done.

        Returns:
            Where they stand then, bit for bit whether or not they were stopped on the way.

        Raises:
            ValueError: The state is of other members or past `until`, or the run is shorter.
        """
        recipe, members = self.recipe, self.members
        until = recipe.steps if until is None else until
        if state.members != len(members) or not state.step <= until <= recipe.steps:
            raise ValueError(
                f"cannot train {len(members)} members until step {until} of {recipe.steps} from "
                f"a state of {state.members} after step {state.step}"
            )
        begin, end, every = recipe.mask_updates
        tenths = [round(part * recipe.steps / 10) for part in range(11)]
        reported, state = state.step, state.copy()
        parameters, buffers, masks = state.parameters, state.buffers, state.masks
        losses, running = state.losses, state.running

        for step in range(state.step, until):
            if begin <= step <= end and (step - begin) % every == 0:
                _update_masks(masks, parameters, members, step, recipe)
            effective = {n: v * masks[n] if n in masks else v for n, v in parameters.items()}
            gradient, loss, buffers = self._gradients(effective, buffers, self._batch(step))
            rate = learning_rate(step, recipe)
            _nesterov(parameters, state.optimiser, gradient, self._masked, rate, recipe)
            running = running + loss
            if step + 1 in tenths:
                steps = step + 1 - max(mark for mark in tenths if mark <= step)
                losses = torch.cat([losses, (running / steps)[:, None]], dim=1)
                running = torch.zeros_like(running)
            if step + 1 in tenths or step + 1 == until:
                progress((step + 1 - reported) * len(members))
                reported = step + 1
        return replace(state, step=until, buffers=buffers, losses=losses, running=running)

    def finish(self, state: TrainingState) -> list[TrainedMember]:
        """What a state has made of the members, in their order; masked weights are exactly 0."""
        masks = state.masks
        kept = {n: v * masks[n] if n in masks else v for n, v in state.parameters.items()}
        curves = state.losses.tolist()
        return [
            TrainedMember(
                member,
                {name: value[k] for name, value in {**kept, **state.buffers}.items()},
                tuple(curves[k]),
            )
            for k, member in enumerate(self.members)
        ]

    def _batch(self, step: int) -> Batch:
        """What every member sees at a step."""
        recipe, examples = self.recipe, len(self._labels)
        drawn = [
            self.task.sampler(member.seed, step, recipe.batch_size, examples)
            for member in self.members
        ]
        rows = torch.from_numpy(np.stack(drawn))
        shown = [
            augment(self._pixels[own], recipe.augmentation, seed=member.seed, step=step)
            for member, own in zip(self.members, rows, strict=True)
        ]
        return Batch(normalise(torch.stack(shown)), self._labels[rows], self._attributes[rows])


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
    start: TrainingState | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> list[TrainedMember]:
    """Train a chunk of members from beginning to end.

    Args:
        members: As the others, what `Training` takes.
        images: uint8, shape (N, 3, H, W).
        labels: Class ids, shape (N,).
        model: Name of the network.
        task: Outputs, objective and sampler.
        recipe: Steps, rates, augmentation and the pruning schedule.
        backend: How the members' gradients are had.
        attributes: Codes, shape (N, A), for objectives that look at them.
        start: Where the members stand already; None for freshly initialised ones.
        progress: Called with the number of member-steps just done.

    Returns:
        The members, in the order given.
    """
    training = Training(
        members, images, labels, model=model, task=task, recipe=recipe, backend=backend,
        attributes=attributes,
    )  # fmt: skip
    return training.finish(training.advance(start or training.start(), progress=progress))


def _stack(models: list[torch.nn.Module]) -> tuple[Tensors, Tensors]:
    """Parameters and buffers of many models, each stacked along a new first axis."""
    state, buffers = torch.func.stack_module_state(models)
    return {name: value.detach().clone() for name, value in state.items()}, dict(buffers)


def _nesterov(
    state: Tensors,
    memory: Tensors,
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
        momentum = memory[f"momentum/{name}"].mul_(recipe.momentum).add_(slope)
        value.sub_(slope.add(momentum, alpha=recipe.momentum), alpha=rate)


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
