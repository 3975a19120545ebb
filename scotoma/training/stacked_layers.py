"""Layers of many members at once, with their backward passes written out.

Activations are [K, B, H, W, C] for K members: their products are batched ones, and all that is done
to an activation walks through memory in its order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.nn import functional

__all__ = ["convolve", "norm_relu"]


class _Geometry(NamedTuple):
    """A convolution of square windows over images of one size."""

    height: int
    width: int
    size: int  # of a window
    stride: int
    padding: int

    @property
    def down(self) -> int:
        """Windows above one another."""
        return (self.height + 2 * self.padding - self.size) // self.stride + 1

    @property
    def right(self) -> int:
        """Windows beside one another."""
        return (self.width + 2 * self.padding - self.size) // self.stride + 1


def convolve(
    active: torch.Tensor, weight: torch.Tensor, size: int, stride: int, padding: int
) -> torch.Tensor:
    """Convolve each member's images with its own weights.

    Args:
        active: Shape (K, B, H, W, C); its type is that of the products.
        weight: Shape (K, O, C, size, size); fastest where each member's lie channels last.
        size: Of a window.
        stride: Between windows.
        padding: Zeros around an image.

    Returns:
        Shape (K, B, H', W', O), the type of `active`.

    >>> one = torch.ones(1, 1, 2, 2, 1)
    >>> convolve(one, torch.ones(1, 1, 1, 3, 3), 3, 1, 1).flatten().tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    geometry = _Geometry(active.shape[2], active.shape[3], size, stride, padding)
    made: torch.Tensor = _Convolution.apply(active, weight, geometry)
    return made


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, active: torch.Tensor, weight: torch.Tensor, geometry: _Geometry
    ) -> torch.Tensor:
        members, batch, _, _, channels = active.shape
        _, _, size, stride, padding = geometry
        framed = functional.pad(active, (0, 0, padding, padding, padding, padding))
        k, b, y, x, c = framed.stride()
        windows = framed.as_strided(
            (members, batch, geometry.down, geometry.right, size, size, channels),
            (k, b, y * stride, x * stride, y, x, c),
        )
        patches = windows.reshape(members, batch * geometry.down * geometry.right, -1)
        outputs = weight.shape[1]
        matrix = weight.permute(0, 1, 3, 4, 2).to(active.dtype).reshape(members, outputs, -1)
        ctx.save_for_backward(patches, matrix)
        ctx.geometry, ctx.weight, ctx.batch = geometry, weight.dtype, batch
        made = torch.bmm(patches, matrix.transpose(1, 2))
        return made.view(members, batch, geometry.down, geometry.right, outputs)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        patches, matrix = ctx.saved_tensors
        geometry, batch = ctx.geometry, ctx.batch
        members, outputs, taps = matrix.shape
        channels = taps // geometry.size**2
        flat = slope.reshape(members, -1, outputs)
        found = torch.bmm(flat.transpose(1, 2), patches).to(ctx.weight)
        square = (geometry.size, geometry.size)
        of_weight = found.view(members, outputs, *square, channels).permute(0, 1, 4, 2, 3)
        if not ctx.needs_input_grad[0]:
            return None, of_weight, None
        # What each window sends back to each of its pixels, and for every image a window of zeros.
        places = flat.view(members, batch, -1, outputs)
        windows = functional.pad(places, (0, 0, 0, 1)).view(members, -1, outputs)
        sent = torch.bmm(windows, matrix).view(members * batch, -1, channels)
        first, *others = _senders(geometry).to(sent.device)
        of_active = sent.index_select(1, first)
        for senders in others:
            of_active += sent.index_select(1, senders)
        shape = (members, batch, geometry.height, geometry.width, channels)
        return of_active.view(shape), of_weight, None


@lru_cache(maxsize=64)
def _senders(geometry: _Geometry) -> torch.Tensor:
    """Which windows, at which of their places, cover each pixel.

    Returns:
        Numbers of window times size^2 plus place, shape (most windows over one pixel, H x W);
        those of the window after the last where fewer cover a pixel.
    """
    height, width, size, stride, padding = geometry
    senders: list[list[int]] = [[] for _ in range(height * width)]
    for window in range(geometry.down * geometry.right):
        top, left = (stride * at - padding for at in divmod(window, geometry.right))
        for place in range(size**2):
            y, x = (start + at for start, at in zip((top, left), divmod(place, size), strict=True))
            if 0 <= y < height and 0 <= x < width:
                senders[y * width + x].append(window * size**2 + place)
    none = geometry.down * geometry.right * size**2
    most = max(1, *map(len, senders))
    return torch.tensor([own + [none] * (most - len(own)) for own in senders]).T.contiguous()


def norm_relu(
    made: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalise each member's channels, scale them, shift them and cut them at 0.

    Args:
        made: Shape (K, M, C), normalised over M.
        weight: Scales, shape (K, C).
        bias: Shifts, shape (K, C).
        eps: Added to the variance.

    Returns:
        The result, the type of `made`; mean and variance (over M - 1), shape (K, C), which have no
        gradient.

    >>> made = torch.tensor([[[1.0], [3.0]]])
    >>> active, mean, variance = norm_relu(made, torch.ones(1, 1), torch.zeros(1, 1), 0.0)
    >>> active.flatten().tolist(), mean.tolist(), variance.tolist()
    ([0.0, 1.0], [[2.0]], [[2.0]])
    """
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _NormRelu.apply(
        made, weight, bias, eps
    )
    return found


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, made: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        active, mean, inverse = (torch.empty_like(like) for like in (made, weight, weight))
        # Torch normalises one network in two walks through memory.
        for one, its_weight, its_bias, out, its_mean, its_inverse in zip(
            _pixels(made), weight.unbind(), bias.unbind(), _pixels(active), mean.unbind(),
            inverse.unbind(), strict=True,
        ):  # fmt: skip
            torch.ops.aten.native_batch_norm.out(
                one, its_weight, its_bias, None, None, True, 0.0, eps,
                out=out, save_mean=its_mean, save_invstd=its_inverse,
            )  # fmt: skip
        active.relu_()
        ctx.eps = eps
        ctx.save_for_backward(made, active, weight, mean, inverse)
        rows = made.shape[1]
        variance = (inverse.reciprocal().square_() - eps).mul_(rows / (rows - 1))
        ctx.mark_non_differentiable(mean, variance)
        return active, mean, variance

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        made, active, weight, mean, inverse = ctx.saved_tensors
        through = torch.ops.aten.threshold_backward(slope.contiguous(), active, 0)
        of_made, of_weight, of_bias = (torch.empty_like(like) for like in (made, weight, weight))
        for one, out, its_weight, its_mean, its_inverse, *found in zip(
            _pixels(made), _pixels(through), weight.unbind(), mean.unbind(), inverse.unbind(),
            _pixels(of_made), of_weight.unbind(), of_bias.unbind(), strict=True,
        ):  # fmt: skip
            torch.ops.aten.native_batch_norm_backward.out(
                out, one, its_weight, None, None, its_mean, its_inverse, True, ctx.eps,
                [True, True, True], out0=found[0], out1=found[1], out2=found[2],
            )  # fmt: skip
        return of_made, of_weight, of_bias, None


def _pixels(stacked: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(K, M, C) as M images of one pixel for each of K members."""
    return stacked.view(*stacked.shape, 1, 1).unbind()
