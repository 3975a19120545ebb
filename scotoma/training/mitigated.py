"""What do the members of a run learn, and from which groups of its training examples?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.datasets import Examples
from scotoma.datasets.parts import part_digest
from scotoma.errors import DataError
from scotoma.run import Run, code_digest

if TYPE_CHECKING:
    from scotoma.mitigation.groups import TrainingGroups
    from scotoma.training.stacked_network import Tensors
    from scotoma.training.task import TrainingTask

__all__ = [
    "dense_members",
    "epoch_rows",
    "learned_from",
    "learning_task",
    "run_groups",
    "training_digest",
]


def run_groups(run: Run) -> TrainingGroups | None:
    """Read the groups of a run's training examples; None where no technique is configured.

    Raises:
        DataError: The technique cannot work with them.
    """
    if run.config.mitigation is None:
        return None
    from scotoma.mitigation.groups import training_groups

    return training_groups(run.config, Examples.read(run.examples, images=False, split="train"))


def learning_task(
    run: Run, labels: NDArray[np.int64], classes: int
) -> tuple[TrainingTask, NDArray[np.int64] | None]:
    """Build the task of a run's members.

    Args:
        run: Its examples are prepared.
        labels: Class ids of the training examples, shape (N,).
        classes: Number of classes.

    Returns:
        The task, and the codes of the examples' groups, shape (N, 1), or None.
    """
    from scotoma.training.task import classification

    recipe, groups = run.config.source.recipe, run_groups(run)
    if run.config.mitigation is None or groups is None:
        return classification(classes, recipe), None
    from scotoma.training.technique import technique_task

    task = technique_task(run.config.mitigation, recipe, labels, groups, classes)
    return task, groups.codes[:, None]


def epoch_rows(run: Run, labels: NDArray[np.int64]) -> int:
    """Count the rows of an epoch without torch: a technique may repeat some, or leave some out.

    Args:
        run: Its examples are prepared.
        labels: Class ids of the training examples, shape (N,).
    """
    asked, groups = run.config.mitigation, run_groups(run)
    if asked is None or groups is None:
        return len(labels)
    from scotoma.mitigation.learning.samplers import repeated_rows

    if asked.family == "RS":
        return len(repeated_rows(labels, groups.codes))
    return int(groups.counts.min()) * groups.counts.size if asked.family == "SUBG" else len(labels)


def training_digest(run: Run) -> str:
    """Read the digest of what training reads: with a technique, the groups too."""
    digest = part_digest(run, "training")
    return digest if run.config.mitigation is None else f"{digest}/{part_digest(run, 'grouped')}"


def learned_from(config: Config) -> dict[str, Any]:
    """Say what decides how members learn, for their records."""
    code = {"learning_sha256": code_digest("mitigation/learning")}
    asked = config.mitigation
    return code if asked is None else code | {"mitigation": asked.deciding_training()}


def dense_members(run: Run, indices: list[int]) -> Tensors:
    """Read the dense members beside which pruned ones learn.

    Args:
        run: The run.
        indices: Of the members.

    Returns:
        Parameters and buffers by name, each with a first axis of the members.

    Raises:
        DataError: One of them is not there.
    """
    import torch
    from safetensors.torch import load_file

    paths = [run.member("dense", index) for index in indices]
    run.fetch(*paths)
    for index, path in zip(indices, paths, strict=True):
        if not path.exists():
            raise DataError(f"dense member {index} is missing in {run.place}; repeat the audit")
    members = [load_file(path) for path in paths]
    return {name: torch.stack([own[name] for own in members]) for name in members[0]}
