from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from scotoma.config import Recipe, parse_config
from scotoma.errors import ConfigError
from scotoma.training.models import build_model
from scotoma.training.pruning import (
    Pruning,
    cubic_sparsity,
    magnitude_mask,
    prunable,
    pruned_count,
    update_masks,
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


def layers(seed: int) -> dict[str, nn.Module]:
    torch.manual_seed(seed)
    return {"0": nn.Conv2d(3, 8, 3), "2": nn.Linear(20, 30), "4": nn.Linear(30, 5)}


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.93])
def test_masks_of_random_weights_are_those_of_torchs_pruning(sparsity: float) -> None:
    """Oracles: l1_unstructured and global_unstructured, for every member by itself."""
    members = [layers(seed) for seed in (0, 1)]
    weights = {
        f"{name}.weight": torch.stack([member[name].weight.detach() for member in members])
        for name in members[0]
    }
    for scope in ("layer", "global"):
        masks = {name: torch.ones_like(value, dtype=torch.bool) for name, value in weights.items()}
        update_masks(masks, weights, [sparsity, 0.0], Pruning(scope=scope))
        theirs = layers(0)
        if scope == "global":
            pairs = [(layer, "weight") for layer in theirs.values()]
            amount = pruned_count(sum(layer.weight.numel() for layer in theirs.values()), sparsity)
            prune.global_unstructured(pairs, prune.L1Unstructured, amount=amount)
        else:
            for layer in theirs.values():
                amount = pruned_count(layer.weight.numel(), sparsity)
                prune.l1_unstructured(layer, "weight", amount=amount)
        for name, layer in theirs.items():
            assert torch.equal(masks[f"{name}.weight"][0], layer.weight_mask.bool()), (scope, name)
            assert bool(masks[f"{name}.weight"][1].all())


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    sparsities=st.lists(st.floats(0, 0.99), min_size=2, max_size=5).map(sorted),
    seed=st.integers(0, 2**16),
    scope=st.sampled_from(["layer", "global"]),
)
def test_hard_masks_only_ever_grow_and_by_the_declared_number(
    sizes: list[int], sparsities: list[float], seed: int, scope: str
) -> None:
    # Whole numbers from -2 to 2: many ties, and weights that are 0 without having been pruned.
    rng, way = np.random.default_rng(seed), Pruning("hard", scope)
    masks = {str(k): torch.ones(1, size, dtype=torch.bool) for k, size in enumerate(sizes)}
    for sparsity in sparsities:
        weights = {
            name: torch.from_numpy(rng.integers(-2, 3, mask.shape).astype(np.float32))
            for name, mask in masks.items()
        }
        before = {name: mask.clone() for name, mask in masks.items()}
        update_masks(masks, weights, [sparsity], way)
        for name, mask in masks.items():
            assert not bool((mask & ~before[name]).any()), "what is gone stays gone"
        zeros = [int((~mask).sum()) for mask in masks.values()]
        if scope == "layer":
            assert zeros == [pruned_count(size, sparsity) for size in sizes]
        else:
            assert sum(zeros) == pruned_count(sum(sizes), sparsity)


def test_the_first_and_the_last_layer_can_be_left_whole() -> None:
    model = build_model("resnet18", 10, 0)
    every = prunable(model)
    assert prunable(model, ("first",)) == every[1:]
    assert prunable(model, ("first", "last")) == every[1:-1]
    with pytest.raises(ConfigError, match=r"has 1 conv and linear layers, and exempt \['last'\]"):
        prunable(nn.Linear(3, 2), ("last",))


def test_the_way_of_pruning_stands_in_the_name_of_the_variant() -> None:
    config = parse_config(
        "variants: [dense, {prune: [0.5]}, {prune: [0.5], masks: hard, then: float16},"
        " {prune: [0.5], scope: global, exempt: first},"
        " {prune: [0.5], masks: hard, scope: global, exempt: [last, first]}]",
        "test",
    )
    settings = {v.name: Pruning.of(v) for v in config.resolved_variants if v.kind == "prune"}
    assert settings == {
        "prune-0.5": Pruning(),
        "prune-0.5-hard": Pruning("hard"),
        "prune-0.5-global-exempt-first": Pruning(scope="global", exempt=("first",)),
        "prune-0.5-hard-global-exempt-first-last": Pruning("hard", "global", ("first", "last")),
    }
    assert config.variant("prune-0.5-hard+float16").derived_from == "prune-0.5-hard"
