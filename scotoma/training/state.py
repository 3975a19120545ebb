"""The state of a chunk of members in training: all that the next step depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from scotoma.run import Run
from scotoma.storage.files import file_digest
from scotoma.training.checkpoints import write_weights
from scotoma.training.stacked_network import Tensors

SECTIONS = ("parameters", "buffers", "masks", "memory", "values")


@dataclass(frozen=True)
class TrainingState:
    """K members after some steps; every tensor has a first axis of K.

    Attributes:
        step: Optimiser steps done.
        parameters: By name; of masked weights, what stands behind the mask.
        buffers: By name.
        masks: Of the weights that pruning may zero: True is kept.
        memory: Memory of the optimiser and the average of weights, as `momentum/NAME`.
        losses: Mean loss of the tenths of the run that are over, shape (K, tenths).
        running: Sum of the losses since then, shape (K,).
        values: What a technique keeps of each member: duals, group weights, an adversary and its
            optimiser's memory; empty in plain training.

    >>> state = TrainingState(
    ...     3, {"0.weight": torch.ones(2, 4)}, {}, {}, {}, torch.ones(2, 1), torch.ones(2)
    ... )
    >>> TrainingState.of(state.tensors()).step
    3
    """

    step: int
    parameters: Tensors
    buffers: Tensors
    masks: Tensors
    memory: Tensors
    losses: Tensor
    running: Tensor
    values: Tensors = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.running)

    def tensors(self) -> Tensors:
        """The state as one flat table of tensors, to be written to a file."""
        named = {
            f"{section}/{name}": value.contiguous()
            for section in SECTIONS
            for name, value in getattr(self, section).items()
        }
        curve = {"losses": self.losses, "running": self.running}
        return {**named, **curve, "step": torch.tensor(self.step)}

    @classmethod
    def of(cls, tensors: Tensors) -> TrainingState:
        """Rebuild a state from its table.

        Args:
            tensors: The result of `tensors`.
        """
        sections: dict[str, Tensors] = {section: {} for section in SECTIONS}
        for key, value in tensors.items():
            section, _, name = key.partition("/")
            if name:
                sections[section][name] = value
        step, losses, running = (tensors[key] for key in ("step", "losses", "running"))
        return cls(int(step), **sections, losses=losses, running=running)

    def split(self) -> list[TrainingState]:
        """Split into the state of every member."""
        table = self.tensors()
        return [
            self.of({n: v if n == "step" else v[k : k + 1] for n, v in table.items()})
            for k in range(self.members)
        ]

    @classmethod
    def joined(cls, states: list[TrainingState]) -> TrainingState:
        """Join states that have done the same steps.

        Args:
            states: At least one.

        Returns:
            Their members, in that order.
        """
        tables = [state.tensors() for state in states]
        return cls.of(
            {
                name: value if name == "step" else torch.cat([table[name] for table in tables])
                for name, value in tables[0].items()
            }
        )

    def copy(
        self, device: torch.device | None = None, *, channels_last: bool = False
    ) -> TrainingState:
        """Copy the state.

        Args:
            device: Where to; None for where it is.
            channels_last: Whether the channels of each member's convolution lie together, as
                torch's own convolution wants them.

        Returns:
            A state that shares no tensor with this one.
        """
        laid = _channels_last if channels_last else torch.clone
        return self.of({n: laid(v).to(device or v.device) for n, v in self.tensors().items()})


def _channels_last(value: Tensor) -> Tensor:
    """Copy (K, O, C, H, W) in the memory order (K, O, H, W, C), and anything else as it is."""
    if value.ndim != 5:
        return value.clone()
    return value.movedim(2, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 2)


def trunk_path(run: Run, index: int) -> Path:
    """Locate the trunk of a member."""
    return run.population("dense") / f"trunk-{index:03d}.safetensors"


def write_trunks(run: Run, indices: Sequence[int], state: TrainingState) -> list[str]:
    """Write the state of a chunk of dense members, one file per member.

    Args:
        run: The run.
        indices: Indices of the members in their population.
        state: Their state, in that order.

    Returns:
        SHA-256 of each file, for the members' records.
    """
    paths = [trunk_path(run, index) for index in indices]
    for path, member in zip(paths, state.split(), strict=True):
        write_weights(path, member.tensors())
    run.publish(*paths)
    return [file_digest(path) for path in paths]


def read_trunks(
    run: Run, indices: Sequence[int], digests: Iterable[str | None]
) -> TrainingState | None:
    """Read the state to go on from.

    Args:
        run: The run.
        indices: Indices of the members, in the order of the state.
        digests: SHA-256 that each file must have; None where it cannot be trusted.

    Returns:
        The state; None if a file is missing or differs, so that training begins at the start.
    """
    paths = [trunk_path(run, index) for index in indices]
    run.fetch(*paths)
    for path, digest in zip(paths, digests, strict=True):
        if not path.exists() or file_digest(path) != digest:
            return None
    return TrainingState.joined([TrainingState.of(load_file(path)) for path in paths])
