"""Train members: many at once as one stacked state, by one pure step function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Recipe
from scotoma.datasets import IndexedImages, looking_ahead
from scotoma.machine import has_fast_bfloat16
from scotoma.training.augmentation import augment
from scotoma.training.backends import Backend, Batch, gradients
from scotoma.training.models import build_model, prepare_layers
from scotoma.training.optimiser import fresh_memory
from scotoma.training.placement import PROCESSOR, RowReader, batches_from
from scotoma.training.pruning import Pruning, cubic_sparsity, prunable, update_masks
from scotoma.training.schedules import learning_rate
from scotoma.training.stacked_network import Tensors
from scotoma.training.state import TrainingState
from scotoma.training.step import Moving, TrainingStep
from scotoma.training.task import TrainingTask
from scotoma.training.weight_average import averaged, fresh_average

__all__ = [
    "Member",
    "TrainedMember",
    "Training",
    "normalise",
    "products_precision",
]

SHADOW = Pruning()
SEEN_FIRST = 1000  # images that a layer may be prepared on
PREPARING = 2**33  # a stream of the seed: above those of augmentation and of the order of the data


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
        member: Its variant, index, seed and sparsity.
        state: Parameters and buffers; masked weights are exactly 0.
        weights: Names of the conv and linear weights, which pruning may zero.
        loss: Mean training loss of every tenth of the run (fewer where it has fewer steps).
    """

    member: Member
    state: Tensors
    weights: tuple[str, ...]
    loss: tuple[float, ...]


def normalise(pixels: torch.Tensor) -> torch.Tensor:
    """Turn pixels in [0, 255] into floats in [-1, 1], the input of every built-in network."""
    return pixels.float() / 127.5 - 1.0


def products_precision(recipe: Recipe, device: torch.device = PROCESSOR) -> torch.dtype:
    """Choose the type of products: bfloat16 where the recipe wants it, or where it pays."""
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else has_fast_bfloat16()
    pays = recipe.precision == "auto" and fast
    return torch.bfloat16 if pays or recipe.precision == "bfloat16" else torch.float32


class Training:
    """A chunk of members in training.

    A masked weight is 0 in the forward pass. Its shadow goes on receiving the gradient of that 0,
    and can come back until the last update; with hard masks none comes back.

    Until the first mask update a member's steps depend on its seed alone. A state of that step
    is the trunk from which every sparsity of the same seeds can go on.
    """

    def __init__(
        self,
        members: list[Member],
        images: IndexedImages,
        labels: NDArray[np.int64],
        *,
        model: str,
        task: TrainingTask,
        recipe: Recipe,
        backend: Backend = "stacked",
        attributes: NDArray[np.int64] | None = None,
        pruning: Pruning = SHADOW,
        device: torch.device = PROCESSOR,
    ) -> None:
        """Prepare the data; nothing is trained yet.

        Args:
            members: Seeds and sparsities; all of one model and one recipe.
            images: uint8, shape (N, 3, H, W): an array, or images decoded when they are read.
            labels: Class ids, shape (N,).
            model: Name of the network.
            task: Outputs, objective and sampler.
            recipe: Steps, rates, augmentation and the pruning schedule.
            backend: How the members' gradients are computed.
            attributes: Codes, shape (N, A), for objectives that use them.
            pruning: How members are pruned.
            device: Where they are trained; images that fit are sent there once.
        """
        self.members, self.task, self.pruning = members, task, pruning
        self.recipe = recipe = recipe.resolved(len(labels))
        self._model = model
        template = build_model(model, task.outputs, 0)
        self._decayed = prunable(template)
        self._masked = prunable(template, pruning.exempt)
        self._device, self._backend = device, backend
        self._gradients = gradients(
            template.to(device), task.objective, backend,
            precision=products_precision(recipe, device), device=device,
            compiled=device.type == "cuda",
        )  # fmt: skip
        self._images, self._labels = images, torch.from_numpy(labels).to(device)
        self._at_hand = batches_from(images, device) if isinstance(images, np.ndarray) else None
        if attributes is None:
            attributes = np.empty((len(labels), 0), np.int64)
        self._attributes = torch.from_numpy(attributes).to(device)

    def start(self) -> TrainingState:
        """Initialise the members."""
        models = [build_model(self._model, self.task.outputs, m.seed) for m in self.members]
        for member, model in zip(self.members, models, strict=True):
            prepare_layers(model, partial(self._first_look, member.seed))
        state, buffers = _stack(models)
        return TrainingState(
            step=0,
            parameters=state,
            buffers=buffers,
            masks={n: torch.ones_like(state[n], dtype=torch.bool) for n in self._masked},
            memory={
                **fresh_memory(state, self.recipe),
                **fresh_average({**state, **buffers}, self.recipe),
            },
            losses=torch.empty(len(models), 0),
            running=torch.zeros(len(models)),
        )

    def advance(
        self,
        state: TrainingState,
        until: int | None = None,
        progress: Callable[[int], None] = lambda steps: None,
    ) -> TrainingState:
        """Train until a step.

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
        steps = recipe.total_steps
        until = steps if until is None else until
        if state.members != len(members) or not state.step <= until <= steps:
            raise ValueError(
                f"cannot train {len(members)} members until step {until} of {steps} from "
                f"a state of {state.members} after step {state.step}"
            )
        tenths = [round(part * steps / 10) for part in range(11)]
        reported = state.step
        state = state.copy(self._device, channels_last=self._backend == "loop")
        moving = Moving(state.parameters, state.buffers, state.memory, state.running)
        masks = {name: state.masks[name] for name in self._masked}  # a trunk exempts no layer
        if not all(bool(mask.all()) for mask in masks.values()):
            moving.keep(masks)
        way, losses = TrainingStep(self._gradients, self._decayed, recipe), state.losses

        for step, batch in self._batches(state.step, until):
            if self._masks_change_at(step):
                update_masks(masks, moving.parameters, self._sparsities(step), self.pruning)
                moving.keep(masks)
            way.take(moving, batch, learning_rate(step, recipe), step)
            way.average(moving, step)
            if step + 1 in tenths:
                since = max(mark for mark in tenths if mark <= step)
                mean = moving.running / (step + 1 - since)
                losses = torch.cat([losses, mean[:, None]], dim=1)
                moving.running.zero_()
            if step + 1 in tenths or step + 1 == until:
                progress((step + 1 - reported) * len(members))
                reported = step + 1
        return replace(state, step=until, masks=masks, losses=losses)

    def finish(self, state: TrainingState) -> list[TrainedMember]:
        """Build the trained members of a state, in their order; masked weights are exactly 0."""
        state = state.copy(PROCESSOR)
        final = averaged(state.memory, {**state.parameters, **state.buffers})
        kept = {**final, **{n: final[n].masked_fill(~mask, 0) for n, mask in state.masks.items()}}
        curves = state.losses.tolist()
        return [
            TrainedMember(
                member,
                {name: value[k] for name, value in kept.items()},
                self._decayed,
                tuple(curves[k]),
            )
            for k, member in enumerate(self.members)
        ]

    def run(
        self,
        start: TrainingState | None = None,
        progress: Callable[[int], None] = lambda steps: None,
    ) -> list[TrainedMember]:
        """Train to the end.

        Args:
            start: Where the members stand already; None for freshly initialised ones.
            progress: Called with the number of member-steps just done.

        Returns:
            The members, in their order.
        """
        return self.finish(self.advance(start or self.start(), progress=progress))

    def _first_look(self, seed: int) -> torch.Tensor:
        """Draw training images for the layers that one member prepares."""
        order = np.random.Generator(np.random.Philox(key=[seed, PREPARING]))
        examples = len(self._labels)
        rows = order.choice(examples, min(SEEN_FIRST, examples), replace=False)
        return normalise(torch.from_numpy(self._images[rows]))

    def _masks_change_at(self, step: int) -> bool:
        begin, end, every = self.recipe.mask_updates
        due = begin <= step <= end and (step - begin) % every == 0
        return due and any(member.sparsity for member in self.members)

    def _sparsities(self, step: int) -> list[float]:
        """Compute the sparsity of every member from a mask update on."""
        begin, end, every = self.recipe.mask_updates
        return [
            cubic_sparsity(step, final=member.sparsity, begin=begin, end=end, every=every)
            for member in self.members
        ]

    def _batches(self, start: int, until: int) -> Iterator[tuple[int, Batch]]:
        """Every step and its batch; encoded images are decoded ahead of their step."""
        recipe, examples = self.recipe, len(self._labels)
        upcoming = (
            self.task.sampler(member.seed, step, recipe.batch_size, examples)
            for step in range(start, until)
            for member in self.members
        )
        with looking_ahead(self._images, upcoming) as images:
            pixels_of = self._at_hand or batches_from(images, self._device)
            for step in range(start, until):
                yield step, self._batch(step, pixels_of)

    def _batch(self, step: int, pixels_of: RowReader) -> Batch:
        """Build the batch of every member at a step."""
        recipe, examples = self.recipe, len(self._labels)
        epoch = step // (examples // min(recipe.batch_size, examples))
        drawn, shown = [], []
        for member in self.members:
            own = self.task.sampler(member.seed, step, recipe.batch_size, examples)
            key = {"seed": member.seed, "step": step, "epoch": epoch}
            shown.append(augment(pixels_of(own), recipe, rows=own, **key))
            drawn.append(own)
        rows = torch.from_numpy(np.stack(drawn)).to(self._device)
        return Batch(normalise(torch.stack(shown)), self._labels[rows], self._attributes[rows])


def _stack(models: list[torch.nn.Module]) -> tuple[Tensors, Tensors]:
    """Stack parameters and buffers of many models along a new first axis."""
    state, buffers = torch.func.stack_module_state(models)
    return {name: value.detach().clone() for name, value in state.items()}, dict(buffers)
