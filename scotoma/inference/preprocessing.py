"""Prepare pixels for a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = ["OURS", "Preprocessing"]


@dataclass(frozen=True)
class Preprocessing:
    """From pixels to a model's input: (pixel / scale - mean) / std, channel by channel.

    Attributes:
        scale: What pixels of 0 to 255 are divided by first.
        mean: Taken away from each of the channels R, G and B.
        std: What each of them is then divided by.
        layout: `NCHW`, or `NHWC` for models that take channels last.
    """

    scale: float = 127.5
    mean: tuple[float, float, float] = (1.0, 1.0, 1.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    layout: str = "NCHW"

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Prepare one batch.

        Args:
            pixels: RGB, uint8, shape (B, 3, H, W).

        Returns:
            float32, shape (B, 3, H, W), or (B, H, W, 3) for `NHWC`.

        >>> Preprocessing()(np.array([0, 255, 51], np.uint8).reshape(1, 3, 1, 1)).ravel()
        array([-1. ,  1. , -0.6], dtype=float32)
        """
        shape = (1, 3, 1, 1)
        ready = pixels.astype(np.float32)
        ready /= np.float32(self.scale)
        ready -= np.asarray(self.mean, np.float32).reshape(shape)
        if self.std != (1.0, 1.0, 1.0):
            ready /= np.asarray(self.std, np.float32).reshape(shape)
        if self.layout == "NHWC":
            ready = np.ascontiguousarray(ready.transpose(0, 2, 3, 1))
        return ready

    def in_torch(self, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
        """Build the same for torch, on a device and with channels last, to the last bit.

        Args:
            device: Where pixels are sent and prepared.

        Returns:
            From pixels, uint8, shape (B, 3, H, W), to float32 of that shape.
        """
        import torch

        def vector(values: tuple[float, ...]) -> torch.Tensor:
            # Tensors: a GPU multiplies by the inverse of a number that it is to divide by.
            return torch.tensor(values, dtype=torch.float32, device=device).reshape(1, -1, 1, 1)

        scale, mean, std = vector((self.scale,)), vector(self.mean), vector(self.std)

        def prepare(pixels: torch.Tensor) -> torch.Tensor:
            ready = pixels.to(device).float().contiguous(memory_format=torch.channels_last)
            return ready.div_(scale).sub_(mean).div_(std)

        return prepare


OURS = Preprocessing()  # of every network that is trained here
