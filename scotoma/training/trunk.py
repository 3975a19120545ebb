"""Keep trunks: the states of dense members at the first mask update, where sparsities part.

Up to there a member's steps depend on its seed alone, so that a pruned member that goes on from the
trunk of its dense one is, bit for bit, the member that is trained from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file

from scotoma.run import Run
from scotoma.storage.files import file_digest, written
from scotoma.training.state import TrainingState

__all__ = ["read_trunks", "trunk_path", "write_trunks"]


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
        with written(path) as temporary:
            save_file(member.tensors(), temporary)
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
