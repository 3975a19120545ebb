"""How training images vary: shifts and mirrors, keyed by member and step."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

__all__ = ["Augmentation", "augment"]

Augmentation = Literal["none", "flip", "crop-flip"]
GREY = 128  # what a shift leaves behind: 0 once normalised
STREAM = 2**32  # above every epoch, which key the order of the data


def augment(pixels: torch.Tensor, kind: Augmentation, *, seed: int, step: int) -> torch.Tensor:
    """One member's batch, varied.

    Args:
        pixels: uint8, shape (B, 3, H, W).
        kind: `none`; `flip` mirrors each image with probability 1/2; `crop-flip` also shifts it by
            up to an eighth of its size, each way, filled with grey.
        seed: Of the member.
        step: Optimiser step; the draws depend on (seed, step) alone.

    Returns:
        uint8, shape (B, 3, H, W).

    >>> images = torch.arange(24, dtype=torch.uint8).view(1, 3, 2, 4).expand(8, 3, 2, 4)
    >>> flipped = augment(images, "flip", seed=0, step=0)
    >>> sorted({row[0, 0].tolist()[0] for row in flipped})
    [0, 3]
    """
    if kind == "none":
        return pixels
    batch, _, height, width = pixels.shape
    draws = np.random.Generator(np.random.Philox(key=[seed, STREAM + step]))
    mirrored = torch.from_numpy(draws.random(batch) < 0.5)
    if kind == "crop-flip":
        down, right = height // 8, width // 8
        frame = pixels.new_full((batch, 3, height + 2 * down, width + 2 * right), GREY)
        frame[:, :, down : down + height, right : right + width] = pixels
        windows = frame.unfold(2, height, 1).unfold(3, width, 1)  # every shift, as a view
        y = torch.from_numpy(draws.integers(0, 2 * down + 1, batch))
        x = torch.from_numpy(draws.integers(0, 2 * right + 1, batch))
        pixels = windows[torch.arange(batch), :, y, x]
    return torch.where(mirrored[:, None, None, None], pixels.flip(-1), pixels)
