"""Many small networks as one: every layer is a batched product over the members.

For networks of a few plain layers the time goes into starting operations, not into arithmetic, and
a grouped convolution is slow on processors. Here a convolution is one batched product of the
patches of all members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from scotoma.training.stacked_layers import convolve, norm_relu

__all__ = ["Tensors", "stacked_forward"]

Tensors = dict[str, torch.Tensor]
# State, buffers (replaced in place), activations: new activations.
Layer = Callable[[Tensors, Tensors, torch.Tensor], torch.Tensor]


def stacked_forward(
    template: nn.Module, precision: torch.dtype
) -> Callable[[Tensors, Tensors, torch.Tensor], torch.Tensor] | None:
    """The training pass of K networks at once.

    Args:
        template: A sequence of convolutions, each with normalisation and ReLU behind it, then
            pooling, `Flatten` and a linear layer; its own weights are not used.
        precision: Of the products: float32 or bfloat16; sums are float32 in any case.

    Returns:
        A function of stacked parameters, stacked buffers (the running statistics in it are
        replaced) and images, shape (K, B, 3, H, W), to scores, shape (K, B, classes). None where
        the network holds any other layer.
    """
    if not isinstance(template, nn.Sequential):
        return None
    layers: list[Layer] = []
    rest = list(template.named_children())
    while rest:
        kinds = [type(child) for _, child in rest]
        if kinds[:3] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] and _is_plain(rest[0][1], rest[1][1]):
            layers.append(_block(rest[0], rest[1], precision))
            del rest[:3]
        elif kinds == [nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]:
            layers.append(_head(rest[0][1], rest[2][0]))
            del rest[:3]
        else:
            return None

    def forward(state: Tensors, buffers: Tensors, images: torch.Tensor) -> torch.Tensor:
        active = images.permute(0, 1, 3, 4, 2)
        for layer in layers:
            active = layer(state, buffers, active)
        return active

    return forward


def _is_plain(convolution: Any, norm: Any) -> bool:
    """Square, without groups, dilation or bias; padded with zeros; the norm keeps statistics."""
    return bool(
        convolution.groups == 1
        and convolution.dilation == (1, 1)
        and convolution.bias is None
        and convolution.padding_mode == "zeros"
        and len({*convolution.kernel_size}) == len({*convolution.stride}) == 1
        and convolution.padding in [(p, p) for p in range(convolution.kernel_size[0])]
        and norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
    )


def _block(
    convolution: tuple[str, nn.Module], norm: tuple[str, nn.Module], precision: torch.dtype
) -> Layer:
    """Convolution, normalisation over the member's own batch, ReLU."""
    (name, conv), (norm_name, bn) = convolution, norm
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(bn, nn.BatchNorm2d)
    size, stride, padding = conv.kernel_size[0], conv.stride[0], int(conv.padding[0])

    def layer(state: Tensors, buffers: Tensors, active: torch.Tensor) -> torch.Tensor:
        products = precision if precision == torch.bfloat16 else active.dtype
        made = convolve(active.to(products), state[f"{name}.weight"], size, stride, padding)
        flat, mean, variance = norm_relu(
            made.flatten(1, 3),
            state[f"{norm_name}.weight"],
            state[f"{norm_name}.bias"],
            bn.eps,
        )
        for statistic, value in (("mean", mean), ("var", variance)):
            running = buffers[f"{norm_name}.running_{statistic}"]
            buffers[f"{norm_name}.running_{statistic}"] = running.lerp(value, bn.momentum or 0.0)
        seen = f"{norm_name}.num_batches_tracked"
        buffers[seen] = buffers[seen] + 1
        return torch.reshape(flat, made.shape)

    return layer


def _head(pool: Any, name: str) -> Layer:
    """Pooling, flattening in torch's order, and the linear layer."""

    def layer(state: Tensors, buffers: Tensors, active: torch.Tensor) -> torch.Tensor:
        members, batch = active.shape[:2]
        images = active.flatten(0, 1).permute(0, 3, 1, 2)
        size = pool.output_size if isinstance(pool.output_size, tuple) else (pool.output_size,) * 2
        if images.shape[2:] != size:
            images = functional.adaptive_avg_pool2d(images, size)
        features = images.reshape(members, batch, -1)
        bias, weight = state[f"{name}.bias"], state[f"{name}.weight"]
        features = features.to(weight.dtype)
        return torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))

    return layer
