"""What do fairer members minimise? Losses of batches, of any number of members at once."""

from __future__ import annotations

import torch
from torch.nn import functional


def each_cross_entropy(
    scores: torch.Tensor, classes: torch.Tensor, *, label_smoothing: float = 0.0
) -> torch.Tensor:
    """Compute the cross-entropy of every example.

    Args:
        scores: Shape (..., B, C).
        classes: Class ids, shape (..., B).
        label_smoothing: Share of each label that is spread over all classes, in [0, 1).

    Returns:
        Losses, shape (..., B).
    """
    losses = functional.cross_entropy(
        scores.flatten(0, -2), classes.flatten(), reduction="none", label_smoothing=label_smoothing
    )
    return losses.view(classes.shape)


def joint_cross_entropy(
    scores: torch.Tensor,
    labels: torch.Tensor,
    groups: torch.Tensor,
    *,
    classes: int,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Compute the mean cross-entropy of (group, class) pairs: domain-discriminative training.

    Args:
        scores: One softmax over G * C pairs, pair number g * C + y, shape (..., B, G * C).
        labels: Class ids y, shape (..., B).
        groups: Group codes g, shape (..., B).
        classes: C.
        label_smoothing: Share of each label that is spread over all pairs.

    Returns:
        Losses, shape (...).

    References:
        Wang et al. (2020), "Towards Fairness in Visual Recognition", section 4.2.2.
    """
    return each_cross_entropy(
        scores, groups * classes + labels, label_smoothing=label_smoothing
    ).mean(-1)


def head_cross_entropy(
    scores: torch.Tensor,
    labels: torch.Tensor,
    groups: torch.Tensor,
    *,
    classes: int,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Compute the mean cross-entropy of each example's own head: domain-independent training.

    Args:
        scores: G heads of C scores, in this order, shape (..., B, G * C).
        labels: Class ids, shape (..., B).
        groups: Group codes, shape (..., B): the head that is trained; no other sees a gradient.
        classes: C.
        label_smoothing: Share of each label that is spread over the classes.

    Returns:
        Losses, shape (...).

    References:
        Wang et al. (2020), section 4.3.

    >>> scores = torch.zeros(1, 6, requires_grad=True)
    >>> head_cross_entropy(scores, torch.tensor([2]), torch.tensor([1]), classes=3).backward()
    >>> scores.grad[0, :3].tolist()
    [0.0, 0.0, 0.0]
    """
    heads = scores.view(*scores.shape[:-1], -1, classes)
    chosen = groups[..., None, None].expand(*groups.shape, 1, classes)
    own = heads.gather(-2, chosen).squeeze(-2)
    return each_cross_entropy(own, labels, label_smoothing=label_smoothing).mean(-1)


def confusion(group_scores: torch.Tensor) -> torch.Tensor:
    """Compute how far an adversary is from knowing nothing: cross-entropy to the uniform.

    Args:
        group_scores: The adversary's scores, shape (..., B, G).

    Returns:
        mean_i -(1/G) sum_g log q_g, shape (...): log G where q is uniform, and never less.

    References:
        Tzeng et al. (2015), "Simultaneous Deep Transfer", equation 3.

    >>> confusion(torch.zeros(5, 4)).exp().item()
    4.0
    """
    return -functional.log_softmax(group_scores, dim=-1).mean(dim=(-2, -1))


def cell_losses(
    losses: torch.Tensor, cells: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Average the losses of each cell of a batch.

    Args:
        losses: Of examples, shape (..., B).
        cells: Cell of each example, shape (..., B), from 0; others than those counted belong to
            none.
        count: Number of cells.

    Returns:
        Means, shape (..., cells): 0 for an empty cell, never nan; and examples of each cell.

    >>> means, n = cell_losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 0]), 2)
    >>> means.tolist(), n.tolist()
    ([2.0, 0.0], [2.0, 0.0])
    """
    member = (cells.unsqueeze(-1) == torch.arange(count, device=cells.device)).to(losses.dtype)
    number = member.sum(-2)
    return (losses.unsqueeze(-1) * member).sum(-2) / number.clamp(min=1), number


def pair_means(
    losses: torch.Tensor, labels: torch.Tensor, groups: torch.Tensor, *, positive: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Average the losses of the positive examples of two groups.

    Args:
        losses: Of examples, shape (..., B).
        labels: Class ids, shape (..., B).
        groups: Group codes 0 and 1, shape (..., B).
        positive: The class whose examples count.

    Returns:
        l(1, 0) and l(1, 1), each of shape (...); 0 where a batch has no such example.
    """
    cells = torch.where(labels == positive, groups, -1)
    means, _ = cell_losses(losses, cells, 2)
    return means[..., 0], means[..., 1]


def squared_gap(gap: torch.Tensor, eta: float | torch.Tensor) -> torch.Tensor:
    """Compute the penalty of A-L2: (eta / 2) gap^2.

    References:
        Lokhande et al. (2020), "FairALM"; its baseline with an L2 penalty.
    """
    return eta / 2 * gap**2


def lagrangian(
    means: tuple[torch.Tensor, torch.Tensor],
    multipliers: torch.Tensor,
    eta: float | torch.Tensor,
) -> torch.Tensor:
    """Compute the penalty of A-ALM, which is linear in the two losses.

    Args:
        means: l(1, 0) and l(1, 1), each of shape (...).
        multipliers: lam0 and lam1, shape (..., 2).
        eta: Weight of the penalty, a number or of shape (...).

    Returns:
        (eta/4 + (lam0 - lam1)/2) l(1, 0) + (eta/4 + (lam1 - lam0)/2) l(1, 1), shape (...).

    References:
        Lokhande et al. (2020), "FairALM: Augmented Lagrangian Method for Training Fair Models".
    """
    half = (multipliers[..., 0] - multipliers[..., 1]) / 2
    return (eta / 4 + half) * means[0] + (eta / 4 - half) * means[1]


def distillation(
    scores: torch.Tensor, teacher: torch.Tensor, *, temperature: float
) -> torch.Tensor:
    """Compute T^2 KL(teacher || member) of softmaxes at a temperature.

    Args:
        scores: Of the member, shape (..., B, C).
        teacher: Of the dense member, shape (..., B, C); no gradient goes there.
        temperature: T.

    Returns:
        Losses, shape (...); 0 where both agree.

    References:
        Hinton, Vinyals, Dean (2015), "Distilling the Knowledge in a Neural Network".

    >>> distillation(torch.ones(2, 3), torch.zeros(2, 3), temperature=4.0).item()
    0.0
    """
    own = functional.log_softmax(scores / temperature, dim=-1)
    aim = functional.log_softmax(teacher.detach() / temperature, dim=-1)
    return temperature**2 * (aim.exp() * (aim - own)).sum(-1).mean(-1)
