"""Prepare pixels for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


PixelArray: TypeAlias = NDArray[np.uint8]  # (N, 3, H, W)
Scores: TypeAlias = NDArray[np.float32]
INPUT_TYPES = ("float32", "float16", "float64", "uint8")  # of the images that a model takes


@dataclass(frozen=True)
class Preprocessing:
    """From pixels to a model's input: (pixel / scale - mean) / std, channel by channel.

    Attributes:
        scale: What pixels of 0 to 255 are divided by first.
        mean: Taken away from each of the channels R, G and B.
        std: What each of them is then divided by.
        layout: `NCHW`, or `NHWC` for models that take channels last.
        channels: Their order in what the model takes, `RGB` or `BGR`.
        dtype: One of `INPUT_TYPES`. Models that take `uint8` have all of this in their graph: they
            are given pixels as they are.
    """

    scale: float = 127.5
    mean: tuple[float, float, float] = (1.0, 1.0, 1.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    layout: str = "NCHW"
    channels: str = "RGB"
    dtype: str = "float32"

    def fitted(self, dtype: str, shape: Sequence[Any]) -> Preprocessing:
        """Fit it to one model.

        Args:
            dtype: Type of the model's input.
            shape: Its four axes, anything but a number where they are free. The axis of length 3
                decides the layout; where both or neither have it, the layout stays.

        >>> Preprocessing().fitted("uint8", (1, 224, 224, 3)).layout
        'NHWC'
        """
        last = {(True, False): "NCHW", (False, True): "NHWC"}
        layout = last.get((shape[1] == 3, shape[3] == 3), self.layout) if len(shape) == 4 else ""
        return replace(self, dtype=dtype, layout=layout or self.layout)

    @property
    def keeps_pixels(self) -> bool:
        """Whether pixels stay the numbers that they are, from 0 to 255."""
        return (self.scale, self.mean, self.std) == (1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def __call__(self, pixels: PixelArray) -> NDArray[Any]:
        """Prepare one batch.

        Args:
            pixels: RGB, uint8, shape (B, 3, H, W).

        Returns:
            As `dtype`, shape (B, 3, H, W), or (B, H, W, 3) for `NHWC`.

        >>> Preprocessing()(np.array([0, 255, 51], np.uint8).reshape(1, 3, 1, 1)).ravel()
        array([-1. ,  1. , -0.6], dtype=float32)
        """
        ready: NDArray[Any] = pixels if self.dtype == "uint8" else self._scaled(pixels)
        if self.channels == "BGR":
            ready = ready[:, ::-1]
        if self.layout == "NHWC":
            ready = ready.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(ready, self.dtype)

    def _scaled(self, pixels: PixelArray) -> NDArray[np.float32]:
        shape = (1, 3, 1, 1)
        ready = pixels.astype(np.float32)
        ready /= np.float32(self.scale)
        ready -= np.asarray(self.mean, np.float32).reshape(shape)
        if self.std != (1.0, 1.0, 1.0):
            ready /= np.asarray(self.std, np.float32).reshape(shape)
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
