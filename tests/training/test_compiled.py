"""The pass that torch compiles on a GPU, compiled here for the processor."""

from __future__ import annotations

import logging

import pytest
import torch

from scotoma.training.backends import Batch, gradients
from scotoma.training.models import build_model
from scotoma.training.task import cross_entropy

MEMBERS, BATCH = 3, 6


@pytest.fixture(autouse=True)
def _quiet_compiler() -> None:
    # The compiler says for every graph that it records none on a processor.
    logging.getLogger("torch.__trace").setLevel(logging.CRITICAL)
    logging.getLogger("torch._inductor.cudagraph_utils").setLevel(logging.CRITICAL)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", ["tiny-convnet", "resnet8"])
def test_compiled_members_have_the_gradients_of_each_member(
    model: str, precision: torch.dtype
) -> None:
    torch.manual_seed(0)
    torch._dynamo.utils.counters.clear()
    models = [build_model(model, 4, seed).train() for seed in range(MEMBERS)]
    stacked, buffers = torch.func.stack_module_state(models)
    state = {name: value.detach().clone() for name, value in stacked.items()}
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
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
        torch.testing.assert_close(losses, expected_losses)
        torch.testing.assert_close(slopes, expected_slopes)
        torch.testing.assert_close(updated, expected_updated)
        assert not any(value.requires_grad for value in [losses, *updated.values()])
        buffers = updated
