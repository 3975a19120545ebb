"""Prepare pixels for a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


OURS = Preprocessing()  # of every network that is trained here
