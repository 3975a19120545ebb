from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch.optim import lr_scheduler

from scotoma.config import Recipe
from scotoma.training.optimiser import learning_rate

STEPS, PEAK = 60, 0.4


def by_torch(make: object, steps: int = STEPS) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    schedule, rates = make(optimiser), []  # type: ignore[operator]
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return rates


def ours(
    schedule: Literal["cosine", "linear", "one-cycle", "constant"], warmup: float
) -> list[float]:
    recipe = Recipe(steps=STEPS, learning_rate=PEAK, warmup=warmup, schedule=schedule)
    return [learning_rate(step, recipe) for step in range(STEPS)]


@pytest.mark.parametrize("warmup", [0.01, 1 / 60, 0.05, 0.23, 0.9])
def test_one_cycle_is_torchs(warmup: float) -> None:
    """Where torch has a rate: of a rise within the first step its own formula divides by 0."""
    if warmup * STEPS == 1:
        assert ours("one-cycle", warmup)[0] == PEAK
        return
    expected = by_torch(
        lambda optimiser: lr_scheduler.OneCycleLR(
            optimiser, PEAK, total_steps=STEPS, pct_start=warmup, cycle_momentum=False
        ),
        STEPS - 1,
    )
    assert ours("one-cycle", warmup)[: STEPS - 1] == pytest.approx(expected, rel=1e-12)
    assert ours("one-cycle", warmup)[-1] == pytest.approx(PEAK / 25e4)


FALLS = {
    "cosine": lambda optimiser, steps: lr_scheduler.CosineAnnealingLR(optimiser, steps),
    "linear": lambda optimiser, steps: lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps),
    "constant": lambda optimiser, steps: lr_scheduler.ConstantLR(optimiser, 1.0),
}


@pytest.mark.parametrize("warmup", [0.0, 0.2])
@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_a_linear_rise_and_each_fall_are_torchs(
    schedule: Literal["cosine", "linear", "constant"], warmup: float
) -> None:
    rising = max(1, round(warmup * STEPS))
    rates = ours(schedule, warmup)
    expected = by_torch(lambda optimiser: FALLS[schedule](optimiser, STEPS - rising))
    assert rates[rising:] == pytest.approx(expected[: STEPS - rising], rel=1e-12)
    if rising > 1:
        rise = by_torch(lambda o: lr_scheduler.LinearLR(o, 1 / rising, 1.0, rising - 1))
        assert rates[:rising] == pytest.approx(rise[:rising], rel=1e-12)
