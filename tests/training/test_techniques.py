"""Techniques in training: plain where they ask for nothing, alone as beside others, as written."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from scotoma.config import Mitigation, Recipe
from scotoma.mitigation.groups import TrainingGroups
from scotoma.mitigation.learning.adversaries import group_adversary
from scotoma.mitigation.learning.samplers import balanced_halves, cell_sizes, repeated_rows
from scotoma.training import engine
from scotoma.training.backends import Backend, Batch, gradients
from scotoma.training.engine import ERRORS, Member, Training
from scotoma.training.models import build_model
from scotoma.training.optimiser import fresh_memory, learning_rate, update_weights
from scotoma.training.pruning import prunable
from scotoma.training.randomness import minibatch
from scotoma.training.state import TrainingState
from scotoma.training.task import TrainingTask, classification, cross_entropy
from scotoma.training.technique import technique_task

CLASSES = 4
RECIPE = Recipe(steps=12, batch_size=14, learning_rate=0.05, prune_begin=0.3, precision="float32")
TECHNIQUES = (
    "RS", "SUBG", "DD1", "DI2", "UC", "GR", "group-dro", "JTT", "L2", "ALM", "distil", "CEAG",
    "A4",
)  # fmt: skip
FREE = ("JTT", "distil")


@cache
def groups_of(classes: int = CLASSES, *, balanced: bool = False) -> TrainingGroups:
    rng = np.random.default_rng(4)
    labels = labels_of(classes)
    codes = (rng.random(70) < np.where(labels % 2, 0.8, 0.2)).astype(np.int64)
    if balanced:
        codes = np.arange(70) // classes % 2
    return TrainingGroups(("a", "b"), codes, cell_sizes(labels, codes, (2, classes)))


def labels_of(classes: int = CLASSES) -> np.ndarray:
    return np.random.default_rng(0).integers(0, CLASSES, 70) % classes


def asked(technique: str, **settings: Any) -> Mitigation:
    attribute = None if technique in FREE else "style"
    return Mitigation.model_validate(
        {"technique": technique, "attribute": attribute, **settings}, strict=True
    )


def training(
    data, technique: str, seeds: tuple[int, ...] = (5,), *, backend: Backend = "stacked",
    sparsity: float = 0.0, recipe: Recipe = RECIPE, dense: Any = None, task: Any = None,
    **settings: Any,
) -> Training:  # fmt: skip
    classes = 2 if technique in ("L2", "ALM") else CLASSES
    labels, groups = data[1] % classes, groups_of(classes)
    if task is None:
        task = technique_task(asked(technique, **settings), recipe, labels, groups, classes)
    return Training(
        [Member("a", k, seed, sparsity) for k, seed in enumerate(seeds)], data[0], labels,
        model="tiny-convnet", task=task, recipe=recipe, backend=backend,
        attributes=groups.codes[:, None], dense=dense,
    )  # fmt: skip


def end(run: Training, start: TrainingState | None = None) -> TrainingState:
    return run.advance(start or run.start())


def weights(state: TrainingState) -> dict[str, torch.Tensor]:
    return {**state.parameters, **state.buffers}


def dense_of(data, seeds: tuple[int, ...], backend: Backend = "stacked") -> dict[str, torch.Tensor]:
    return weights(end(training(data, "distil", seeds, backend=backend)))


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


@pytest.mark.usefixtures("float64")
def test_empty_slots_give_the_bits_of_the_training_before_them(data) -> None:
    """The step as it was: one loss, its gradient, the optimiser; no phase and no value."""
    run = training(data, "plain", (5, 6), task=classification(CLASSES, RECIPE))
    first = run.start()
    assert first.values == {}
    assert not any(key.startswith("values/") for key in first.tensors())
    expected = weights(run.advance(first, 3))
    state, memory = first.parameters, fresh_memory(first.parameters, RECIPE)
    buffers = first.buffers
    template = build_model("tiny-convnet", CLASSES, 0)
    step_of = gradients(template, cross_entropy, "stacked")
    images, labels = torch.from_numpy(data[0]), torch.from_numpy(data[1])
    for step in range(3):
        rows = np.stack([minibatch(seed, step, RECIPE.batch_size, 70) for seed in (5, 6)])
        batch = Batch(engine.normalise(images[rows]), labels[rows], torch.empty(2, 14, 0))
        learned = step_of(state, buffers, batch, {})
        assert (learned.head, learned.values) == ({}, {})
        update_weights(
            state, memory, learned.slopes, prunable(template), step=step,
            rate=learning_rate(step, RECIPE), recipe=RECIPE,
        )  # fmt: skip
        buffers = learned.buffers
    assert_equal(expected, {**state, **buffers})


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("backend", ["stacked", pytest.param("loop", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_member_depends_on_no_neighbour_and_is_the_same_by_both_backends(
    data, technique: str, backend: Backend
) -> None:
    """Duals, group weights and adversaries too; pruned, beside its own dense member."""
    seeds = (5, 6, 7)
    dense = dense_of(data, seeds) if technique in ("distil", "CEAG") else None
    own = None if dense is None else {name: value[1:2] for name, value in dense.items()}
    together = end(training(data, technique, seeds, sparsity=0.5, dense=dense))
    alone = end(training(data, technique, (6,), sparsity=0.5, dense=own, backend=backend))
    assert together.values.keys() == alone.values.keys()
    for section in ("parameters", "buffers", "values"):
        for name, value in getattr(alone, section).items():
            torch.testing.assert_close(
                getattr(together, section)[name][1:2], value, rtol=1e-7, atol=1e-9, equal_nan=True
            )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("technique", ["SUBG", "GR", "group-dro", "JTT", "ALM", "CEAG", "A5"])
def test_a_stopped_training_goes_on_to_the_same_bits(data, technique: str) -> None:
    dense = dense_of(data, (5, 6)) if technique in ("distil", "CEAG") else None
    run = training(data, technique, (5, 6), dense=dense)
    whole = end(run)
    halves = run.advance(run.start(), 7)
    again = TrainingState.joined([TrainingState.of(part.tensors()) for part in halves.split()])
    resumed = end(training(data, technique, (5, 6), dense=dense), again)
    for name, value in whole.tensors().items():
        assert torch.equal(value.nan_to_num(-1), resumed.tensors()[name].nan_to_num(-1)), name


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("technique", ["DI2", "UC", "GR", "L2", "A4"])
def test_nothing_but_the_network_is_kept_of_a_member(data, technique: str) -> None:
    short = RECIPE.model_copy(update={"steps": 3, "prune_every": 0.4})
    run = training(data, technique, recipe=short)
    (member,) = run.run()
    outputs = 2 * CLASSES if technique[0] == "D" else 2 if technique in ("L2", "ALM") else CLASSES
    names = build_model("tiny-convnet", outputs, 0).state_dict()
    assert {n: v.shape for n, v in member.state.items()} == {n: v.shape for n, v in names.items()}


@pytest.mark.usefixtures("float64")
def test_techniques_without_a_say_are_plain_training(data) -> None:
    plain = weights(end(training(data, "plain", task=classification(CLASSES, RECIPE))))
    assert_equal(weights(end(training(data, "CEAG"))), plain)  # dense: nothing to stand beside
    assert_equal(weights(end(training(data, "distil"))), plain)
    two = weights(end(training(data, "L2", task=classification(2, RECIPE))))
    assert_equal(weights(end(training(data, "L2", eta=0.0))), two)
    balanced = groups_of(balanced=True)
    labels = np.arange(70) % CLASSES
    rows = repeated_rows(labels, balanced.codes)
    assert len(rows) < 2 * 70
    even = np.repeat(np.arange(CLASSES), 16)
    codes = np.tile([0, 1], 32)
    data_64 = data[0][:64], even
    groups = TrainingGroups(("a", "b"), codes, cell_sizes(even, codes, (2, CLASSES)))
    task = technique_task(asked("RS"), RECIPE, even, groups, CLASSES)
    runs = [
        Training(
            [Member("a", 0, 5)], *data_64, model="tiny-convnet", task=one, recipe=RECIPE,
            attributes=codes[:, None],
        )
        for one in (task, classification(CLASSES, RECIPE))
    ]  # fmt: skip
    assert_equal(*(weights(end(run)) for run in runs))


@pytest.mark.usefixtures("float64")
def test_one_cell_of_group_dro_is_plain_training(data) -> None:
    groups = TrainingGroups(("a",), np.zeros(70, np.int64), np.array([[70]]))
    task = technique_task(asked("group-dro"), RECIPE, np.zeros(70, np.int64), groups, 1)
    outputs = engine.TrainingTask(1).outputs
    assert task.outputs == outputs
    phase = task.phase(0, 0, beside_dense=False)
    scores, labels = torch.randn(3, 14, 1), torch.zeros(3, 14, dtype=torch.int64)
    told = {"cell-weights": torch.ones(3, 1), "epoch": torch.zeros(3)}
    from scotoma.training.stacked_network import Outputs

    losses, values = phase.losses(Outputs(scores, scores), labels, labels[..., None], told)
    attributes = torch.empty(3, 14, 0)
    torch.testing.assert_close(losses["task"], cross_entropy(scores, labels, attributes))
    assert values["cell-weights"].tolist() == [[1.0]] * 3


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("technique", ["UC", "GR"])
def test_adversaries_learn_as_in_a_plain_loop_of_torch(data, technique: str) -> None:
    """One member, torch's own modules and optimisers, in the notation of the paper."""
    recipe = Recipe(
        steps=18, batch_size=14, optimiser="adam", learning_rate=0.01, weight_decay=3e-4,
        schedule="constant", warmup=0.0, precision="float32",
    )  # fmt: skip
    run = training(data, technique, recipe=recipe, alpha=0.7)
    state, first = end(run), run.start()
    network = build_model("tiny-convnet", CLASSES, 5)
    head = torch.nn.Linear(*first.values["head/weight"].shape[:0:-1])
    with torch.no_grad():
        head.weight.copy_(first.values["head/weight"][0])
        head.bias.copy_(first.values["head/bias"][0])
    kinds = prunable(network)
    named = dict(network.named_parameters())
    adam = torch.optim.Adam(
        [
            {"params": [named[name] for name in kinds], "weight_decay": 3e-4},
            {"params": [p for name, p in named.items() if name not in kinds]},
        ],
        lr=0.01,
    )
    taken = {"steps": 0}
    head_adam = torch.optim.Adam(head.parameters(), lr=1e-3)
    images, codes = torch.from_numpy(data[0]), torch.from_numpy(groups_of().codes)
    for step in range(18):
        rows = minibatch(5, step, 14, 70)
        x, y, a = engine.normalise(images[rows]), torch.from_numpy(data[1][rows]), codes[rows]
        z = network[:-1](x)
        s = network[-1](z)
        turn = step // 5 % 3 == 0
        task = functional.cross_entropy(s, y)
        if technique == "UC":
            q = head(z)
            if turn:
                u = torch.autograd.grad(
                    task + 0.7 * -q.log_softmax(1).mean(1).mean(), list(named.values())
                )
            else:
                head.zero_grad()
                functional.cross_entropy(head(z.detach()), a).backward()
                head_adam.step()
        else:
            read = functional.cross_entropy(head(s), a)
            u = torch.autograd.grad(task, list(named.values()), retain_graph=True)
            v = torch.autograd.grad(read, list(named.values()), retain_graph=True)
            u = [
                g - 0.7 * w - (((g * w).sum() / (w * w).sum()) * w if w.norm() > 1e-5 else 0)
                for g, w in zip(u, v, strict=True)
            ]
            head.zero_grad()
            read.backward(inputs=list(head.parameters()))
            head_adam.step()
        if turn:
            # Ours counts every step of the recipe in Adam's correction, so the rate is put right.
            for parameter, slope in zip(named.values(), u, strict=True):
                parameter.grad = slope
            for group in adam.param_groups:
                for parameter in group["params"]:
                    if parameter in adam.state:
                        adam.state[parameter]["step"].fill_(step)
            taken["steps"] += 1
            adam.step()
    assert taken["steps"] == 8
    for name, parameter in named.items():
        torch.testing.assert_close(
            state.parameters[name][0], parameter.detach(), rtol=1e-6, atol=1e-8
        )
    torch.testing.assert_close(state.values["head/weight"][0], head.weight.detach())


@pytest.mark.usefixtures("float64")
def test_an_adversary_on_a_map_without_weight_leaves_the_task_as_it_is(data) -> None:
    run = training(data, "A5", reversal=0.0, frozen_steps=0.0, backend="loop")
    plain = replace(run.task, phases=None, head=None)
    assert_equal(weights(end(run)), weights(end(training(data, "A5", task=plain, backend="loop"))))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("technique", "place"), [("A4", 2), ("A5", 5)])
def test_the_last_layer_moves_first_and_then_all_against_an_adversary_on_a_map(
    data, technique: str, place: int
) -> None:
    """The second step by torch's own modules: 4 rows of each group, the gradient turned round."""
    recipe = Recipe(
        steps=2, batch_size=8, learning_rate=0.05, momentum=0.0, weight_decay=0.0,
        schedule="constant", warmup=0.0, precision="float32",
    )  # fmt: skip
    run = training(data, technique, recipe=recipe, reversal=1.5, frozen_steps=0.5)
    first = run.start()
    half = run.advance(first, 1)
    after = run.advance(half)
    moved = {n for n, own in half.parameters.items() if not own.equal(first.parameters[n])}
    assert moved == {"8.weight", "8.bias"}
    network = build_model("tiny-convnet", CLASSES, 5)
    network.load_state_dict({n: v[0] for n, v in weights(half).items()})
    adversary = group_adversary(1)
    rows = balanced_halves(groups_of().codes, 5, 1, 8)
    codes = torch.from_numpy(groups_of().codes[rows])
    assert codes.bincount().tolist() == [4, 4]
    read = network[: place + 1](engine.normalise(torch.from_numpy(data[0][rows])))
    own = {n: half.values[f"head/{n}"][0] for n, _ in adversary.named_parameters()}
    task = functional.cross_entropy(network[place + 1 :](read), torch.from_numpy(data[1][rows]))
    told = functional.cross_entropy(torch.func.functional_call(adversary, own, read), codes)
    for name, parameter in network.named_parameters():
        slopes = [
            torch.autograd.grad(loss, parameter, retain_graph=True, materialize_grads=True)[0]
            for loss in (task, told)
        ]
        expected = parameter.detach() - 0.05 * (slopes[0] - 1.5 * slopes[1])
        torch.testing.assert_close(after.parameters[name][0], expected)


def test_errors_of_the_first_training_are_repeated_in_the_second(data) -> None:
    run = training(data, "JTT", (5, 6), first_steps=0.5, repeats=7)
    start = run.start()
    first = Training(
        run.members, *data, model="tiny-convnet", task=TrainingTask(CLASSES), recipe=RECIPE
    )
    half = first.advance(first.start(), 6)
    predicted = first.predictions(half.parameters, half.buffers).numpy()
    wrong = start.values[ERRORS].numpy()
    np.testing.assert_array_equal(wrong, predicted != data[1])
    assert wrong.any()
    assert not wrong.all()
    run.advance(start, 1)
    for member, own in zip(run.members, wrong, strict=True):
        counts = np.bincount(run._pools[member.seed], minlength=70)
        np.testing.assert_array_equal(counts, np.where(own, 7, 1))


@pytest.mark.usefixtures("float64")
def test_ceag_counts_accuracies_of_the_dense_members_and_bounds_no_even_fall(data) -> None:
    dense = dense_of(data, (5, 6))
    run = training(data, "CEAG", (5, 6), sparsity=0.9, dense=dense, margin=0.0)
    state = end(run)
    codes = groups_of().codes
    for k, seed in enumerate((5, 6)):
        network = build_model("tiny-convnet", CLASSES, seed).eval()
        network.load_state_dict({name: value[k] for name, value in dense.items()})
        with torch.inference_mode():
            right = (
                network(engine.normalise(torch.from_numpy(data[0]))).argmax(1).numpy() == data[1]
            )
        expected = [right[codes == code].mean() for code in (0, 1)]
        assert state.values["dense"][k].tolist() == pytest.approx(expected)
    duals = state.values["excess-duals"]
    assert (duals >= 0).all()
    assert duals.any()
    wide = end(training(data, "CEAG", (5, 6), sparsity=0.9, dense=dense, margin=0.99))
    assert not wide.values["excess-duals"].any()


@pytest.mark.usefixtures("float64")
def test_a_pruned_member_learns_the_scores_of_its_dense_one(data) -> None:
    recipe = RECIPE.model_copy(update={"steps": 60})
    dense = weights(end(training(data, "distil", recipe=recipe)))
    plain = training(data, "distil", recipe=recipe, sparsity=0.8)
    taught = training(data, "distil", recipe=recipe, sparsity=0.8, dense=dense)
    distance = {}
    for name, run in (("plain", plain), ("taught", taught)):
        state = end(run)
        images = engine.normalise(torch.from_numpy(data[0]))[None]
        held = {n: v.masked_fill(~state.masks[n], 0) if n in state.masks else v
                for n, v in state.parameters.items()}  # fmt: skip
        aim = taught._scores(*taught._dense, images).log_softmax(-1)
        own = run._scores(held, state.buffers, images).log_softmax(-1)
        distance[name] = (aim.exp() * (aim - own)).sum(-1).mean().item()
    assert distance["taught"] < distance["plain"]
