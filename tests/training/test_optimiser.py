from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from scotoma.config import Recipe
from scotoma.training.optimiser import (
    averaged,
    fresh_average,
    fresh_memory,
    learning_rate,
    update_average,
    update_weights,
)

SHAPES = {"0.weight": (4, 3, 3, 3), "1.weight": (4,), "1.bias": (4,), "8.weight": (5, 16)}
DECAYED = ("0.weight", "8.weight")
MEMBERS = 3


def gradients(dtype: torch.dtype) -> list[dict[str, torch.Tensor]]:
    """Of 20 steps; some lie in memory in another order, as a stacked network leaves them."""
    torch.manual_seed(0)
    drawn = [
        {name: torch.randn(MEMBERS, *shape, dtype=dtype) for name, shape in SHAPES.items()}
        for _ in range(20)
    ]
    for step in drawn:
        weight = step["8.weight"]
        step["8.weight"] = weight.transpose(1, 2).contiguous().transpose(1, 2)
        assert not step["8.weight"].is_contiguous()
    return drawn


def trained(recipe: Recipe, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    weights = {n: torch.ones(MEMBERS, *shape, dtype=dtype) for n, shape in SHAPES.items()}
    # The channels of a convolution may lie together.
    weights["0.weight"] = weights["0.weight"].movedim(2, -1).contiguous().movedim(-1, 2)
    memory = fresh_memory(weights, recipe)
    for step, slopes in enumerate(gradients(dtype)):
        update_weights(
            weights, memory, slopes, DECAYED, step=step, rate=0.1 / (step + 1), recipe=recipe
        )
    return weights


def by_torch(
    kind: type[Any],
    member: int,
    decay: float,
    dtype: torch.dtype,
    bias_rate: float = 1.0,
    **options: Any,
) -> Any:
    """One member by itself, by the optimiser as users have it."""
    weights = {n: torch.nn.Parameter(torch.ones(s, dtype=dtype)) for n, s in SHAPES.items()}
    optimiser = kind(
        [
            {"params": [weights[n] for n in DECAYED], "weight_decay": decay},
            {"params": [weights["1.weight"]], "weight_decay": 0.0},
            {"params": [weights["1.bias"]], "weight_decay": 0.0, "multiple": bias_rate},
        ],
        lr=1.0,
        foreach=False,
        **options,
    )
    for step, slopes in enumerate(gradients(dtype)):
        for name, weight in weights.items():
            weight.grad = slopes[name][member].contiguous()
        for group in optimiser.param_groups:
            group["lr"] = 0.1 / (step + 1) * group.get("multiple", 1)
        optimiser.step()
    return {name: weight.detach() for name, weight in weights.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_stacked_members_take_the_steps_of_torchs_sgd(momentum: float, dtype: torch.dtype) -> None:
    parameters = trained(Recipe(momentum=momentum, weight_decay=0.01, bias_rate=64.0), dtype)
    for member in range(MEMBERS):
        options = {"momentum": momentum, "nesterov": momentum > 0, "bias_rate": 64.0}
        for name, weight in by_torch(torch.optim.SGD, member, 0.01, dtype, **options).items():
            if dtype == torch.float64:
                assert torch.equal(parameters[name][member], weight), name
            # The fused update rounds the last weights of a tensor, which fill no vector, otherwise.
            torch.testing.assert_close(parameters[name][member], weight, rtol=1e-6, atol=1e-6)


def test_stacked_members_take_the_steps_of_torchs_adamw() -> None:
    recipe = Recipe(optimiser="adamw", momentum=0.8, adamw_squares=0.95, weight_decay=0.05)
    parameters = trained(recipe, torch.float64)
    for member in range(MEMBERS):
        expected = by_torch(torch.optim.AdamW, member, 0.05, torch.float64, betas=(0.8, 0.95))
        for name, weight in expected.items():
            torch.testing.assert_close(parameters[name][member], weight, rtol=1e-13, atol=1e-15)


STEPS, PEAK = 60, 0.4


def rates_of_torch(make: object, steps: int = STEPS) -> list[float]:
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
    expected = rates_of_torch(
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
    expected = rates_of_torch(lambda optimiser: FALLS[schedule](optimiser, STEPS - rising))
    assert rates[rising:] == pytest.approx(expected[: STEPS - rising], rel=1e-12)
    if rising > 1:
        rise = rates_of_torch(lambda o: lr_scheduler.LinearLR(o, 1 / rising, 1.0, rising - 1))
        assert rates[:rising] == pytest.approx(rise[:rising], rel=1e-12)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).double()


def jolt(module: torch.nn.Module) -> None:
    """A step of some optimiser."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    module(torch.randn(8, 4, dtype=torch.float64))


def test_a_moving_average_is_torchs() -> None:
    ours, recipe = model(), Recipe(averaging="ema", average_decay=0.8)
    theirs = AveragedModel(ours, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
    theirs.n_averaged += 1  # from the initial weights on, not from the first step
    memory = fresh_average(ours.state_dict(), recipe)
    for step in range(9):
        jolt(ours)
        theirs.update_parameters(ours)
        update_average(memory, ours.state_dict(), step=step, recipe=recipe)
    found = averaged(memory, ours.state_dict())
    for name, value in theirs.module.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(found[name], value, rtol=1e-13, atol=1e-15)
    assert int(found["1.num_batches_tracked"]) == 9
    assert not torch.equal(found["0.weight"], ours.state_dict()["0.weight"])


@pytest.mark.parametrize("ramp", [0.0, 3.0])
def test_lookahead_goes_back_to_the_slow_weights(ramp: float) -> None:
    """The slow twin: algorithm 1 of Zhang et al. (2019), one list of numbers."""
    recipe = Recipe(
        steps=12, averaging="lookahead", average_decay=0.5, average_every=3, average_ramp=ramp
    )
    weight = torch.tensor([1.0, -2.0], dtype=torch.float64)
    memory = fresh_average({"w": weight}, recipe)
    fast, slow = weight.tolist(), weight.tolist()
    for step in range(12):
        weight.add_(step + 1)
        fast = [value + step + 1 for value in fast]
        if step % 3 == 2:
            alpha = 1 - 0.5 * ((step + 1) / 12) ** ramp
            slow = [s + alpha * (f - s) for s, f in zip(slow, fast, strict=True)]
            fast = slow
        update_average(memory, {"w": weight}, step=step, recipe=recipe)
        assert weight.tolist() == pytest.approx(fast)
        assert averaged(memory, {"w": weight})["w"].tolist() == pytest.approx(slow)


def test_without_averaging_nothing_is_kept() -> None:
    memory = fresh_average({"w": torch.ones(2)}, Recipe())
    assert memory == {}
    update_average(memory, {"w": torch.ones(2)}, step=0, recipe=Recipe())
    assert averaged(memory, {"w": torch.ones(2)})["w"].tolist() == [1.0, 1.0]
