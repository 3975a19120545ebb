"""Which network does a name stand for?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from scotoma.config.own_code import is_code
from scotoma.errors import ConfigError
from scotoma.training.residual_networks import cifar_resnet, cifar_resnet18, wide_resnet
from scotoma.training.speedrun import speedrun
from scotoma.training.user_network import build_user_network

__all__ = ["BUILT_IN", "Prepares", "build_model", "prepare_layers"]


@runtime_checkable
class Prepares(Protocol):
    """A layer that looks at training images before the first step."""

    def prepare(self, images: torch.Tensor) -> None:
        """Set weights from normalised images, shape (N, 3, H, W)."""


def tiny_convnet(classes: int, *, width: int = 48) -> torch.nn.Module:
    """Build two wide convolutions for images of 8x8 to 16x16 pixels.

    Wide and shallow on purpose: at 95% sparsity a narrow first layer of 432 weights would keep 22
    of them, and the network would collapse instead of showing whom it sacrifices.

    Args:
        classes: Number of outputs.
        width: Channels of the first convolution; the second has twice as many.

    Returns:
        A network from (B, 3, H, W) to (B, classes).
    """
    return nn.Sequential(
        nn.Conv2d(3, width, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


BUILT_IN: dict[str, Callable[[int], nn.Module]] = {
    "tiny-convnet": tiny_convnet,
    "resnet8": partial(cifar_resnet, 8),
    "resnet14": partial(cifar_resnet, 14),
    "resnet20": partial(cifar_resnet, 20),
    "cifar-resnet18": cifar_resnet18,
    "speedrun": speedrun,
    "wrn-22-8": partial(wide_resnet, 22, 8),
    "wrn-28-10": partial(wide_resnet, 28, 10),
}


def build_model(name: str, classes: int, seed: int) -> torch.nn.Module:
    """Build a freshly initialised network.

    Args:
        name: One of `BUILT_IN`, a classifier of torchvision, or `package.module:function`.
        classes: Number of outputs.
        seed: Decides the initial weights, and nothing else.

    Returns:
        The network, in training mode.

    Raises:
        ConfigError: No network has this name, it draws random numbers in training, or it is the
            user's own and not allowed here or not what it should be.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name in BUILT_IN:
            return BUILT_IN[name](classes)
        model = (
            build_user_network(name, classes) if is_code(name) else _of_torchvision(name, classes)
        )
    for child in model.modules():
        if _draws_random_numbers(child):
            raise ConfigError(
                f"source.model {name!r} draws random numbers in training "
                f"({type(child).__name__}), which no seed of the audit decides; choose one "
                "without, such as 'resnet18'"
            )
    return model


def prepare_layers(model: torch.nn.Module, images: Callable[[], torch.Tensor]) -> None:
    """Show training images to the layers that prepare on some.

    Args:
        model: A fresh network; changed in place.
        images: Returns normalised images, shape (N, 3, H, W); called if any layer prepares.
    """
    for layer in model.modules():
        if isinstance(layer, Prepares):
            layer.prepare(images())


def _draws_random_numbers(layer: nn.Module) -> bool:
    if "torchvision" in sys.modules:  # else nothing is of its kinds, and its import takes seconds
        from torchvision.ops import StochasticDepth

        if isinstance(layer, StochasticDepth):
            return bool(layer.p > 0)
    return isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0


def _of_torchvision(name: str, classes: int) -> nn.Module:
    from torchvision import models as zoo

    if name not in zoo.list_models(module=zoo):
        raise ConfigError(
            f"source.model {name!r} is neither one of {', '.join(BUILT_IN)} nor a classifier of "
            "torchvision, such as 'resnet18'"
        )
    model: nn.Module = zoo.get_model(name, weights=None, num_classes=classes)
    return model
