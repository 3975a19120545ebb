"""What a GPU would be asked for, as far as a processor can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scotoma.config import Recipe, parse_config
from scotoma.errors import ConfigError
from scotoma.processes.machine import Effort
from scotoma.run import Run
from scotoma.training import engine, population
from scotoma.training.backends import Backend, Batch, can_compile, gradients
from scotoma.training.choose_backend import choose_backend, compiling_pays
from scotoma.training.engine import Training
from scotoma.training.models import build_model
from scotoma.training.placement import PROCESSOR, batches_from
from scotoma.training.stacked_network import Tensors
from scotoma.training.task import classification, cross_entropy

AUDIT = """
source: {kind: digits-s, recipe: {batch_size: 16}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 8}
"""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[list[int]]:
    """Chunks of members that fitted a memory of `request.param` members."""
    fitted: list[list[int]] = []

    def train(_: object, variant: str, indices: list[int], *__: object) -> tuple[Effort, float]:
        if len(indices) > request.param:
            raise torch.OutOfMemoryError
        fitted.append(indices)
        return Effort(1.0, 1.0), 0.5

    monkeypatch.setattr(population.Trainer, "_together", train)
    return fitted


@pytest.fixture
def worker(tmp_path: Path) -> population.Trainer:
    """A worker without images."""
    data: Any = None
    run = Run.create(tmp_path / "run", parse_config(AUDIT, "test"))
    return population.Trainer(run, data, data, 10, "digest")


@pytest.mark.parametrize("trained", [3], indirect=True)
def test_members_that_do_not_fit_together_are_halved_until_they_do(
    worker: population.Trainer,
    trained: list[list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    worker.train("dense", list(range(8)), "stacked", "train dense")
    assert trained == [[0, 1], [2, 3], [4, 5], [6, 7]]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "8 members of dense together exceed the GPU's memory; going on with 4"
    assert len(lines) == 3


@pytest.mark.parametrize("trained", [0], indirect=True)
def test_a_member_that_does_not_fit_alone_is_one_sentence(
    worker: population.Trainer, trained: list[list[int]]
) -> None:
    with pytest.raises(ConfigError, match=r"member 0 of dense .*batch_size 16; lower it"):
        worker.train("dense", [0, 1], "stacked", "train dense")
    assert trained == []


@pytest.mark.parametrize("room", [0, 10**6])
def test_a_batch_is_the_same_from_resident_images_and_from_others(room: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 4, 4), np.uint8)
    rows = np.array([5, 0, 5])
    pixels = batches_from(images, PROCESSOR, room=room)(rows)
    assert pixels.dtype == torch.uint8
    assert np.array_equal(pixels.numpy(), images[rows])


@pytest.mark.parametrize(("models", "steps", "pays"), [(8, 585, False), (8, 2500, True)])
def test_a_pass_is_compiled_where_the_whole_audit_has_steps_enough(
    models: int, steps: int, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members' steps of dense and pruned models: 9,360 and 40,000; compiling pays from 20,000."""
    text = AUDIT.replace("batch_size: 16", f"steps: {steps}").replace(
        "models: 8", f"models: {models}"
    )
    config = parse_config(text.replace("[0.5]}]", "[0.5]}, {int8: [static]}]"), "test")
    assert compiling_pays(config, steps) == pays
    asked: list[dict[str, bool]] = []

    def noted(*_: Any, compiled: bool, recorded: bool, **__: Any) -> Any:
        asked.append({"compiled": compiled, "recorded": recorded})

    monkeypatch.setattr(engine, "gradients", noted)
    images = np.zeros((20, 3, 8, 8), np.uint8)
    training = engine.Training(
        [engine.Member("dense", 0, 0)], images, np.arange(20) % 10, model="tiny-convnet",
        task=classification(10, config.source.recipe), recipe=config.source.recipe,
        backend="loop", compiled=pays,
    )  # fmt: skip
    training._device = torch.device("cuda")  # as far as a processor can tell
    training._way(training._phase(0))
    assert asked == [{"compiled": pays, "recorded": True}]


def test_chunks_that_share_a_built_step_train_as_those_that_build_their_own() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (64, 3, 8, 8)).astype(np.uint8), rng.integers(0, 4, 64)
    recipe = Recipe(steps=6, batch_size=16)
    task = classification(4, recipe)
    built: dict[Any, Any] = {}

    def weights(seed: int, steps: dict[Any, Any] | None) -> dict[str, torch.Tensor]:
        members = [engine.Member("prune-0.5", seed, seed, 0.5)]
        trained = engine.Training(
            members, images, labels, model="tiny-convnet", task=task, recipe=recipe,
            backend="loop", steps=steps,
        ).run()  # fmt: skip
        return trained[0].state

    shared = [weights(seed, built) for seed in (0, 1)]
    assert len(built) == 1  # the second took what the first had built
    for seed, one in enumerate(shared):
        own = weights(seed, None)
        assert all(torch.equal(one[name], own[name]) for name in own)


CONFIG = """
source: {{kind: digits-s, model: {model}, recipe: {{batch_size: 8}}}}
variants: [dense, {{prune: [0.5]}}]
deterministic: {deterministic}
"""


def chosen(model: str, deterministic: str, size: int = 8) -> str:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (64, 3, size, size)).astype(np.uint8)
    config = parse_config(CONFIG.format(model=model, deterministic=deterministic), "test")
    return choose_backend(config, images, rng.integers(0, 10, 64))


def test_deterministic_mode_times_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotoma.training.choose_backend.Training", None)
    assert chosen("tiny-convnet", "true") == "stacked"
    assert chosen("resnet20", "true") == "loop"


def test_a_network_that_is_all_arithmetic_is_never_stacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = []

    class Watched(Training):
        def __init__(self, *arguments: Any, backend: Backend, **others: Any) -> None:
            backends.append(backend)
            super().__init__(*arguments, backend=backend, **others)

    monkeypatch.setattr("scotoma.training.choose_backend.Training", Watched)
    monkeypatch.setattr("scotoma.training.choose_backend.LONGEST_STACKED_STEP_S", -1.0)
    assert chosen("tiny-convnet", "false") == "loop"
    assert set(backends) == {"loop"}


def test_a_network_that_does_not_stack_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scotoma.training.choose_backend.Training", None)
    assert chosen("resnet8", "false") == "loop"


def test_both_backends_are_tried_on_a_small_network() -> None:
    assert chosen("tiny-convnet", "false") in ("stacked", "loop")


# --- the pass that torch compiles on a GPU, compiled here for the processor -----------------------


MEMBERS, BATCH = 3, 6


def distance(one: Tensors, other: Tensors) -> float:
    """Root of the summed squares of all differences."""
    return float(sum((one[name] - other[name]).square().sum() for name in other)) ** 0.5


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("tiny-convnet", torch.float32),
        pytest.param("resnet8", torch.float32, marks=pytest.mark.thorough),
        pytest.param("resnet8", torch.bfloat16, marks=pytest.mark.thorough),
    ],
)
def test_compiled_members_have_the_gradients_of_each_member(
    name: str, precision: torch.dtype
) -> None:
    torch.manual_seed(0)
    torch._dynamo.utils.counters.clear()
    models = [build_model(name, 4, seed).train() for seed in range(MEMBERS)]
    stacked, buffers = torch.func.stack_module_state(models)
    state = {name: value.detach().clone() for name, value in stacked.items()}
    exact = gradients(models[0], cross_entropy, "loop")
    plain = gradients(models[0], cross_entropy, "loop", precision=precision)
    compiled = gradients(models[0], cross_entropy, "loop", precision=precision, compiled=True)
    for _ in range(2):  # the second time by what was compiled the first time
        batch = Batch(
            torch.randn(MEMBERS, BATCH, 3, 8, 8),
            torch.randint(0, 4, (MEMBERS, BATCH)),
            torch.empty(MEMBERS, BATCH, 0),
        )
        slopes, losses, updated, *_ = compiled(state, buffers, batch, {})
        expected_slopes, expected_losses, expected_updated, *_ = plain(state, buffers, batch, {})
        assert bool(torch._dynamo.utils.counters["stats"]["unique_graphs"]) == can_compile()
        if precision == torch.float32:
            torch.testing.assert_close(losses, expected_losses)
            torch.testing.assert_close(slopes, expected_slopes)
            torch.testing.assert_close(updated, expected_updated)
        else:  # joined operations round less often, so that they are no further from the truth
            truth = exact(state, buffers, batch, {}).slopes
            assert distance(slopes, truth) <= 1.1 * distance(expected_slopes, truth)
        assert not any(value.requires_grad for value in [losses, *updated.values()])
        buffers = updated
