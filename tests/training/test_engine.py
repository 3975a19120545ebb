from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune

from scotoma.config import Recipe
from scotoma.training import engine
from scotoma.training.backends import Backend
from scotoma.training.engine import (
    SHADOW,
    Member,
    TrainedMember,
    Training,
    augment,
    normalise,
    products_precision,
)
from scotoma.training.models import build_model
from scotoma.training.optimiser import learning_rate
from scotoma.training.pruning import Pruning, cubic_sparsity, prunable
from scotoma.training.randomness import member_seed, minibatch
from scotoma.training.task import TrainingTask, classification
from scotoma.training.task import cross_entropy as each_cross_entropy

RECIPE = Recipe(
    precision="float32", steps=12, batch_size=16, prune_begin=0.2, prune_end=0.8, prune_every=0.1
)
CLASSES = 4


def train(
    data: tuple[NDArray[np.uint8], NDArray[np.int64]],
    members: list[Member],
    *,
    backend: Backend = "stacked",
    model: str = "tiny-convnet",
    pruning: Pruning = SHADOW,
    **change: object,
) -> list[TrainedMember]:
    recipe = RECIPE.model_copy(update=change)
    images, labels = data
    return Training(
        members, images, labels, model=model, task=TrainingTask(CLASSES), recipe=recipe,
        backend=backend, pruning=pruning,
    ).run()  # fmt: skip


def reference(
    data: tuple[NDArray[np.uint8], NDArray[np.int64]],
    member: Member,
    *,
    name: str,
    varied: str,
    way: Pruning = SHADOW,
) -> dict[str, torch.Tensor]:
    """The slow twin: torch.optim.SGD, one module, one step after the other."""
    images, labels = torch.from_numpy(data[0]), torch.from_numpy(data[1])
    recipe = RECIPE.model_copy(update={"augmentation": varied})
    model = build_model(name, CLASSES, member.seed)
    masked = prunable(model)
    parameters = dict(model.named_parameters())
    optimiser = torch.optim.SGD(
        [
            {"params": [parameters[name] for name in masked], "weight_decay": RECIPE.weight_decay},
            {"params": [p for name, p in parameters.items() if name not in masked]},
        ],
        lr=1.0,
        momentum=RECIPE.momentum,
        nesterov=True,
    )
    masks = {name: torch.ones_like(parameters[name], dtype=torch.bool) for name in masked}
    begin, end, every = RECIPE.mask_updates
    epoch = len(labels) // RECIPE.batch_size
    for step in range(RECIPE.total_steps):
        if begin <= step <= end and (step - begin) % every == 0:
            share = 1 - (step - begin) / (end - begin)
            now = member.sparsity * (1 - share**3)
            masks |= torchs_masks(model, now, way)
        rows = minibatch(member.seed, step, RECIPE.batch_size, len(labels))
        shadow = {name: parameters[name].detach().clone() for name in masked}
        with torch.no_grad():
            for name in masked:
                parameters[name].mul_(masks[name])
        optimiser.zero_grad()
        key = {"seed": member.seed, "step": step, "epoch": step // epoch}
        shown = augment(images[rows], recipe, rows=rows, **key)
        cross_entropy(model(engine.normalise(shown)), labels[rows]).backward()
        with torch.no_grad():
            for name in masked:  # the update goes to the shadow, at the gradient of the masked
                parameters[name].copy_(shadow[name])
                if way.is_hard:
                    parameters[name].mul_(masks[name])
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, RECIPE)
        optimiser.step()
        with torch.no_grad():
            for name in masked if way.is_hard else ():
                parameters[name].mul_(masks[name])
    with torch.no_grad():
        for name in masked:
            parameters[name].mul_(masks[name])
    return {name: value.detach() for name, value in model.state_dict().items()}


def torchs_masks(model: torch.nn.Module, sparsity: float, way: Pruning) -> dict[str, torch.Tensor]:
    """Masks of one model by torch's own pruning."""
    copied = copy.deepcopy(model)
    names = prunable(copied, way.exempt)
    layers = [copied.get_submodule(name.removesuffix(".weight")) for name in names]
    if way.scope == "global":
        amount = round(sparsity * sum(layer.weight.numel() for layer in layers))
        pairs = [(layer, "weight") for layer in layers]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=amount)
    else:
        for layer in layers:
            prune.l1_unstructured(layer, "weight", amount=round(sparsity * layer.weight.numel()))
    return {n: layer.weight_mask.bool() for n, layer in zip(names, layers, strict=True)}


NETWORKS = [
    ("stacked", "tiny-convnet", "none"),
    ("stacked", "tiny-convnet", "flip"),
    ("loop", "tiny-convnet", "crop-flip"),
    ("stacked", "tiny-convnet", "crop-alternating-flip"),
    ("loop", "resnet8", "flip"),
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sparsity", [0.0, 0.9])
@pytest.mark.parametrize(("backend", "model", "augmentation"), NETWORKS)
def test_a_population_equals_torchs_optimiser_on_one_model(
    data, sparsity: float, backend: Backend, model: str, augmentation: str
) -> None:
    members = [Member("a", 0, 5, sparsity), Member("b", 1, 6, 0.3), Member("c", 2, 7, 0.0)]
    results = train(data, members, backend=backend, model=model, augmentation=augmentation)
    slow = reference(data, members[0], name=model, varied=augmentation)
    for name, expected in slow.items():
        torch.testing.assert_close(
            results[0].state[name].to(expected.dtype), expected, rtol=1e-8, atol=1e-10, msg=name
        )


WAYS = [
    Pruning("hard"),
    Pruning(scope="global"),
    Pruning("hard", "global", ("first",)),
    Pruning(exempt=("first", "last")),
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_every_way_of_pruning_equals_torchs_on_one_model(
    data, backend: Backend, way: Pruning
) -> None:
    members = [Member("a", 0, 5, 0.9), Member("b", 1, 6, 0.5)]
    results = train(data, members, backend=backend, pruning=way)
    for member, trained in zip(members, results, strict=True):
        slow = reference(data, member, name="tiny-convnet", varied="none", way=way)
        for name, expected in slow.items():
            value = trained.state[name].to(expected.dtype)
            torch.testing.assert_close(value, expected, rtol=1e-8, atol=1e-10, msg=name)
            assert torch.equal(value == 0, expected == 0), name


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("way", [SHADOW, *WAYS])
def test_masks_hold_what_they_say_at_every_update(data, way: Pruning) -> None:
    members = [Member("a", 0, 5, 0.9), Member("b", 1, 6, 0.5), Member("c", 2, 7, 0.0)]
    run = Training(
        members, *data, model="tiny-convnet", task=TrainingTask(CLASSES), recipe=RECIPE, pruning=way
    )
    begin, end, every = RECIPE.mask_updates
    state, names = run.start(), prunable(build_model("tiny-convnet", CLASSES, 0), way.exempt)
    for step in range(begin, end + 1, every):
        before = run.advance(state, step)  # the weights that the update looks at
        state = run.advance(before, step + 1)
        assert tuple(state.masks) == names
        for k, member in enumerate(members):
            now = cubic_sparsity(step, final=member.sparsity, begin=begin, end=end, every=every)
            scopes = [names] if way.scope == "global" else [(name,) for name in names]
            for scope in scopes:
                keep = torch.cat([state.masks[name][k].flatten() for name in scope])
                weights = {n: before.parameters[n][k] for n in scope}
                if way.is_hard:
                    weights = {n: w * before.masks[n][k] for n, w in weights.items()}
                size = torch.cat([weight.flatten() for weight in weights.values()]).abs()
                assert int((~keep).sum()) == round(now * len(keep))
                if not bool(keep.all()):
                    assert size[~keep].max() <= size[keep].min()
            if way.is_hard:
                for name in names:
                    assert not bool((state.masks[name][k] & ~before.masks[name][k]).any())
    final = run.advance(state)
    for name, mask in final.masks.items():
        assert torch.equal(mask, state.masks[name]), "fixed after the last update"
    for k, trained in enumerate(run.finish(final)):
        for name in names:
            assert not trained.state[name][~final.masks[name][k]].any(), name


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_a_member_does_not_depend_on_its_company(data, backend: Backend) -> None:
    member = Member("a", 0, 5, 0.9)
    (alone,) = train(data, [member], backend=backend)
    together = train(data, [Member("b", 1, 6, 0.3), member], backend=backend)[1]
    for name, value in alone.state.items():
        assert torch.equal(together.state[name], value), name


@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_bfloat16_products_leave_float32_weights_that_learn(data, backend: Backend) -> None:
    (result,) = train(data, [Member("a", 0, 5)], backend=backend, steps=60, precision="bfloat16")
    assert {value.dtype for value in result.state.values()} == {torch.float32, torch.int64}
    assert result.loss[-1] < 0.6 * result.loss[0]
    (exact,) = train(data, [Member("a", 0, 5)], backend=backend, steps=60)
    assert exact.loss != result.loss


def test_precision_is_chosen_by_the_processor_where_it_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for fast, expected in ((False, torch.float32), (True, torch.bfloat16)):
        monkeypatch.setattr(engine, "has_fast_bfloat16", lambda fast=fast: fast)
        assert products_precision(Recipe()) == expected
        assert products_precision(Recipe(precision="float32")) == torch.float32
        assert products_precision(Recipe(precision="bfloat16")) == torch.bfloat16


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_a_second_head_and_another_sampler_are_pieces_of_the_task(data, backend: Backend) -> None:
    """Two heads: the class, and an attribute that the second one learns to name."""
    images, labels = data
    attribute = (labels % 2)[:, None]
    seen: set[int] = set()

    def two_heads(
        outputs: torch.Tensor, classes: torch.Tensor, attributes: torch.Tensor
    ) -> torch.Tensor:
        first, second = outputs.split([CLASSES, 2], dim=-1)
        return each_cross_entropy(first, classes, attributes) + each_cross_entropy(
            second, attributes[..., 0], attributes
        )

    def only_the_first(seed: int, step: int, batch_size: int, examples: int) -> NDArray[np.int64]:
        rows = minibatch(seed, step, batch_size, 40)
        seen.update(rows.tolist())
        return rows

    def trained(task: TrainingTask, steps: int) -> TrainedMember:
        recipe = RECIPE.model_copy(update={"steps": steps})
        (result,) = Training(
            *([Member("a", 0, 5)], images, labels), model="tiny-convnet", task=task,
            recipe=recipe, backend=backend, attributes=attribute,
        ).run()  # fmt: skip
        return result

    result = trained(TrainingTask(CLASSES + 2, two_heads, only_the_first), 60)
    assert seen == set(range(40))
    assert result.state["8.weight"].shape[0] == CLASSES + 2
    model = build_model("tiny-convnet", CLASSES + 2, 0).eval()
    with torch.inference_mode():
        batch = engine.normalise(torch.from_numpy(images[:40]))
        state = {
            n: v.to(batch.dtype) if v.is_floating_point() else v for n, v in result.state.items()
        }
        outputs = torch.func.functional_call(model, state, (batch,))
    assert float((outputs[:, CLASSES:].argmax(1).numpy() == attribute[:40, 0]).mean()) > 0.9


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_labels_are_smoothed_as_torch_smooths_them(data, backend: Backend) -> None:
    recipe = RECIPE.model_copy(update={"steps": 1, "label_smoothing": 0.2})
    (result,) = Training(
        *([Member("a", 0, 5)], *data), model="tiny-convnet",
        task=classification(CLASSES, recipe), recipe=recipe, backend=backend,
    ).run()  # fmt: skip
    rows = minibatch(5, 0, RECIPE.batch_size, len(data[1]))
    outputs = build_model("tiny-convnet", CLASSES, 5)(
        engine.normalise(torch.from_numpy(data[0][rows]))
    )
    expected = cross_entropy(outputs, torch.from_numpy(data[1][rows]), label_smoothing=0.2)
    assert result.loss == (pytest.approx(expected.item(), rel=1e-12),)


def test_sparsity_0_gives_the_bits_of_dense_training(data) -> None:
    dense = train(data, [Member("dense", 0, 5)])
    # So small that no layer loses a weight, yet every mask update is gone through.
    pruned = train(data, [Member("prune-0", 0, 5, 1e-6)])
    for name, value in dense[0].state.items():
        assert torch.equal(pruned[0].state[name], value), name


def test_pixels_go_to_the_interval_from_minus_1_to_1() -> None:
    assert normalise(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx(
        [-1.0, -0.6, 1.0]
    )


def test_a_curve_holds_the_mean_loss_of_every_part_of_the_run(data) -> None:
    # 12 steps are cut at 1, 2, 4, 5, 6, 7, 8, 10, 11 and 12.
    done: list[int] = []
    images, labels = data
    (result,) = Training(
        [Member("a", 0, 5)],
        images,
        labels,
        model="tiny-convnet",
        task=TrainingTask(CLASSES),
        recipe=RECIPE,
    ).run(progress=done.append)
    assert len(result.loss) == 10
    assert done == [1, 1, 2, 1, 1, 1, 1, 2, 1, 1]


def test_the_same_members_twice_give_the_same_bits(data) -> None:
    members = [Member("a", 0, 5, 0.9), Member("b", 1, 6, 0.5)]
    first, second = train(data, members), train(data, members)
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(one.state[name], other.state[name]) for name in one.state)
        assert one.loss == other.loss


def test_masked_weights_are_exactly_0_in_the_declared_number(data) -> None:
    (result,) = train(data, [Member("a", 0, 5, 0.9)])
    assert result.weights == prunable(build_model("tiny-convnet", CLASSES, 0))
    for name in result.weights:
        weight = result.state[name]
        zero = weight.view(torch.int32) == 0  # not -0, which is a bit more to keep
        assert int(zero.sum()) == int((weight == 0).sum()) == round(0.9 * weight.numel()), name


def test_training_learns(data) -> None:
    (result,) = train(data, [Member("a", 0, 5)], steps=60)
    assert result.loss[-1] < 0.5 * result.loss[0]


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), examples=st.integers(1, 50), batch_size=st.integers(1, 60))
def test_an_epoch_shows_every_example_at_most_once(
    seed: int, examples: int, batch_size: int
) -> None:
    size = min(batch_size, examples)
    batches = examples // size
    epochs = [
        np.concatenate(
            [minibatch(seed, e * batches + b, batch_size, examples) for b in range(batches)]
        )
        for e in range(2)
    ]
    for seen in epochs:
        assert len(seen) == batches * size == len(set(seen.tolist()))
        assert set(seen.tolist()) <= set(range(examples))


def test_members_of_different_variants_and_populations_share_no_seed() -> None:
    seeds = {
        member_seed(population, variant, member)
        for population in range(5)
        for variant in ("dense", "prune-0.5", "prune-0.9")
        for member in range(30)
    }
    assert len(seeds) == 5 * 3 * 30
