from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from scotoma.config import Recipe
from scotoma.training.backends import Batch, gradients
from scotoma.training.models import build_model
from scotoma.training.optimising import fresh_memory
from scotoma.training.pruning import prunable
from scotoma.training.replay import STEPS_BEFORE, Record, Replay
from scotoma.training.step import Moving, Step
from scotoma.training.task import cross_entropy

MEMBERS, BATCH, STEPS = 2, 8, 10
Work = Callable[[], None]


class Tape:
    """Stands for a CUDA graph: does the recorded work again, on the tensors that it was given."""

    def __init__(self) -> None:
        self.recorded = self.played = 0

    def record(self, work: Work) -> Work:
        self.recorded += 1

        def play() -> None:
            self.played += 1
            work()

        return play


def start(optimiser: str) -> tuple[Step, Moving]:
    recipe = Recipe(optimiser=optimiser, steps=STEPS, batch_size=BATCH, weight_decay=0.01)
    models = [build_model("tiny-convnet", 3, seed) for seed in range(MEMBERS)]
    parameters, buffers = torch.func.stack_module_state(models)
    parameters = {name: value.detach().clone() for name, value in parameters.items()}
    step = Step(gradients(models[0], cross_entropy, "loop"), prunable(models[0]), recipe)
    memory = fresh_memory(parameters, recipe)
    return step, Moving(parameters, dict(buffers), memory, torch.zeros(MEMBERS))


def taken(optimiser: str, record: Record | None) -> Moving:
    """The members after ten steps; from the sixth on masked, the last with fewer images."""
    step, moving = start(optimiser)
    replay = Replay(step, moving, record) if record else None
    drawn = torch.Generator().manual_seed(0)
    for number in range(STEPS):
        if number == 5:
            moving.keep({n: torch.rand(v.shape, generator=drawn) > 2 / 3
                         for n, v in moving.parameters.items() if n in step.decayed})  # fmt: skip
        size = BATCH if number < STEPS - 1 else BATCH - 2
        images = torch.randn(MEMBERS, size, 3, 8, 8, generator=drawn)
        labels = torch.randint(0, 3, (MEMBERS, size), generator=drawn)
        batch = Batch(images, labels, torch.empty(MEMBERS, size, 0))
        rate = 0.01 * (number + 1)
        if replay:
            replay.take(batch, rate, number)
        else:
            step.take(moving, batch, rate, number)
    return moving


def assert_same(found: Moving, expected: Moving) -> None:
    for own, others in zip(found.sections(), expected.sections(), strict=True):
        for one, other in zip(own, others, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_recorded_step_learns_from_each_batch_at_its_own_rate(
    optimiser: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = Tape()
    assert_same(taken(optimiser, tape.record), taken(optimiser, None))
    # Anew once there are masks; the step at which a record is made is taken as it is, and so is
    # the one with fewer images.
    assert tape.recorded == 2
    assert tape.played == 2 + STEPS - 2 * (STEPS_BEFORE + 1) - 1
    assert capsys.readouterr().err == ""


def refused(_: Work) -> Work:
    raise RuntimeError("operation not permitted when stream is capturing\nmore of it")


def doubled(work: Work) -> Work:
    def play() -> None:
        work()
        work()

    return play


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (refused, "not as a CUDA graph: operation not permitted when stream is capturing\n"),
        (lambda work: lambda: None, "not as a CUDA graph: its weights are off by"),
        (doubled, "its weights are off by"),
    ],
    ids=["refused", "does nothing", "does it twice"],
)
def test_where_a_record_is_wrong_steps_are_taken_as_they_are(
    record: Record, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_same(taken("sgd", record), taken("sgd", None))
    (line,) = capsys.readouterr().err.splitlines(keepends=True)
    assert says in line


def test_a_member_left_out_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    step, moving = start("sgd")

    def but_one(work: Work) -> Work:
        def play() -> None:
            kept = [[tensor[0].clone() for tensor in own] for own in moving.sections()]
            work()
            for own, values in zip(moving.sections(), kept, strict=True):
                for tensor, value in zip(own, values, strict=True):
                    tensor[0] = value

        return play

    replay = Replay(step, moving, but_one)
    batch = Batch(
        torch.randn(MEMBERS, BATCH, 3, 8, 8),
        torch.randint(0, 3, (MEMBERS, BATCH)),
        torch.empty(MEMBERS, BATCH, 0),
    )
    for number in range(STEPS_BEFORE + 1):
        replay.take(batch, 0.1, number)
    assert "its weights are off by" in capsys.readouterr().err
