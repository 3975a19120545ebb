"""Which groups need more weight? Weights and multipliers of members, each from its own losses."""

from __future__ import annotations

import torch


def group_weights(weights: torch.Tensor, losses: torch.Tensor, rate: float) -> torch.Tensor:
    """Raise the weights of groups by their losses: the inner step of Group DRO.

    Args:
        weights: Sum to 1, shape (..., groups).
        losses: Mean loss of each group, 0 for one without examples, shape (..., groups).
        rate: Step size.

    Returns:
        q_g proportional to q_g exp(rate * loss_g), shape (..., groups).

    References:
        Sagawa et al. (2020), "Distributionally Robust Neural Networks for Group Shifts",
        algorithm 1.

    >>> group_weights(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 1.0]), 0.01).tolist()
    [0.5, 0.5]
    """
    raised = weights * torch.exp(rate * losses.detach())
    return raised / raised.sum(-1, keepdim=True)


def lagrange_multipliers(
    multipliers: torch.Tensor, gap: torch.Tensor, eta: float | torch.Tensor, *, in_turn: bool
) -> torch.Tensor:
    """Move the two multipliers of A-ALM after a batch.

    Args:
        multipliers: lam0 and lam1, shape (..., 2).
        gap: l(1, 0) - l(1, 1), shape (...).
        eta: Weight of the penalty.
        in_turn: lam1 reads the new lam0, as published; else both read the old values.

    Returns:
        lam0 = (lam0 - lam1)/2 + (eta/2) gap and lam1 = (lam1 - lam0)/2 - (eta/2) gap.

    References:
        Lokhande et al. (2020), "FairALM", algorithm 1.

    >>> old, gap = torch.tensor([1.0, 0.0]), torch.tensor(0.0)
    >>> lagrange_multipliers(old, gap, 20.0, in_turn=False).tolist()
    [0.5, -0.5]
    >>> lagrange_multipliers(old, gap, 20.0, in_turn=True).tolist()
    [0.5, -0.25]
    """
    first, second = multipliers[..., 0], multipliers[..., 1]
    step = eta / 2 * gap.detach()
    new = (first - second) / 2 + step
    return torch.stack([new, (second - (new if in_turn else first)) / 2 - step], dim=-1)


def remember_batch(kept: torch.Tensor, correct: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Put a batch's answers into the memory of each group; the oldest go.

    Args:
        kept: 1 right, 0 wrong, nan empty, the newest first, shape (..., G, size).
        correct: Whether the answer was right, shape (..., B).
        groups: Group codes, shape (..., B).

    Returns:
        The memory after the batch, shape (..., G, size).

    >>> kept = torch.full((2, 2), torch.nan)
    >>> remember_batch(kept, torch.tensor([True, False, True]), torch.tensor([0, 0, 0])).tolist()
    [[1.0, 0.0], [nan, nan]]
    """
    size, count = kept.shape[-1], kept.shape[-2]
    codes = torch.arange(count, device=groups.device)
    own = groups.unsqueeze(-2) == codes[:, None]  # (..., G, B)
    newest = correct.to(kept.dtype).flip(-1).unsqueeze(-2)
    fresh = torch.where(own.flip(-1), newest, torch.nan)
    line = torch.cat([fresh, kept], dim=-1)
    order = line.isnan().to(torch.uint8).argsort(dim=-1, stable=True)[..., :size]
    return line.gather(-1, order)


def remembered_accuracy(kept: torch.Tensor) -> torch.Tensor:
    """Compute each group's accuracy in the memory, shape (..., G); nan where it is empty.

    >>> remembered_accuracy(torch.tensor([[1.0, 0.0], [torch.nan, torch.nan]])).tolist()
    [0.5, nan]
    """
    return kept.nanmean(-1)


def excess_multipliers(
    multipliers: torch.Tensor,
    accuracy: torch.Tensor,
    dense: torch.Tensor,
    shares: torch.Tensor,
    *,
    margin: float,
    rate: float,
) -> torch.Tensor:
    """Move the multipliers of CEAG: up for a group that loses more than all do, down to 0 else.

    Args:
        multipliers: At least 0, shape (..., G).
        accuracy: Of the pruned member by group, nan where not known yet, shape (..., G).
        dense: Of the dense member by group, shape (..., G).
        shares: Of the groups among the training examples, sum 1, shape (..., G).
        margin: Largest excess that is no violation, a fraction.
        rate: Step size.

    Returns:
        max(0, multiplier + rate * (fall_g - fall - margin)), shape (..., G), where fall_g is the
        dense accuracy less the pruned one and fall their mean over examples; a group that is not
        known yet keeps its multiplier.

    References:
        Hashemizadeh et al. (2024), "Balancing Act: Constraining Disparate Impact in Sparse Models",
        equations 4 and 7.
    """
    fall = dense - accuracy
    known = ~fall.isnan()
    weight = torch.where(known, shares, 0)
    mean = (torch.where(known, fall, 0) * weight).sum(-1) / weight.sum(-1).clamp(min=1e-12)
    moved = (multipliers + rate * (fall - mean.unsqueeze(-1) - margin)).clamp(min=0)
    return torch.where(known, moved, multipliers)
