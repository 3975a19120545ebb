"""Residual networks for small images: the papers' CIFAR forms, not ImageNet's."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


def _conv(inputs: int, outputs: int, stride: int = 1, *, size: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class _Basic(nn.Module):
    """Two convolutions and a shortcut; normalised after each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = _conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            # A projection (option B of He et al.): what pads with zeros exports badly to ONNX.
            self.shortcut = nn.Sequential(
                _conv(inputs, outputs, stride, size=1), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.bn1(self.conv1(images)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.shortcut(images))


class _PreActivated(nn.Module):
    """Two convolutions and a shortcut; normalised before each convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), _conv(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), _conv(outputs, outputs)
        self.shortcut = _conv(inputs, outputs, stride, size=1) if inputs != outputs else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        active = functional.relu(self.bn1(images))
        inner = self.conv2(functional.relu(self.bn2(self.conv1(active))))
        # Zagoruyko and Komodakis project the activated input, and carry the raw one.
        carried: torch.Tensor = images if self.shortcut is None else self.shortcut(active)
        total: torch.Tensor = inner + carried
        return total


class _Head(nn.Sequential):
    """Mean over the image, then one linear layer."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def _stages(
    block: type[nn.Module], inputs: int, widths: tuple[int, ...], blocks: int
) -> list[nn.Module]:
    """Build stages of `blocks` blocks; every stage but the first halves the image."""
    layers: list[nn.Module] = []
    for stage, width in enumerate(widths):
        for index in range(blocks):
            layers.append(block(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return layers


def cifar_resnet(depth: int, classes: int, *, width: int = 16) -> nn.Module:
    """ResNet-8, -14, -20 and so on, for 32x32 images.

    Args:
        depth: 6n + 2 layers.
        classes: Number of outputs.
        width: Channels of the first stage; the others have twice and four times as many.

    Returns:
        A network from (B, 3, H, W) to (B, classes).

    References:
        He et al. (2016), "Deep Residual Learning for Image Recognition", section 4.2, with
        projection shortcuts.

    >>> sum(p.numel() for p in cifar_resnet(20, 10).parameters())
    272474
    """
    if (depth - 2) % 6:
        raise ValueError(f"depth must be 6n + 2, got {depth}")
    stem = [_conv(3, width), nn.BatchNorm2d(width), nn.ReLU()]
    stages = _stages(_Basic, width, (width, 2 * width, 4 * width), (depth - 2) // 6)
    return nn.Sequential(*stem, *stages, _Head(4 * width, classes))


def cifar_resnet18(classes: int) -> nn.Module:
    """ResNet-18 whose first layer keeps 32x32 images at their size: 3x3, stride 1, no pooling.

    >>> sum(p.numel() for p in cifar_resnet18(10).parameters())
    11173962
    """
    stem = [_conv(3, 64), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*stem, *_stages(_Basic, 64, (64, 128, 256, 512), 2), _Head(512, classes))


def wide_resnet(depth: int, widen: int, classes: int) -> nn.Module:
    """WRN-depth-widen, without dropout.

    Args:
        depth: 6n + 4 layers.
        widen: Multiple of the channels 16, 32 and 64.
        classes: Number of outputs.

    Returns:
        A network from (B, 3, H, W) to (B, classes).

    References:
        Zagoruyko and Komodakis (2016), "Wide Residual Networks", table 1.

    >>> sum(p.numel() for p in wide_resnet(28, 10, 10).parameters())
    36479194
    """
    if (depth - 4) % 6:
        raise ValueError(f"depth must be 6n + 4, got {depth}")
    widths = (16 * widen, 32 * widen, 64 * widen)
    stages = _stages(_PreActivated, 16, widths, (depth - 4) // 6)
    tail = [nn.BatchNorm2d(widths[-1]), nn.ReLU(), _Head(widths[-1], classes)]
    return nn.Sequential(_conv(3, 16), *stages, *tail)
