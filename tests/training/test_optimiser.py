from __future__ import annotations

from typing import Any

import pytest
import torch

from scotoma.config import Recipe
from scotoma.training.optimiser import fresh_memory, update_weights

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
