"""Keep dense models as they were on their way: weaker ones that nothing has compressed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.run import Run
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.training.engine import TrainedMember
    from scotoma.training.stacked_network import Tensors


def checkpoint_name(step: int) -> str:
    """Name the population of the dense models after some steps, as a variant is named."""
    return f"dense-step-{step}"


def checkpoint_path(run: Run, step: int, index: int) -> Path:
    """Locate a dense member as it was after some steps."""
    return run.population(checkpoint_name(step)) / f"member-{index:03d}.safetensors"


def checkpoint_steps(total: int, count: int) -> tuple[int, ...]:
    """Choose the steps after which models are kept, closer together towards the end.

    Accuracy rises early and learning rates fall late: models a few points below the last ones,
    which compressed ones are to be compared with, are those of the last steps.

    Args:
        total: Steps of the whole training.
        count: States to keep; fewer where there are fewer steps.

    Returns:
        Ascending, above 0 and below `total`.

    >>> checkpoint_steps(100, 4)
    (36, 64, 84, 96)
    """
    shares = [1 - (1 - k / (count + 1)) ** 2 for k in range(1, count + 1)]
    steps = {round(total * share) for share in shares}
    return tuple(sorted(step for step in steps if 0 < step < total))


def write_checkpoints(run: Run, step: int, members: Sequence[TrainedMember]) -> None:
    """Write dense members as they are after some steps.

    Args:
        run: The run.
        step: Steps that they have done.
        members: What `Training.finish` makes of their state.
    """
    for one in members:
        path = checkpoint_path(run, step, one.member.index)
        write_weights(path, one.state)
        run.publish(path)


def write_weights(path: Path, tensors: Tensors) -> None:
    """Write tensors by name as .safetensors: whole, or not at all."""
    from safetensors.torch import save_file

    with written(path) as temporary:
        save_file({name: value.contiguous() for name, value in tensors.items()}, temporary)
