"""Which slots does a technique fill?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Mitigation, Recipe
from scotoma.mitigation.groups import TrainingGroups
from scotoma.mitigation.learning.adversaries import (
    adversarial_loss,
    group_adversary,
    linear_head,
    projected,
)
from scotoma.mitigation.learning.duals import (
    excess_multipliers,
    group_weights,
    lagrange_multipliers,
    remember_batch,
    remembered_accuracy,
)
from scotoma.mitigation.learning.losses import (
    cell_losses,
    confusion,
    distillation,
    each_cross_entropy,
    head_cross_entropy,
    joint_cross_entropy,
    lagrangian,
    pair_means,
    squared_gap,
)
from scotoma.mitigation.learning.samplers import (
    balanced_draw,
    balanced_halves,
    ratio_rows,
    repeated_rows,
    size_matched_subset,
    subsampled_rows,
)
from scotoma.training.backends import HEAD
from scotoma.training.stacked_network import Outputs
from scotoma.training.task import Head, Objective, Phase, Reads, TrainingTask, Values, plain_task

SEVERAL_LABELS_REVERSAL, ONE_LABEL_REVERSAL = 2.0, 1.0  # the study's lambda
CYCLE = 3  # epochs of UC and GR: in the first of each the network learns
GROWTH = 1.01  # of eta, every epoch: L2 and ALM
STEPS_A_BATCH = 5  # of ALM
ADVERSARY_RATE = 1e-3  # of Adam
GROUP_RATE = 0.01  # step size of the weights of group-dro
DUAL_RATE = 0.1  # step size of the multipliers of CEAG
REMEMBERED = 64  # newest examples of a group that its accuracy is of, in CEAG


def technique_task(
    asked: Mitigation,
    recipe: Recipe,
    labels: NDArray[np.int64],
    groups: TrainingGroups,
    classes: int,
) -> TrainingTask:
    """Build the task of members that a technique trains.

    Args:
        asked: The technique and its settings.
        recipe: Its label smoothing counts wherever a cross-entropy of labels does.
        labels: Class ids of the training examples, shape (N,); of several labels, which R1 to R3,
            size1 to size3, A4 and A5 know, 0 and 1, shape (N, L).
        groups: Their groups; attribute 0 of a batch is the code.
        classes: C.

    >>> groups = TrainingGroups(("a", "b"), np.array([0, 1]), np.array([[1], [1]]))
    >>> asked = Mitigation(technique="DI2", attribute="style")
    >>> technique_task(asked, Recipe(), np.array([0, 0]), groups, 10).outputs
    20
    """
    plain, smoothing = plain_task(labels, classes, recipe), recipe.label_smoothing
    count = len(groups.values)
    settings = _Settings(asked, classes, count, groups.positive, smoothing)
    match asked.facts.slot:
        case "repeat":
            rows = repeated_rows(labels, groups.codes)
            return replace(plain, pool=lambda seed: rows)
        case "ratio":
            rows = ratio_rows(labels, groups.codes, asked.facts.number)
            return replace(plain, pool=lambda seed: rows)
        case "size":
            size = len(ratio_rows(labels, groups.codes, asked.facts.number))
            drawn = partial(size_matched_subset, len(labels), size)
            return replace(plain, pool=lru_cache(64)(drawn))
        case "map adversary":
            return _against_map(plain, asked, recipe, labels, groups)
        case "subsample":
            return replace(plain, pool=lru_cache(64)(partial(_subsampled, labels, groups.codes)))
        case "heads":
            loss = joint_cross_entropy if asked.family == "DD" else head_cross_entropy
            objective = _ByGroup(loss, classes, smoothing)
            return TrainingTask(count * classes, objective)
    match asked.technique:
        case "UC":
            head = Head("features", count, ADVERSARY_RATE)
            network = Phase(_Unconfused(settings), reads="features")
            alone = Phase(_Told(settings, "features"), network=(), adversary=True, reads="features")
            return replace(plain, head=head, phases=partial(_in_cycles, network, alone))
        case "GR":
            head = Head("scores", count, ADVERSARY_RATE)
            told = _Told(settings, "scores")
            network = Phase(
                told, network=("task", "adversary"), adversary=True,
                combine=partial(_against, asked.weight),
            )  # fmt: skip
            alone = Phase(told, network=(), adversary=True)
            return replace(plain, head=head, phases=partial(_in_cycles, network, alone))
        case "group-dro":
            cells = groups.codes * classes + labels
            return replace(
                plain,
                sampler=partial(_balanced, cells),
                phases=partial(_always, Phase(_WorstCells(settings))),
                values=lambda: {
                    "cell-weights": torch.full((count * classes,), 1 / (count * classes))
                },
            )
        case "JTT":
            return replace(plain, first_steps=asked.first_steps, repeats=asked.repeats)
        case "L2":
            return replace(plain, phases=partial(_always, Phase(_GapPenalty(settings))))
        case "ALM":
            phase = Phase(_GapLagrangian(settings), repeats=STEPS_A_BATCH)
            return replace(
                plain, phases=partial(_always, phase), values=lambda: {"gap-duals": torch.zeros(2)}
            )
        case "distil":
            beside = Phase(_Taught(settings), teacher=True)
            phases = partial(_while_pruning, plain.phase(0, 0, beside_dense=False), beside)
            return replace(plain, phases=phases, reference="scores")
        case "CEAG":
            beside = Phase(_Bounded(settings, tuple((groups.counts.sum(1) / len(labels)).tolist())))
            phases = partial(_while_pruning, plain.phase(0, 0, beside_dense=False), beside)
            return replace(
                plain,
                phases=phases,
                reference="accuracy",
                values=lambda: {
                    "excess-duals": torch.zeros(count),
                    "remembered": torch.full((count, REMEMBERED), torch.nan),
                    "dense": torch.full((count,), torch.nan),
                },
            )
        case name:
            raise ValueError(f"no training of the technique {name}")


def _against_map(
    plain: TrainingTask, asked: Mitigation, recipe: Recipe,
    labels: NDArray[np.int64], groups: TrainingGroups,
) -> TrainingTask:  # fmt: skip
    """A4 and A5: the last layer and an adversary first, then all against that adversary."""
    default = SEVERAL_LABELS_REVERSAL if labels.ndim == 2 else ONE_LABEL_REVERSAL
    strength = default if asked.reversal is None else asked.reversal
    begins = round(asked.frozen_steps * recipe.resolved(len(labels)).total_steps)
    adversary = group_adversary(1, len(groups.values))
    reads: Reads = "stage-3" if asked.facts.number == 3 else "stage-4"
    followed = partial(Phase, network=("adversary",), adversary=True, reads=reads)
    first = followed(_MapRead(plain.objective, adversary, 0.0), last_layer=True)
    second = followed(_MapRead(plain.objective, adversary, strength), begins=begins)
    return replace(
        plain,
        sampler=partial(_halves, groups.codes),
        head=Head(reads, len(groups.values), ADVERSARY_RATE),
        phases=partial(_in_two, first, second),
    )


def _halves(
    codes: NDArray[np.int64], seed: int, step: int, batch_size: int, examples: int
) -> NDArray[np.int64]:
    return balanced_halves(codes, seed, step, min(batch_size, examples))


def _in_two(first: Phase, second: Phase, step: int, epoch: int, beside_dense: bool) -> Phase:
    return first if step < second.begins else second


def _subsampled(
    labels: NDArray[np.int64], codes: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    return subsampled_rows(labels, codes, seed)


def _balanced(
    cells: NDArray[np.int64], seed: int, step: int, batch_size: int, examples: int
) -> NDArray[np.int64]:
    return balanced_draw(cells, seed, step, min(batch_size, examples))


def _always(phase: Phase, step: int, epoch: int, beside_dense: bool) -> Phase:
    return phase


def _in_cycles(network: Phase, alone: Phase, step: int, epoch: int, beside_dense: bool) -> Phase:
    return network if epoch % CYCLE == 0 else alone


def _while_pruning(plain: Phase, beside: Phase, step: int, epoch: int, beside_dense: bool) -> Phase:
    return beside if beside_dense else plain


def _against(alpha: float, slopes: list[torch.Tensor], leading: int) -> torch.Tensor:
    task, adversary = slopes
    return projected(task, adversary, alpha=alpha, leading=leading)


@dataclass(frozen=True)
class _ByGroup:
    """An objective of scores for every group and class."""

    loss: type | object
    classes: int
    label_smoothing: float

    def __call__(
        self, scores: torch.Tensor, labels: torch.Tensor, attributes: torch.Tensor
    ) -> torch.Tensor:
        loss: torch.Tensor = self.loss(  # type: ignore[operator]
            scores, labels, attributes[..., 0],
            classes=self.classes, label_smoothing=self.label_smoothing,
        )  # fmt: skip
        return loss


@dataclass(frozen=True)
class _Settings:
    """What the losses of techniques have in common."""

    asked: Mitigation
    classes: int
    groups: int
    positive: int
    label_smoothing: float

    def each(self, outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each example, shape (..., B)."""
        return each_cross_entropy(outputs.scores, labels, label_smoothing=self.label_smoothing)

    def eta(self, values: Values) -> torch.Tensor:
        """The weight of the penalty in this epoch, shape (...)."""
        return self.asked.weight * GROWTH ** values["epoch"]


@dataclass(frozen=True)
class _Technique:
    settings: _Settings


def _adversary(read: torch.Tensor, values: Values) -> torch.Tensor:
    return linear_head(read, values[f"{HEAD}weight"], values[f"{HEAD}bias"])


class _Unconfused(_Technique):
    """UC, the network's turn: the task, and features that tell the frozen adversary nothing."""

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        task = self.settings.each(outputs, labels).mean(-1)
        hidden = confusion(_adversary(outputs.features, values))
        return {"task": task + self.settings.asked.weight * hidden}, {}


@dataclass(frozen=True)
class _Told(_Technique):
    """The task, and an adversary that tells the group from features (UC) or scores (GR)."""

    reads: Literal["features", "scores"]

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        read = _adversary(getattr(outputs, self.reads), values)
        return {
            "task": self.settings.each(outputs, labels).mean(-1),
            "adversary": each_cross_entropy(read, attributes[..., 0]).mean(-1),
        }, {}


@dataclass(frozen=True)
class _MapRead:
    """A4, A5: the task, and an adversary that tells the group from a map, against which it goes."""

    objective: Objective
    adversary: torch.nn.Module  # its layers; the weights are the member's
    strength: float

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        task = self.objective(outputs.scores, labels, attributes)
        own = {n.removeprefix(HEAD): v for n, v in values.items() if n.startswith(HEAD)}
        loss = adversarial_loss(
            task, outputs.features, partial(torch.func.functional_call, self.adversary, own),
            attributes[..., 0], strength=self.strength,
        )  # fmt: skip
        return {"task": task, "adversary": loss}, {}


class _WorstCells(_Technique):
    """Group DRO: the losses of all cells, weighted by weights that follow them."""

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        own, weights = self.settings, values["cell-weights"]
        cells = attributes[..., 0] * own.classes + labels
        losses, _ = cell_losses(own.each(outputs, labels), cells, weights.shape[-1])
        weights = group_weights(weights, losses, GROUP_RATE)
        return {"task": (weights * losses).sum(-1)}, {"cell-weights": weights}


class _GapPenalty(_Technique):
    """A-L2: the squared gap between two groups' losses on positive examples."""

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        own = self.settings
        losses = own.each(outputs, labels)
        first, second = pair_means(losses, labels, attributes[..., 0], positive=own.positive)
        return {"task": losses.mean(-1) + squared_gap(first - second, own.eta(values))}, {}


class _GapLagrangian(_Technique):
    """A-ALM: that gap by multipliers, which move after the steps of a batch."""

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        own, duals, eta = self.settings, values["gap-duals"], self.settings.eta(values)
        losses = own.each(outputs, labels)
        means = pair_means(losses, labels, attributes[..., 0], positive=own.positive)
        penalty = lagrangian(means, duals, eta)
        in_turn = own.asked.protocol == "published"
        moved = lagrange_multipliers(duals, means[0] - means[1], eta, in_turn=in_turn)
        return {"task": losses.mean(-1) + penalty}, {"gap-duals": moved}


class _Taught(_Technique):
    """Distillation while pruning: labels, and the scores of the dense member."""

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        own = self.settings
        aim = distillation(outputs.scores, values["teacher"], temperature=own.asked.temperature)
        return {"task": own.each(outputs, labels).mean(-1) + aim}, {}


@dataclass(frozen=True)
class _Bounded(_Technique):
    """CEAG: each group's loss against the mean, by multipliers that its fall of accuracy moves."""

    shares: tuple[float, ...]

    def __call__(
        self, outputs: Outputs, labels: torch.Tensor, attributes: torch.Tensor, values: Values
    ) -> tuple[Values, Values]:
        own, duals, groups = self.settings, values["excess-duals"], attributes[..., 0]
        losses = own.each(outputs, labels)
        means, number = cell_losses(losses, groups, own.groups)
        task = losses.mean(-1)
        excess = torch.where(number > 0, means - task.unsqueeze(-1), 0)
        right = outputs.scores.detach().argmax(-1) == labels
        kept = remember_batch(values["remembered"], right, groups)
        moved = excess_multipliers(
            duals, remembered_accuracy(kept), values["dense"], duals.new_tensor(self.shares),
            margin=own.asked.margin, rate=DUAL_RATE,
        )  # fmt: skip
        loss = task + (duals * excess).sum(-1)
        return {"task": loss}, {"excess-duals": moved, "remembered": kept}
