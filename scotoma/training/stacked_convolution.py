"""Convolve the images of many members at once; the backward pass is written out.

Activations are (K, C, H, W, B) for K members: the batch lies innermost. A pixel of all images is
then one row of memory, which windows copy and sum as a whole, and weights serve in the order in
which torch keeps them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch.nn import functional

__all__ = ["convolve"]


def convolve(active: torch.Tensor, weight: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
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
    features: torch.Tensor = _Convolution.apply(active, weight, geometry)
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

    def windows(self) -> NDArray[np.int64]:
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
    def forward(
        ctx: Any, active: torch.Tensor, weight: torch.Tensor, geometry: _Geometry
    ) -> torch.Tensor:
        members, channels, height, width, batch = active.shape
        cut, _ = _bags(geometry, members * channels, active.device)
        patches = cut.sums(active.detach()).view(members, channels * geometry.size**2, -1)
        matrix = weight.to(active.dtype).reshape(members, -1, patches.shape[1])
        ctx.save_for_backward(patches, matrix)
        ctx.geometry, ctx.weight_type = geometry, weight.dtype
        places = (geometry.places(height), geometry.places(width), batch)
        return torch.bmm(matrix, patches).view(members, -1, *places)

    @staticmethod
    def backward(
        ctx: Any, slope: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
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

    rows: torch.Tensor
    starts: torch.Tensor

    def sums(self, table: torch.Tensor) -> torch.Tensor:
        """Sum the rows of a table, however many axes they have before the last."""
        rows = table.reshape(-1, table.shape[-1])
        return functional.embedding_bag(self.rows, rows, self.starts, mode="sum")


@lru_cache(maxsize=64)
def _bags(geometry: _Geometry, images: int, device: torch.device) -> tuple[_Bags, _Bags]:
    """Build the bags from pixels of some images to the places of their windows, and back."""
    windows = geometry.windows().ravel()
    (places,) = windows.nonzero()
    pixels, count = windows[places] - 1, geometry.height * geometry.width

    def bags(source: NDArray[np.int64], target: NDArray[np.int64], rows: int, sums: int) -> _Bags:
        in_order = source[np.argsort(target, kind="stable")]
        every = in_order + rows * np.arange(images)[:, None]
        held = np.tile(np.bincount(target, minlength=sums), images)
        return _Bags(
            torch.from_numpy(every.ravel()).to(device),
            torch.from_numpy(np.cumsum(held) - held).to(device),
        )

    return bags(pixels, places, count, windows.size), bags(places, pixels, windows.size, count)
