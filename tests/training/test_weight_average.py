from __future__ import annotations

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from scotoma.config import Recipe
from scotoma.training.optimiser import averaged, fresh_average, update_average


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
