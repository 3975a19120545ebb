"""Which slots does a technique fill?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import torch
from torch import Tensor

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
from scotoma.numbers.inputs import Ints
from scotoma.training.backends import HEAD
from scotoma.training.stacked_network import Outputs
from scotoma.training.task import (
    Head,
    Losses,
    Phase,
    PhaseLosses,
    Reads,
    TrainingTask,
    Values,
    plain_task,
)

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
    labels: Ints,
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

    >>> import numpy as np
    >>> groups = TrainingGroups(("a", "b"), np.array([0, 1]), np.array([[1], [1]]))
    >>> asked = Mitigation(technique="DI2", attribute="style")
    >>> technique_task(asked, Recipe(), np.array([0, 0]), groups, 10).outputs
    20
    """
    plain, smoothing = plain_task(labels, classes, recipe), recipe.label_smoothing
    count, codes = len(groups.values), groups.codes

    def read(losses: Callable[[_Seen], Losses]) -> PhaseLosses:
        settings = (asked, classes, count, groups.positive, smoothing)
        return lambda outputs, labels, attributes, values: losses(
            _Seen(*settings, outputs, labels, attributes[..., 0], values)
        )

    match asked.facts.slot:
        case "repeat":
            rows = repeated_rows(labels, codes)
            return replace(plain, pool=lambda seed: rows)
        case "ratio":
            rows = ratio_rows(labels, codes, asked.facts.number)
            return replace(plain, pool=lambda seed: rows)
        case "size":
            size = len(ratio_rows(labels, codes, asked.facts.number))
            drawn = partial(size_matched_subset, len(labels), size)
            return replace(plain, pool=lru_cache(64)(drawn))
        case "map adversary":
            return _against_map(plain, asked, recipe, labels, groups)
        case "subsample":
            return replace(plain, pool=lru_cache(64)(partial(subsampled_rows, labels, codes)))
        case "heads":
            loss = joint_cross_entropy if asked.family == "DD" else head_cross_entropy

            def by_group(scores: Tensor, labels: Tensor, attributes: Tensor) -> Tensor:
                return loss(
                    scores, labels, attributes[..., 0], classes=classes, label_smoothing=smoothing
                )

            return TrainingTask(count * classes, by_group)

    def always(losses: Callable[[_Seen], Losses], repeats: int = 1) -> TrainingTask:
        phase = Phase(read(losses), repeats=repeats)
        return replace(plain, phases=lambda *_: phase)

    def in_cycles(network: Phase, alone: Phase, reads: Reads) -> TrainingTask:
        return replace(
            plain, head=Head(reads, count, ADVERSARY_RATE),
            phases=lambda step, epoch, beside_dense: alone if epoch % CYCLE else network,
        )  # fmt: skip

    def while_pruning(beside: Phase, reference: Literal["scores", "accuracy"]) -> TrainingTask:
        before = plain.phase(0, 0, beside_dense=False)
        return replace(
            plain, reference=reference,
            phases=lambda step, epoch, beside_dense: beside if beside_dense else before,
        )  # fmt: skip

    match asked.technique:
        case "UC":
            network = Phase(read(_unconfused), reads="features")
            told = read(partial(_told, reads="features"))
            alone = Phase(told, network=(), adversary=True, reads="features")
            return in_cycles(network, alone, "features")
        case "GR":
            told = read(partial(_told, reads="scores"))
            network = Phase(
                told, network=("task", "adversary"), adversary=True,
                combine=lambda slopes, leading: projected(
                    *slopes, alpha=asked.weight, leading=leading
                ),
            )  # fmt: skip
            return in_cycles(network, Phase(told, network=(), adversary=True), "scores")
        case "group-dro":
            cells, many = codes * classes + labels, count * classes
            return replace(
                always(_worst_cells),
                sampler=lambda seed, step, size, examples: balanced_draw(
                    cells, seed, step, min(size, examples)
                ),
                values=lambda: {"cell-weights": torch.full((many,), 1 / many)},
            )
        case "JTT":
            return replace(plain, first_steps=asked.first_steps, repeats=asked.repeats)
        case "L2":
            return always(_gap_penalty)
        case "ALM":
            learned = always(_gap_lagrangian, STEPS_A_BATCH)
            return replace(learned, values=lambda: {"gap-duals": torch.zeros(2)})
        case "distil":
            return while_pruning(Phase(read(_taught), teacher=True), "scores")
        case "CEAG":
            shares = (groups.counts.sum(1) / len(labels)).tolist()
            beside = Phase(read(partial(_bounded, shares=shares)))
            return replace(
                while_pruning(beside, "accuracy"),
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
    labels: Ints, groups: TrainingGroups,
) -> TrainingTask:  # fmt: skip
    """A4 and A5: the last layer and an adversary first, then all against that adversary."""
    default = SEVERAL_LABELS_REVERSAL if labels.ndim == 2 else ONE_LABEL_REVERSAL
    reversal = default if asked.reversal is None else asked.reversal
    begins = round(asked.frozen_steps * recipe.resolved(len(labels)).total_steps)
    count = len(groups.values)
    adversary = group_adversary(1, count)  # its layers; the weights are the member's
    reads: Reads = "stage-3" if asked.facts.number == 3 else "stage-4"

    def against(strength: float, *, last_layer: bool) -> Phase:
        def losses(outputs: Outputs, labels: Tensor, attributes: Tensor, values: Values) -> Losses:
            task = plain.objective(outputs.scores, labels, attributes)
            own = {n.removeprefix(HEAD): v for n, v in values.items() if n.startswith(HEAD)}
            loss = adversarial_loss(
                task, outputs.features, partial(torch.func.functional_call, adversary, own),
                attributes[..., 0], strength=strength,
            )  # fmt: skip
            return {"task": task, "adversary": loss}, {}

        return Phase(
            losses, ("adversary",), adversary=True, reads=reads, last_layer=last_layer,
            begins=0 if last_layer else begins,
        )  # fmt: skip

    first, second = against(0.0, last_layer=True), against(reversal, last_layer=False)
    return replace(
        plain,
        sampler=lambda seed, step, size, examples: balanced_halves(
            groups.codes, seed, step, min(size, examples)
        ),
        head=Head(reads, count, ADVERSARY_RATE),
        phases=lambda step, epoch, beside_dense: first if step < begins else second,
    )


@dataclass(frozen=True)
class _Seen:
    """What the losses of a technique are computed from, at a step."""

    asked: Mitigation
    classes: int
    count: int  # groups
    positive: int
    label_smoothing: float
    outputs: Outputs
    labels: Tensor
    groups: Tensor
    values: Values

    @property
    def losses(self) -> Tensor:
        """Cross-entropy of each example, shape (..., B)."""
        smoothing = self.label_smoothing
        return each_cross_entropy(self.outputs.scores, self.labels, label_smoothing=smoothing)

    @property
    def eta(self) -> Tensor:
        """The weight of the penalty in this epoch, shape (...)."""
        return self.asked.weight * GROWTH ** self.values["epoch"]

    def adversary(self, read: Tensor) -> Tensor:
        """Scores of the groups by a linear adversary."""
        return linear_head(read, self.values[f"{HEAD}weight"], self.values[f"{HEAD}bias"])

    def pair_means(self, losses: Tensor) -> tuple[Tensor, Tensor]:
        """Mean losses of two groups on positive examples."""
        return pair_means(losses, self.labels, self.groups, positive=self.positive)


def _unconfused(own: _Seen) -> Losses:
    """UC, the network's turn: the task, and features that tell the frozen adversary nothing."""
    task = own.losses.mean(-1)
    hidden = confusion(own.adversary(own.outputs.features))
    return {"task": task + own.asked.weight * hidden}, {}


def _told(own: _Seen, *, reads: Literal["features", "scores"]) -> Losses:
    """The task, and an adversary that tells the group from features (UC) or scores (GR)."""
    read = own.adversary(getattr(own.outputs, reads))
    return {
        "task": own.losses.mean(-1),
        "adversary": each_cross_entropy(read, own.groups).mean(-1),
    }, {}


def _worst_cells(own: _Seen) -> Losses:
    """Group DRO: the losses of all cells, weighted by weights that follow them."""
    weights = own.values["cell-weights"]
    cells = own.groups * own.classes + own.labels
    losses, _ = cell_losses(own.losses, cells, weights.shape[-1])
    weights = group_weights(weights, losses, GROUP_RATE)
    return {"task": (weights * losses).sum(-1)}, {"cell-weights": weights}


def _gap_penalty(own: _Seen) -> Losses:
    """A-L2: the squared gap between two groups' losses on positive examples."""
    losses = own.losses
    first, second = own.pair_means(losses)
    return {"task": losses.mean(-1) + squared_gap(first - second, own.eta)}, {}


def _gap_lagrangian(own: _Seen) -> Losses:
    """A-ALM: that gap by multipliers, which move after the steps of a batch."""
    duals, losses = own.values["gap-duals"], own.losses
    means = own.pair_means(losses)
    penalty = lagrangian(means, duals, own.eta)
    in_turn = own.asked.protocol == "published"
    moved = lagrange_multipliers(duals, means[0] - means[1], own.eta, in_turn=in_turn)
    return {"task": losses.mean(-1) + penalty}, {"gap-duals": moved}


def _taught(own: _Seen) -> Losses:
    """Distillation while pruning: labels, and the scores of the dense member."""
    temperature = own.asked.temperature
    aim = distillation(own.outputs.scores, own.values["teacher"], temperature=temperature)
    return {"task": own.losses.mean(-1) + aim}, {}


def _bounded(own: _Seen, *, shares: list[float]) -> Losses:
    """CEAG: each group's loss against the mean, by multipliers that its fall of accuracy moves."""
    duals, losses = own.values["excess-duals"], own.losses
    means, number = cell_losses(losses, own.groups, own.count)
    task = losses.mean(-1)
    excess = torch.where(number > 0, means - task.unsqueeze(-1), 0)
    right = own.outputs.scores.detach().argmax(-1) == own.labels
    kept = remember_batch(own.values["remembered"], right, own.groups)
    moved = excess_multipliers(
        duals, remembered_accuracy(kept), own.values["dense"], duals.new_tensor(shares),
        margin=own.asked.margin, rate=DUAL_RATE,
    )  # fmt: skip
    loss = task + (duals * excess).sum(-1)
    return {"task": loss}, {"excess-duals": moved, "remembered": kept}
