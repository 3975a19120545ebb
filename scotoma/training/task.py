"""What do members learn? The slots that a fairer training fills; empty, they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from scotoma.config import Recipe
from scotoma.mitigation.learning.adversaries import label_weights, weighted_binary_loss
from scotoma.mitigation.learning.losses import each_cross_entropy
from scotoma.numbers.inputs import Ints
from scotoma.training.randomness import minibatch
from scotoma.training.stacked_network import Outputs

# Outputs (..., B, outputs), labels (..., B) and attributes (..., B, A) of a batch of each of any
# number of members to their losses (...).
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
# Seed, step, batch size and number of examples to the rows of a batch.
Sampler = Callable[[int, int, int, int], Ints]
Values = dict[str, Tensor]
Reads = Literal["scores", "features", "stage-3", "stage-4"]


Losses = tuple[Values, Values]  # (...) by name, `task` among them, and the values that change
# Outputs, labels (..., B), attributes (..., B, A) and the member's own values (duals, adversary).
PhaseLosses = Callable[[Outputs, Tensor, Tensor, Values], Losses]
# Gradients of a parameter by the losses that the network follows, stacked over so many first axes.
Combine = Callable[[list[Tensor], int], Tensor]


def stage_of(reads: Reads) -> int:
    """Number of the stage whose map is read; 0 for none.

    >>> stage_of("stage-3"), stage_of("features")
    (3, 0)
    """
    return int(reads[-1]) if reads.startswith("stage") else 0


@dataclass(frozen=True)
class Phase:
    """What is learned at a step.

    Attributes:
        losses: Losses of members' batches.
        network: Names of the losses whose gradients the network follows; where there are none it
            stands still, and no graph is built.
        combine: One gradient from those of several losses; None where there is one loss.
        adversary: Whether the adversary learns from the loss of this name.
        repeats: Steps on the same batch; values change after the last.
        reads: What the losses read beside the scores: features, or the map of a stage.
        last_layer: Whether nothing of the network but its last layer moves.
        begins: Step at which the optimiser of the network begins anew.
        teacher: Whether the losses read the scores of the dense member.
    """

    losses: PhaseLosses
    network: tuple[str, ...] = ("task",)
    combine: Combine | None = None
    adversary: bool = False
    repeats: int = 1
    reads: Reads = "scores"
    last_layer: bool = False
    begins: int = 0
    teacher: bool = False

    @property
    def stage(self) -> int:
        """The stage whose map the losses read; 0 for none."""
        return stage_of(self.reads)

    @property
    def plain(self) -> bool:
        """Whether an objective alone is followed."""
        return isinstance(self.losses, _PlainLosses)


@dataclass(frozen=True)
class Head:
    """An adversary beside the network, which is neither exported nor pruned.

    It is a linear layer, or of the map of a stage a perceptron.

    Attributes:
        reads: What it sees.
        outputs: Number of groups.
        rate: Step size of its Adam.
    """

    reads: Reads
    outputs: int
    rate: float


def cross_entropy(
    outputs: Tensor,
    labels: Tensor,
    attributes: Tensor,
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compute the mean cross-entropy of each member's labels; attributes play no part.

    Args:
        outputs: Scores, shape (..., B, outputs).
        labels: Class ids, shape (..., B).
        attributes: Codes, shape (..., B, A).
        label_smoothing: Share of each label that is spread over all classes, in [0, 1).

    Returns:
        The loss of every member, shape (...).

    >>> labels = torch.zeros(2, 3, dtype=torch.long)
    >>> cross_entropy(torch.zeros(2, 3, 4), labels, torch.zeros(2, 3, 0)).exp()
    tensor([4., 4.])
    """
    return each_cross_entropy(outputs, labels, label_smoothing=label_smoothing).mean(-1)


@dataclass(frozen=True)
class TrainingTask:
    """The learning task, whatever the network and the recipe.

    Attributes:
        outputs: Scores of the network for one image: one a class, and those of further heads.
        objective: From the scores, labels and attributes of batches to the losses.
        sampler: Which rows a member sees at a step; a function of its seed and the step.
        pool: Rows that the sampler draws from, by seed, as many for every seed; None for all.
        phases: From step, epoch and whether pruning has begun beside a dense member to what is
            learned then; None for the objective alone, always.
        head: The adversary; None for none.
        values: Values of one member before the first step, of no network: duals, group weights.
        reference: What pruned members take from the dense one of their seed: nothing, its scores of
            each batch, or its accuracy in each group.
        first_steps: Length of a first training whose errors are repeated, fraction of the steps; 0
            for none.
        repeats: How often these errors stand in the pool.
    """

    outputs: int
    objective: Objective = cross_entropy
    sampler: Sampler = minibatch
    pool: Callable[[int], Ints] | None = None
    phases: Callable[[int, int, bool], Phase] | None = None
    head: Head | None = None
    values: Callable[[], Values] | None = None
    reference: Literal["", "scores", "accuracy"] = ""
    first_steps: float = 0.0
    repeats: int = 1

    def phase(self, step: int, epoch: int, *, beside_dense: bool) -> Phase:
        """Choose what is learned at a step."""
        if self.phases is None:
            return plain_phase(self.objective)
        return self.phases(step, epoch, beside_dense)

    def pool_size(self, examples: int) -> int:
        """Rows of an epoch.

        Args:
            examples: Size of the training split.
        """
        return examples if self.pool is None else len(self.pool(0))


@dataclass(frozen=True)
class _PlainLosses:
    """Losses of an objective that knows no other values."""

    objective: Objective

    def __call__(
        self, outputs: Outputs, labels: Tensor, attributes: Tensor, values: Values
    ) -> Losses:
        return {"task": self.objective(outputs.scores, labels, attributes)}, {}


def plain_phase(objective: Objective) -> Phase:
    """Build the phase that follows an objective and nothing else."""
    return Phase(_PlainLosses(objective))


def classification(classes: int, recipe: Recipe) -> TrainingTask:
    """Build the task of an audit's members: to name the class, by cross-entropy.

    >>> classification(10, Recipe(label_smoothing=0.2)).outputs
    10
    """
    return TrainingTask(classes, partial(cross_entropy, label_smoothing=recipe.label_smoothing))


def recognition(labels: Ints, recipe: Recipe) -> TrainingTask:
    """Build the task of members that name each of several labels, by binary cross-entropy.

    Args:
        labels: 0 and 1 of the training images, shape (N, L); each label has both. Both terms of
            label l count w_l = n_neg / n_pos times, over the mean of all w: the step size then
            means the same for rare labels as for frequent ones.
        recipe: Its label smoothing draws 0 and 1 towards 0.5.

    References:
        Wang et al. (2019), "Balanced Datasets Are Not Enough": the weights; their scale is ours.

    >>> import numpy as np
    >>> recognition(np.array([[1, 0], [0, 0], [0, 1]]), Recipe()).outputs
    2
    """
    weights = label_weights(torch.from_numpy(labels))
    scaled, smooth = (weights / weights.mean()).tolist(), recipe.label_smoothing

    def each_label(outputs: Tensor, labels: Tensor, attributes: Tensor) -> Tensor:
        aims = labels.to(outputs.dtype) * (1 - smooth) + smooth / 2
        return weighted_binary_loss(outputs, aims, outputs.new_tensor(scaled))

    return TrainingTask(labels.shape[1], each_label)


def plain_task(labels: Ints, classes: int, recipe: Recipe) -> TrainingTask:
    """Build the task of members that no technique trains: to name the class, or each label.

    Args:
        labels: Class ids, shape (N,); of several labels 0 and 1, shape (N, L).
        classes: Number of classes.
        recipe: Its label smoothing counts.
    """
    return recognition(labels, recipe) if labels.ndim == 2 else classification(classes, recipe)
