"""Run many small networks as one: every layer is a batched product over the members.

For networks of a few plain layers the time goes into starting operations, not into arithmetic, and
a grouped convolution is slow on processors. Here a convolution is one batched product of the
patches of all members.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor, nn
from torch.nn import functional

from scotoma.numbers.inputs import Ints


def convolve(active: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """Convolve each member's images with its own weights.

    Args:
        active: Shape (K, C, H, W, B); its type is that of the products.
        weight: Shape (K, O, C, size, size).
        stride: Between windows.
        padding: Zeros around an image.

    Returns:
        Shape (K, O, H', W', B), the type of `active`.

    >>> one = torch.ones(1, 1, 2, 2, 1)
    >>> convolve(one, torch.ones(1, 1, 1, 3, 3), 1, 1).flatten().tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    height, width = active.shape[2:4]
    geometry = _Geometry(height, width, weight.shape[-1], stride, padding)
    features: Tensor = _Convolution.apply(active, weight, geometry)
    return features


class _Geometry(NamedTuple):
    """A convolution of square windows over images of one size."""

    height: int
    width: int
    size: int  # of a window
    stride: int
    padding: int

    def places(self, pixels: int) -> int:
        """Count the windows beside one another over that many pixels."""
        return (pixels + 2 * self.padding - self.size) // self.stride + 1

    def windows(self) -> Ints:
        """List the pixel under every place of every window, shape (size, size, H', W'); 0 is none.

        >>> _Geometry(2, 2, 2, 1, 0).windows().ravel()
        array([1, 2, 3, 4])
        """
        pixels = np.arange(1, self.height * self.width + 1).reshape(self.height, self.width)
        framed = np.pad(pixels, self.padding)
        cut = sliding_window_view(framed, (self.size, self.size))[:: self.stride, :: self.stride]
        return cut.transpose(2, 3, 0, 1)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, active: Tensor, weight: Tensor, geometry: _Geometry) -> Tensor:
        members, channels, height, width, batch = active.shape
        cut, _ = _bags(geometry, members * channels, active.device)
        patches = cut.sums(active.detach()).view(members, channels * geometry.size**2, -1)
        matrix = weight.to(active.dtype).reshape(members, -1, patches.shape[1])
        ctx.save_for_backward(patches, matrix)
        ctx.geometry, ctx.weight_type = geometry, weight.dtype
        places = (geometry.places(height), geometry.places(width), batch)
        return torch.bmm(matrix, patches).view(members, -1, *places)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        patches, matrix = ctx.saved_tensors
        geometry: _Geometry = ctx.geometry
        members, outputs, taps = matrix.shape
        channels, batch = taps // geometry.size**2, slope.shape[-1]
        flat = slope.reshape(members, outputs, -1)
        of_weight = torch.bmm(flat, patches.transpose(1, 2)).to(ctx.weight_type)
        of_active = None
        if ctx.needs_input_grad[0]:
            sent = torch.bmm(matrix.transpose(1, 2), flat).view(-1, batch)
            _, back = _bags(geometry, members * channels, slope.device)
            of_active = back.sums(sent).view(
                members, channels, geometry.height, geometry.width, batch
            )
        return of_active, of_weight.view(members, outputs, channels, geometry.size, -1), None


class _Bags(NamedTuple):
    """Bags: the rows of one table that are summed to each row of another.

    Attributes:
        rows: Rows of the first table, bag by bag.
        starts: Where each bag starts in them; an empty bag sums to 0.
    """

    rows: Tensor
    starts: Tensor

    def sums(self, table: Tensor) -> Tensor:
        """Sum the rows of a table, however many axes they have before the last."""
        rows = table.reshape(-1, table.shape[-1])
        return functional.embedding_bag(self.rows, rows, self.starts, mode="sum")


@lru_cache(maxsize=64)
def _bags(geometry: _Geometry, images: int, device: torch.device) -> tuple[_Bags, _Bags]:
    """Build the bags from pixels of some images to the places of their windows, and back."""
    windows = geometry.windows().ravel()
    (places,) = windows.nonzero()
    pixels, count = windows[places] - 1, geometry.height * geometry.width

    def bags(source: Ints, target: Ints, rows: int, sums: int) -> _Bags:
        in_order = source[np.argsort(target, kind="stable")]
        every = in_order + rows * np.arange(images)[:, None]
        held = np.tile(np.bincount(target, minlength=sums), images)
        return _Bags(
            torch.from_numpy(every.ravel()).to(device),
            torch.from_numpy(np.cumsum(held) - held).to(device),
        )

    return bags(pixels, places, count, windows.size), bags(places, pixels, windows.size, count)


Tensors = dict[str, Tensor]


class Outputs(NamedTuple):
    """What a network makes of a batch.

    Attributes:
        scores: Shape (..., B, outputs).
        features: Input of the last linear layer, shape (..., B, F).
    """

    scores: Tensor
    features: Tensor


# Parameters, buffers (replaced in it) and images of members, shape (K, B, 3, H, W): their outputs.
StackedForward = Callable[[Tensors, Tensors, Tensor], Outputs]
# State, buffers (replaced in it), activations (K, C, H, W, B): new activations.
Layer = Callable[[Tensors, Tensors, Tensor], Tensor]
# State and activations: outputs.
Head = Callable[[Tensors, Tensor], Outputs]


def stacked_forward(template: nn.Module, precision: torch.dtype) -> StackedForward | None:
    """Build the pass of K networks at once: in training mode or not, as the template is.

    Args:
        template: A sequence of convolutions, each with normalisation and ReLU behind it, then
            pooling, `Flatten` and a linear layer; its own weights are not used.
        precision: Of the products: float32 or bfloat16; sums are float32 in any case.

    Returns:
        A function of stacked parameters, stacked buffers (in training, the running statistics in it
        are replaced) and images, shape (K, B, 3, H, W), to scores, shape (K, B, classes), and
        features, shape (K, B, F). None where the network holds any other layer.
    """
    if not isinstance(template, nn.Sequential):
        return None
    layers: list[Layer] = []
    head: Head | None = None
    rest = list(template.named_children())
    while rest:
        kinds = [type(child) for _, child in rest]
        if kinds[:3] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] and _is_plain(rest[0][1], rest[1][1]):
            layers.append(_block(rest[0], rest[1]))
            del rest[:3]
        elif kinds == [nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]:
            head = _head(rest[0][1], rest[2][0])
            del rest[:3]
        else:
            return None
    if head is None:
        return None
    last = head

    def forward(state: Tensors, buffers: Tensors, images: Tensor) -> Outputs:
        products = precision if precision == torch.bfloat16 else images.dtype
        active = images.permute(0, 2, 3, 4, 1).to(products, memory_format=torch.contiguous_format)
        for layer in layers:
            active = layer(state, buffers, active)
        return last(state, active)

    return forward


def _is_plain(convolution: Any, norm: Any) -> bool:
    """Accept square windows, no groups, dilation or bias, zero padding, a norm with statistics."""
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


def _block(convolution: tuple[str, nn.Module], norm: tuple[str, nn.Module]) -> Layer:
    """Build convolution, normalisation over the member's own batch, ReLU."""
    (name, conv), (norm_name, bn) = convolution, norm
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(bn, nn.BatchNorm2d)
    stride, padding = conv.stride[0], int(conv.padding[0])

    def layer(state: Tensors, buffers: Tensors, active: Tensor) -> Tensor:
        features = convolve(active, state[f"{name}.weight"], stride, padding)
        if bn.training:
            for statistic in ("running_mean", "running_var"):
                buffers[f"{norm_name}.{statistic}"] = buffers[f"{norm_name}.{statistic}"].clone()
            seen = f"{norm_name}.num_batches_tracked"
            buffers[seen] = buffers[seen] + 1
        # To torch the channels of all members are those of one network, with one long image.
        normal = functional.batch_norm(
            features.view(1, features.shape[0] * features.shape[1], 1, -1),
            buffers[f"{norm_name}.running_mean"].view(-1),
            buffers[f"{norm_name}.running_var"].view(-1),
            state[f"{norm_name}.weight"].flatten(),
            state[f"{norm_name}.bias"].flatten(),
            training=bn.training,
            momentum=bn.momentum or 0.0,
            eps=bn.eps,
        )
        return normal.relu_().view(features.shape)

    return layer


def _head(pool: Any, name: str) -> Head:
    """Build pooling, flattening in torch's order, and the linear layer."""

    def layer(state: Tensors, active: Tensor) -> Outputs:
        members, _, height, width, batch = active.shape
        size = pool.output_size if isinstance(pool.output_size, tuple) else (pool.output_size,) * 2
        if (height, width) != size:
            images = active.permute(0, 4, 1, 2, 3).flatten(0, 1)
            pooled = functional.adaptive_avg_pool2d(images, size)
            active = pooled.view(members, batch, -1).transpose(1, 2)
        bias, weight = state[f"{name}.bias"], state[f"{name}.weight"]
        features = active.reshape(members, -1, batch).to(weight.dtype)
        scores = torch.baddbmm(bias.unsqueeze(2), weight, features)
        return Outputs(scores.transpose(1, 2), features.transpose(1, 2))

    return layer
