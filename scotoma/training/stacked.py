"""Many small networks as one: every layer is a batched product over the members.

For networks of a few plain layers the time goes into starting operations, not into arithmetic, and
a grouped convolution is slow on processors. Here activations are [K, B, H, W, C] for K members, a
convolution is one batched product of its patches, and normalisation with its ReLU is one function
with a backward pass written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

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
        weight = state[f"{name}.weight"]
        made = _Convolution.apply(active, weight, size, stride, padding, products)
        members, batch, height, width, channels = made.shape
        flat, mean, variance = _NormRelu.apply(
            made.view(members, -1, channels),
            state[f"{norm_name}.weight"],
            state[f"{norm_name}.bias"],
            bn.eps,
        )
        count = batch * height * width
        for statistic, value in (("mean", mean), ("var", variance * (count / (count - 1)))):
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
        return torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))

    return layer


class _Convolution(torch.autograd.Function):
    """Patches times weights: (K, B, H, W, C) and (K, O, C, k, k) to (K, B, H', W', O)."""

    @staticmethod
    def forward(
        ctx: Any,
        active: torch.Tensor,
        weight: torch.Tensor,
        size: int,
        stride: int,
        padding: int,
        precision: torch.dtype,
    ) -> torch.Tensor:
        members, batch, height, width, channels = active.shape
        framed = functional.pad(active.to(precision), (0, 0, padding, padding, padding, padding))
        down = (height + 2 * padding - size) // stride + 1
        right = (width + 2 * padding - size) // stride + 1
        k, b, y, x, c = framed.stride()
        windows = framed.as_strided(
            (members, batch, down, right, size, size, channels),
            (k, b, y * stride, x * stride, y, x, c),
        )
        patches = windows.reshape(members, batch * down * right, -1)
        matrix = weight.to(precision).permute(0, 3, 4, 2, 1).reshape(members, -1, weight.shape[1])
        ctx.save_for_backward(patches, matrix)
        ctx.shapes = (active.shape, weight.shape, (down, right), stride, padding)
        made = torch.bmm(patches, matrix).to(active.dtype)
        return made.view(members, batch, down, right, -1)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor, None, None, None, None]:
        patches, matrix = ctx.saved_tensors
        shape, weight, (down, right), stride, padding = ctx.shapes
        members, batch, height, width, channels = shape
        size = weight[3]
        flat = slope.reshape(members, -1, weight[1]).to(patches.dtype)
        found = torch.bmm(patches.transpose(1, 2), flat).to(slope.dtype)
        of_weight = found.view(members, size, size, channels, -1).permute(0, 4, 3, 1, 2)
        if not ctx.needs_input_grad[0]:
            return None, of_weight, None, None, None, None
        parts = torch.bmm(flat, matrix.transpose(1, 2))
        parts = parts.view(members * batch, down, right, size, size, channels)
        framed = slope.new_zeros(
            members * batch, height + 2 * padding, width + 2 * padding, channels
        )
        for y in range(size):
            for x in range(size):
                place = framed[:, y : y + stride * down : stride, x : x + stride * right : stride]
                place += parts[:, :, :, y, x]
        inner = framed[:, padding : padding + height, padding : padding + width]
        return inner.view(shape), of_weight, None, None, None, None


class _NormRelu(torch.autograd.Function):
    """Normalisation of (K, M, C) over M, scaled, shifted, cut at 0; mean and variance beside it."""

    @staticmethod
    def forward(
        ctx: Any, made: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = made.mean(1, keepdim=True)
        centred = made - mean
        variance = (centred * centred).mean(1, keepdim=True)
        inverse = torch.rsqrt(variance + eps)
        active = torch.addcmul(bias.unsqueeze(1), centred, inverse * weight.unsqueeze(1)).relu_()
        ctx.save_for_backward(centred, active, inverse, weight)
        mean, variance = mean.squeeze(1), variance.squeeze(1)
        ctx.mark_non_differentiable(mean, variance)
        return active, mean, variance

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        centred, active, inverse, weight = ctx.saved_tensors
        through = torch.ops.aten.threshold_backward(slope, active, 0)
        of_bias = through.sum(1, keepdim=True)
        of_weight = (through * centred).sum(1, keepdim=True) * inverse
        scale, count = inverse * weight.unsqueeze(1), active.shape[1]
        # Ioffe and Szegedy 2015, section 3, with the centred values in hand.
        of_made = torch.addcmul(
            torch.addcmul(-scale * of_bias / count, centred, -scale * inverse * of_weight / count),
            through,
            scale,
        )
        return of_made, of_weight.squeeze(1), of_bias.squeeze(1), None
