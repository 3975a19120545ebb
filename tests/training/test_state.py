from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scotoma.config import Recipe
from scotoma.training.backends import Backend
from scotoma.training.engine import SHADOW, Member, TrainedMember, Training
from scotoma.training.pruning import Pruning
from scotoma.training.state import TrainingState
from scotoma.training.task import classification

RECIPE = Recipe(
    precision="float32", steps=12, batch_size=16, prune_begin=0.25, prune_end=0.8, prune_every=0.1
)
SEEDS = (5, 6, 7)


RICH = RECIPE.model_copy(
    update={
        "optimiser": "adamw", "averaging": "lookahead", "average_every": 5, "label_smoothing": 0.2,
        "augmentation": "crop-alternating-flip",
    }
)  # fmt: skip


def training(
    data,
    sparsity: float,
    backend: Backend,
    members: int = 3,
    recipe: Recipe = RECIPE,
    pruning: Pruning = SHADOW,
) -> Training:
    chunk = [Member(f"prune-{sparsity}", k, seed, sparsity) for k, seed in enumerate(SEEDS)]
    return Training(
        chunk[:members], *data, model="tiny-convnet", task=classification(4, recipe),
        recipe=recipe, backend=backend, pruning=pruning,
    )  # fmt: skip


def assert_same(found: list[TrainedMember], expected: list[TrainedMember]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.member, one.loss) == (other.member, other.loss)
        assert one.state.keys() == other.state.keys()
        assert all(torch.equal(one.state[name], other.state[name]) for name in one.state)


@pytest.fixture(params=["float32", "float64"])
def _precision(request: pytest.FixtureRequest) -> None:
    if request.param == "float64":
        request.getfixturevalue("float64")


@pytest.mark.usefixtures("_precision")
@pytest.mark.parametrize("backend", ["stacked", "loop"])
def test_a_fork_at_the_first_mask_update_is_bit_equal_to_no_fork(
    data, tmp_path: Path, backend: Backend
) -> None:
    dense = training(data, 0.0, backend)
    trunk = dense.advance(dense.start(), RECIPE.mask_updates[0])
    save_file(trunk.tensors(), tmp_path / "trunk.safetensors")
    for sparsity, way in [
        (0.0, SHADOW),
        (0.9, SHADOW),
        (0.5, Pruning("hard", "global", ("last",))),
    ]:
        whole = training(data, sparsity, backend, pruning=way)
        forked = whole.advance(TrainingState.of(load_file(tmp_path / "trunk.safetensors")))
        assert_same(whole.finish(forked), whole.finish(whole.advance(whole.start())))


@pytest.mark.parametrize("recipe", [RECIPE, RICH, RICH.model_copy(update={"averaging": "ema"})])
@pytest.mark.parametrize("step", [0, 1, 4, 5, 11, 12])
def test_training_can_be_left_after_any_step(data, step: int, recipe: Recipe) -> None:
    run = training(data, 0.9, "stacked", recipe=recipe)
    done: list[int] = []
    left = run.advance(run.start(), step, done.append)
    assert left.step == step
    before = left.copy()
    resumed = run.advance(left, progress=done.append)
    assert sum(done) == 12 * 3
    assert_same(run.finish(resumed), run.finish(run.advance(run.start())))
    for name, value in left.tensors().items():  # another fork may start from it
        assert torch.equal(value, before.tensors()[name]), name


def test_a_state_that_does_not_fit_is_refused(data) -> None:
    run = training(data, 0.9, "stacked")
    left = run.advance(run.start(), 2)
    with pytest.raises(ValueError, match=r"until step 1 of 12 from a state of 3 after step 2"):
        run.advance(left, 1)
    with pytest.raises(ValueError, match="until step 13 of 12"):
        run.advance(left, 13)
    with pytest.raises(ValueError, match="cannot train 2 members until step 12"):
        training(data, 0.9, "stacked", 2).advance(left)
