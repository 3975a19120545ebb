"""Which settings of JTT serve the worst group of held-out training examples best?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.mitigation.held_out import judged_half
from scotoma.numbers.inputs import Flags, Ints
from scotoma.training.engine import Member, Training

if TYPE_CHECKING:
    from scotoma.config import Mitigation, Recipe
    from scotoma.datasets import IndexedImages
    from scotoma.training.task import TrainingTask


@dataclass(frozen=True)
class _Some:
    """Some of the images, by their rows."""

    images: IndexedImages
    rows: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.rows), *self.images.shape[1:]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> NDArray[np.uint8]:
        return self.images[self.rows[rows]]


def held_out_quarter(cells: Ints, clusters: Ints | None, seed: int) -> Flags:
    """Hold out every fourth cluster of each class and group.

    Args:
        cells: Class and group in one, shape (N,).
        clusters: Cluster ids, shape (N,); None where every example is its own.
        seed: Of the draw.

    Returns:
        Whether each example is held out, shape (N,).

    >>> held_out_quarter(np.repeat([0, 1], 8), None, seed=0).sum()
    np.int64(4)
    """
    rows = np.flatnonzero(judged_half(cells, clusters, seed))
    quarter = judged_half(cells[rows], None if clusters is None else clusters[rows], seed + 1)
    held = np.zeros(len(cells), np.bool_)
    held[rows[quarter]] = True
    return held


def try_settings(
    asked: Mitigation,
    task: TrainingTask,
    images: IndexedImages,
    labels: Ints,
    cells: Ints,
    held: Flags,
    *,
    model: str,
    recipe: Recipe,
    seed: int,
    device: torch.device,
) -> list[dict[str, Any]]:
    """Train one member by each pair of settings, and judge it on examples that it has not seen.

    Args:
        asked: With the settings to try.
        task: Of JTT, with any settings.
        images: All training images.
        labels: Their class ids, shape (N,).
        cells: Class and group in one, shape (N,).
        held: Which examples are held out, shape (N,).
        model: Name of the network.
        recipe: As of every member.
        seed: Of the member.
        device: Where it is trained.

    Returns:
        In the order in which they were tried: `first_steps`, the length of the first training as a
        fraction of the steps; `repeats`, how often each of its errors stands in the second;
        `worst_accuracy`, the lowest of a class in a group, a fraction; and `n`, held-out examples
        of that cell. The choice is the one of the highest worst accuracy, the first of these.
    """
    member = [Member("dense", 0, seed)]

    def training(rows: Ints, own: TrainingTask) -> Training:
        return Training(
            member, _Some(images, rows), labels[rows], model=model, task=own, recipe=recipe,
            device=device,
        )  # fmt: skip

    rows, others = np.flatnonzero(~held), np.flatnonzero(held)
    judge = training(others, replace(task, first_steps=0.0))
    tried = []
    for first_steps, repeats in product(*asked.tried):
        own = replace(task, first_steps=first_steps, repeats=repeats)
        (trained,) = training(rows, own).run()
        predicted = judge.predict_trained(trained)
        right = predicted == labels[others]
        accuracies = {int(c): float(right[cells[others] == c].mean()) for c in set(cells[others])}
        worst = min(accuracies, key=lambda cell: accuracies[cell])
        chosen = {"first_steps": first_steps, "repeats": repeats}
        n = int((cells[others] == worst).sum())
        tried.append({**chosen, "worst_accuracy": accuracies[worst], "n": n})
    return tried
