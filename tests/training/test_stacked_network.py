from __future__ import annotations

import pytest
import torch
from torch import nn

from scotoma.training.backends import Batch, gradients
from scotoma.training.stacked_network import stacked_forward
from scotoma.training.task import cross_entropy


def network(size: int, stride: int, padding: int, pooled: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 5, size, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(5, momentum=0.3),
        nn.ReLU(),
        nn.Conv2d(5, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(pooled),
        nn.Flatten(),
        nn.Linear(4 * pooled**2, 3),
    )


@pytest.mark.parametrize("shape", [(8, 8), (7, 9)])
@pytest.mark.parametrize("layers", [(3, 1, 1, 1), (5, 2, 2, 2), (2, 3, 0, 1), (1, 1, 0, 3)])
def test_stacked_networks_have_torchs_gradients_and_statistics(
    layers: tuple[int, int, int, int], shape: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    models = [network(*layers).double().train() for _ in range(3)]
    state, buffers = torch.func.stack_module_state(models)
    images = torch.randn(3, 6, 3, *shape, dtype=torch.float64)
    labels = torch.randint(0, 3, (3, 6))
    step = gradients(network(*layers), cross_entropy, "stacked")
    none = torch.empty(3, 6, 0)
    slopes, losses, updated, *_ = step(state, buffers, Batch(images, labels, none), {})
    for k, model in enumerate(models):
        loss = nn.functional.cross_entropy(model(images[k]), labels[k])
        loss.backward()
        torch.testing.assert_close(losses[k], loss.detach())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(slopes[name][k], parameter.grad, msg=name)
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(updated[name][k], buffer, msg=name)
    assert not any(value.requires_grad for value in [losses, *updated.values()])


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 6, 3, groups=3, bias=False),
        nn.Conv2d(3, 6, 3, dilation=2, bias=False),
        nn.Conv2d(3, 6, 3),
        nn.Conv2d(3, 6, (3, 1), bias=False),
        nn.Conv2d(3, 6, 3, padding="same", bias=False),
        nn.Conv2d(3, 6, 3, padding=1, padding_mode="reflect", bias=False),
    ],
    ids=["groups", "dilation", "bias", "not square", "padding by name", "reflected"],
)
def test_other_convolutions_are_left_to_the_loop(layer: nn.Conv2d) -> None:
    model = nn.Sequential(layer, nn.BatchNorm2d(6), nn.ReLU())
    assert stacked_forward(model, torch.float32) is None
    with pytest.raises(ValueError, match="cannot be stacked"):
        gradients(model, cross_entropy, "stacked")


def test_layers_it_does_not_know_are_left_to_the_loop() -> None:
    assert stacked_forward(nn.Linear(3, 2), torch.float32) is None
    assert stacked_forward(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), torch.float32) is None
