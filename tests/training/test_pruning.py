from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from scotoma.config import Recipe
from scotoma.training.models import build_model
from scotoma.training.pruning import (
    cubic_sparsity,
    magnitude_mask,
    prunable,
    pruned_count,
)


@pytest.mark.parametrize("final", [0.3, 0.5, 0.9, 0.99])
def test_the_schedule_is_that_of_torch_at_every_update(final: float) -> None:
    """Oracle: torch.ao.pruning.CubicSL, the same polynomial after Zhu and Gupta (2017)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao announces its own move to another package
        from torch.ao.pruning import CubicSL, WeightNormSparsifier

        model = nn.Sequential(nn.Linear(8, 8))
        sparsifier = WeightNormSparsifier(sparsity_level=final, sparse_block_shape=(1, 1))
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
        begin, every, updates = 3, 2, 5
        schedule = CubicSL(
            sparsifier, init_sl=0.0, init_t=begin, delta_t=every, total_t=updates, verbose=False
        )
        theirs = []
        for _ in range(begin + every * updates + 4):
            theirs.append(sparsifier.groups[0]["sparsity_level"])
            schedule.step()
    end = begin + every * updates
    steps = range(len(theirs))
    ours = [cubic_sparsity(t, final=final, begin=begin, end=end, every=every) for t in steps]
    updates_at = [t for t in steps if t >= begin and (t - begin) % every == 0 and t <= end]
    np.testing.assert_allclose(
        [ours[t] for t in updates_at], [theirs[t] for t in updates_at], atol=1e-12
    )
    assert ours[end] == final
    assert ours[begin] == 0.0


def test_the_papers_step_counts_come_out() -> None:
    """PIE, CIFAR-10: from 1,000 to 20,000 of 80,000 steps every 2,000 (the last at 19,000)."""
    recipe = Recipe(steps=80_000, prune_begin=1 / 80, prune_end=0.25, prune_every=0.025)
    assert recipe.mask_updates == (1000, 19_000, 2000)


@given(
    size=st.integers(1, 400),
    sparsity=st.floats(0, 0.999),
    seed=st.integers(0, 2**16),
    levels=st.integers(1, 6),
)
def test_a_mask_zeroes_the_declared_number_and_the_smallest(
    size: int, sparsity: float, seed: int, levels: int
) -> None:
    # Few distinct magnitudes, both signs: ties are the rule here.
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.integers(-levels, levels + 1, size).astype(np.float32))
    keep = magnitude_mask(weight, sparsity)
    removed, kept = weight[~keep].abs(), weight[keep].abs()
    assert len(removed) == pruned_count(size, sparsity)
    if len(removed) and len(kept):
        assert removed.max() <= kept.min()
        tied = (weight.abs() == removed.max()).nonzero().flatten()
        order = keep[tied].tolist()
        assert order == sorted(order), "among equals the first in memory go"


@given(
    steps=st.integers(1, 400),
    begin=st.floats(0, 0.99),
    end=st.floats(0.01, 1),
    every=st.floats(0.001, 1),
)
def test_a_recipe_that_is_accepted_reaches_its_sparsity(
    steps: int, begin: float, end: float, every: float
) -> None:
    try:
        recipe = Recipe(steps=steps, prune_begin=begin, prune_end=end, prune_every=every)
    except ValueError:
        return
    first, last, distance = recipe.mask_updates
    updates = [t for t in range(steps) if first <= t <= last and (t - first) % distance == 0]
    reached = cubic_sparsity(updates[-1], final=0.9, begin=first, end=last, every=distance)
    assert reached == 0.9


def test_conv_and_linear_weights_are_pruned_and_nothing_else() -> None:
    model = build_model("resnet18", 10, 0)
    names = prunable(model)
    assert {"conv1.weight", "fc.weight", "layer4.1.conv2.weight"} <= set(names)
    assert not [name for name in names if "bn" in name or name.endswith("bias")]
    assert len(names) == 21  # 20 convolutions and the classifier
