"""What do the members of a run learn, and from which groups of its training examples?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.datasets import AuditedExamples
from scotoma.datasets.parts import part_digest
from scotoma.errors import DataError
from scotoma.numbers.inputs import Ints
from scotoma.run import Run, code_digest, read_json

if TYPE_CHECKING:
    from scotoma.config import Config
    from scotoma.mitigation.groups import TrainingGroups
    from scotoma.training.stacked_network import Tensors
    from scotoma.training.task import TrainingTask


def run_groups(run: Run) -> TrainingGroups | None:
    """Read the groups of a run's training examples; None where no technique is configured.

    Raises:
        DataError: The technique cannot work with them.
    """
    if run.config.mitigation is None:
        return None
    from scotoma.mitigation.groups import training_groups

    return training_groups(
        run.config, AuditedExamples.read(run.examples, images=False, split="train")
    )


def learning_task(run: Run, labels: Ints, classes: int) -> tuple[TrainingTask, Ints | None]:
    """Build the task of a run's members.

    Args:
        run: Its examples are prepared.
        labels: Class ids of the training examples, shape (N,); of several labels 0 and 1, (N, L).
        classes: Number of classes.

    Returns:
        The task, and the codes of the examples' groups, shape (N, 1), or None.
    """
    from scotoma.training.task import plain_task

    recipe, groups = run.config.source.recipe, run_groups(run)
    if run.config.mitigation is None or groups is None:
        return plain_task(labels, classes, recipe), None
    from scotoma.training.technique import technique_task

    asked = run.config.mitigation.model_copy(update=chosen_settings(run))
    task = technique_task(asked, recipe, labels, groups, classes)
    return task, groups.codes[:, None]


def settings_file(run: Run) -> Path:
    """Where the settings lie that were chosen on held-out training examples."""
    return run.path("training", "settings.json")


def chosen_settings(run: Run) -> dict[str, Any]:
    """Read the settings that were chosen for a run's members; empty where none were."""
    asked, path = run.config.mitigation, settings_file(run)
    if asked is None or not asked.chooses or not path.exists():
        return {}
    kept = read_json(path)
    return {name: kept[name] for name in ("first_steps", "repeats")}


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
