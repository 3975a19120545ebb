"""Losses, multipliers and projections of techniques, against formulas, bounds and torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from scotoma.mitigation.learning.adversaries import (
    adversarial_loss,
    fresh_adversary,
    group_adversary,
    label_weights,
    linear_head,
    projected,
    weighted_binary_loss,
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

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(seeds)
def test_an_example_gives_no_gradient_to_the_head_of_another_group(seed: int) -> None:
    scores = drawn(seed, 5, 2 * 3).requires_grad_()
    labels, groups = torch.arange(5) % 3, torch.tensor([0, 1, 0, 1, 1])
    head_cross_entropy(scores, labels, groups, classes=3).backward()
    heads = scores.grad.view(5, 2, 3)
    other = heads[torch.arange(5), 1 - groups]
    assert torch.equal(other, torch.zeros_like(other))
    own = heads[torch.arange(5), groups]
    softmax = scores.detach().view(5, 2, 3)[torch.arange(5), groups].softmax(-1)
    torch.testing.assert_close(own, (softmax - functional.one_hot(labels, 3)) / 5)


def test_a_joint_softmax_names_group_and_class() -> None:
    scores, labels, groups = drawn(0, 4, 6), torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 1, 0])
    slow = -sum(
        torch.log(scores[i].exp()[g * 3 + y] / scores[i].exp().sum())
        for i, (y, g) in enumerate(zip(labels, groups, strict=True))
    )
    torch.testing.assert_close(joint_cross_entropy(scores, labels, groups, classes=3), slow / 4)


@given(seeds, st.integers(2, 6))
def test_confusion_is_log_g_at_uniform_scores_and_never_less(seed: int, groups: int) -> None:
    scores = drawn(seed, 7, groups)
    assert confusion(torch.zeros(7, groups)).item() == pytest.approx(np.log(groups))
    assert confusion(scores).item() >= np.log(groups) - 1e-12


@given(seeds, st.floats(0, 5))
def test_a_projected_gradient_goes_along_v_by_minus_alpha_alone(seed: int, alpha: float) -> None:
    u, v = drawn(seed, 3, 4), drawn(seed + 1, 3, 4)
    result = projected(u, v, alpha=alpha)
    along = (result * v).sum() / (v * v).sum()
    assert along.item() == pytest.approx(-alpha, abs=1e-9)
    rest = u - (u * v).sum() / (v * v).sum() * v
    torch.testing.assert_close(result + alpha * v, rest)


def test_a_projection_without_alpha_leaves_an_orthogonal_gradient_alone() -> None:
    u, v = torch.tensor([1.0, 2.0, 0.0]), torch.tensor([0.0, 0.0, 3.0])
    assert torch.equal(projected(u, v, alpha=0.0), u)
    tiny = torch.full((3,), 1e-7)
    assert torch.equal(projected(u, tiny, alpha=0.0), u), "nothing is projected on a flat gradient"


def test_stacked_members_are_projected_each_by_itself() -> None:
    u, v = drawn(2, 3, 4, 5), drawn(3, 3, 4, 5)
    together = projected(u, v, alpha=1.5, leading=1)
    for k in range(3):
        torch.testing.assert_close(together[k], projected(u[k], v[k], alpha=1.5))


def test_an_adversary_is_torchs_linear_layer() -> None:
    weight, bias = fresh_adversary(6, 3, 7).values()
    torch.manual_seed(7)
    layer = torch.nn.Linear(6, 3)
    x = torch.randn(4, 6)
    torch.testing.assert_close(linear_head(x, weight, bias), layer(x))
    stacked = linear_head(
        torch.stack([x, x]), torch.stack([weight, weight]), torch.stack([bias] * 2)
    )
    torch.testing.assert_close(stacked[1], layer(x))


def test_an_empty_cell_has_loss_0_and_no_gradient() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    means, number = cell_losses(losses, torch.tensor([0, 2, 2]), 4)
    assert (means.tolist(), number.tolist()) == ([1, 0, 4, 0], [1, 0, 2, 0])
    means.sum().backward()
    assert losses.grad.tolist() == [1, 0.5, 0.5]


def test_group_weights_follow_the_definition_and_one_group_weighs_all() -> None:
    q, losses = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([1.0, 0.0, 3.0])
    raised = [0.2 * np.exp(0.01), 0.3, 0.5 * np.exp(0.03)]
    expected = torch.tensor(raised) / sum(raised)
    torch.testing.assert_close(group_weights(q, losses, 0.01), expected.float())
    assert group_weights(torch.ones(1), torch.tensor([5.0]), 0.01).item() == 1.0


def test_penalties_of_the_gap_are_what_the_papers_write() -> None:
    losses = torch.tensor([1.0, 2.0, 4.0, 8.0])
    labels, groups = torch.tensor([1, 1, 0, 1]), torch.tensor([0, 1, 1, 1])
    first, second = pair_means(losses, labels, groups, positive=1)
    gap = first - second
    assert gap.item() == 1 - 5
    assert squared_gap(gap, 0.5).item() == 0.25 * 16
    assert squared_gap(gap, 0.0).item() == 0.0
    duals = torch.tensor([0.4, 0.1])
    expected = (20 / 4 + 0.15) * 1 + (20 / 4 - 0.15) * 5
    penalty = lagrangian((torch.tensor(1.0), torch.tensor(5.0)), duals, 20.0)
    assert penalty.item() == pytest.approx(expected)
    both = lagrange_multipliers(duals, gap, 20.0, in_turn=False)
    assert both.tolist() == pytest.approx([0.15 - 40, -0.15 + 40])
    turn = lagrange_multipliers(duals, gap, 20.0, in_turn=True)
    assert turn.tolist() == pytest.approx([0.15 - 40, (0.1 - (0.15 - 40)) / 2 + 40])


def test_distillation_is_torchs_divergence() -> None:
    own, teacher = drawn(4, 6, 5), drawn(5, 6, 5)
    oracle = functional.kl_div(
        (own / 3).log_softmax(-1), (teacher / 3).log_softmax(-1), log_target=True,
        reduction="batchmean",
    )  # fmt: skip
    torch.testing.assert_close(distillation(own, teacher, temperature=3.0), 9 * oracle)


def test_a_memory_keeps_the_newest_answers_of_each_group() -> None:
    rng = np.random.default_rng(0)
    kept, slow = torch.full((2, 3, 4), torch.nan), [[[], [], []], [[], [], []]]
    for _ in range(6):
        groups, right = rng.integers(0, 3, (2, 5)), rng.integers(0, 2, (2, 5)).astype(bool)
        kept = remember_batch(kept, torch.from_numpy(right), torch.from_numpy(groups))
        for k in range(2):
            for g, r in zip(groups[k], right[k], strict=True):
                slow[k][g] = [float(r), *slow[k][g]][:4]
        for k in range(2):
            for g in range(3):
                own = kept[k, g]
                assert own[~own.isnan()].tolist() == slow[k][g]
                if slow[k][g]:
                    mean = remembered_accuracy(kept)[k, g].item()
                    assert mean == pytest.approx(np.mean(slow[k][g]))


def test_multipliers_rise_for_the_group_that_loses_more_and_stay_at_0_else() -> None:
    accuracy, dense = torch.tensor([0.5, 0.9, torch.nan]), torch.tensor([0.9, 0.9, 0.9])
    moved = excess_multipliers(
        torch.tensor([0.0, 0.0, 0.7]), accuracy, dense, torch.tensor([0.25, 0.25, 0.5]),
        margin=0.05, rate=2.0,
    )  # fmt: skip
    assert moved.tolist() == pytest.approx([2 * (0.4 - 0.2 - 0.05), 0.0, 0.7])


def test_weights_of_labels_and_their_loss_are_torchs() -> None:
    labels = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]])
    weights = label_weights(labels)
    assert weights[:2].tolist() == [3.0, 1.0]
    assert weights[2].isnan()
    scores = drawn(6, 4, 2)
    oracle = functional.binary_cross_entropy_with_logits(
        scores, labels[:, :2].double(), weight=weights[:2]
    )
    torch.testing.assert_close(weighted_binary_loss(scores, labels[:, :2], weights[:2]), oracle)


def test_the_network_goes_against_the_adversary_and_the_adversary_does_not() -> None:
    torch.manual_seed(0)
    adversary = group_adversary(2 * 3 * 3, width=8)
    assert [type(layer).__name__ for layer in adversary][1:4] == [
        "Linear",
        "BatchNorm1d",
        "LeakyReLU",
    ]
    groups, slopes = torch.tensor([0, 1, 0, 1]), {}
    for strength in (0.0, 2.0, -1.0):  # -1: nothing is reversed
        feature_map = torch.linspace(-1, 1, 4 * 18).view(4, 2, 3, 3).requires_grad_()
        adversary.zero_grad()
        loss = adversarial_loss(
            torch.tensor(0.3), feature_map, adversary, groups, strength=strength
        )
        loss.backward()
        slopes[strength] = feature_map.grad, adversary[1].weight.grad.clone()
    assert not slopes[0.0][0].any()
    torch.testing.assert_close(slopes[2.0][0], -2 * slopes[-1.0][0])
    torch.testing.assert_close(slopes[2.0][1], slopes[-1.0][1])


def test_each_cross_entropy_takes_any_number_of_members() -> None:
    scores, labels = drawn(8, 2, 3, 4), torch.tensor([[0, 1, 2], [3, 0, 1]])
    oracle = functional.cross_entropy(scores[1], labels[1], reduction="none")
    torch.testing.assert_close(each_cross_entropy(scores, labels)[1], oracle)
