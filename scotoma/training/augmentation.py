"""How do training images vary? By shifts and mirrors, keyed by member, step and example."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scotoma.config import Recipe
from scotoma.numbers.inputs import Ints
from scotoma.training.placement import sent

GREY = 128  # what a shift leaves behind: 0 once normalised
STREAM = 2**32  # above every epoch, which keys the order of the data


def augment(
    pixels: Tensor,
    recipe: Recipe,
    *,
    seed: int,
    step: int,
    epoch: int,
    rows: Ints,
) -> Tensor:
    """Vary one member's batch as its recipe says.

    `flip` mirrors each image with probability 1/2. `alternating-flip` mirrors it in every other
    epoch, from the first or the second on by chance, so that two epochs in a row show both sides.
    `crop-` before either also shifts it by up to `recipe.crop` of its size, each way, filled with
    grey.

    Args:
        pixels: uint8, shape (B, 3, H, W).
        recipe: Its augmentation and crop.
        seed: Seed of the member.
        step: Optimiser step; shifts and chance mirrors depend on (seed, step) alone.
        epoch: Passes over the data done before.
        rows: Rows of the batch in the training data, shape (B,): they decide whose turn it is.

    Returns:
        uint8, shape (B, 3, H, W).

    References:
        Jordan (2024), "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", section 3.6.

    >>> images = torch.arange(24, dtype=torch.uint8).view(1, 3, 2, 4).expand(8, 3, 2, 4)
    >>> flips = Recipe(augmentation="flip")
    >>> flipped = augment(images, flips, seed=0, step=0, epoch=0, rows=np.arange(8))
    >>> sorted({row[0, 0].tolist()[0] for row in flipped})
    [0, 3]
    """
    if recipe.augmentation == "none":
        return pixels
    batch, _, height, width = pixels.shape
    draws = np.random.Generator(np.random.Philox(key=[seed, STREAM + step]))
    mirrored = draws.random(batch) < 0.5
    if "alternating" in recipe.augmentation:
        mirrored = (_hashed(seed, rows) + np.uint64(epoch)) % 2 == 1
    if recipe.augmentation.startswith("crop-"):
        down, right = int(height * recipe.crop), int(width * recipe.crop)
        frame = pixels.new_full((batch, 3, height + 2 * down, width + 2 * right), GREY)
        frame[:, :, down : down + height, right : right + width] = pixels
        windows = frame.unfold(2, height, 1).unfold(3, width, 1)  # every shift, as a view
        shifts = [draws.integers(0, 2 * most + 1, batch) for most in (down, right)]
        y, x = (sent(shift, pixels.device) for shift in shifts)
        pixels = windows[torch.arange(batch, device=pixels.device), :, y, x]
    turned = sent(mirrored, pixels.device)
    return torch.where(turned[:, None, None, None], pixels.flip(-1), pixels)


def _hashed(seed: int, rows: Ints) -> NDArray[np.uint64]:
    """64 bits a row, as good as chance: of SplitMix64 (Steele et al. 2014), number (seed, row)."""
    number = rows.astype(np.uint64) + (np.uint64(seed) << np.uint64(32)) + np.uint64(1)
    bits = number * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
