"""The pass that torch compiles on a GPU, compiled here for the processor."""

from __future__ import annotations

import pytest
import torch

from scotoma.training.backends import Batch, can_compile, gradients
from scotoma.training.models import build_model
from scotoma.training.stacked_network import Tensors
from scotoma.training.task import cross_entropy

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
