from __future__ import annotations

import numpy as np
import pytest
import torch

from scotoma.training.augmentation import GREY, augment


@pytest.fixture
def pixels() -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 120, (200, 3, 16, 32)).astype(np.uint8))


def shifted(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """The slow twin: one pixel after the other."""
    found = torch.full_like(image, GREY)
    _, height, width = image.shape
    for y in range(height):
        for x in range(width):
            if 0 <= y + down < height and 0 <= x + right < width:
                found[:, y, x] = image[:, y + down, x + right]
    return found


def test_every_image_is_a_shift_and_perhaps_a_mirror_of_its_own(pixels: torch.Tensor) -> None:
    few, seen = pixels[:25], set()
    for image, varied in zip(few, augment(few, "crop-flip", seed=1, step=2), strict=True):
        candidates = {
            (down, right, mirrored): moved.flip(-1) if mirrored else moved
            for down in range(-2, 3)
            for right in range(-4, 5)
            for moved in [shifted(image, down, right)]
            for mirrored in (False, True)
        }
        (which,) = [key for key, value in candidates.items() if torch.equal(value, varied)]
        seen.add(which)
    assert len(seen) > 12


def test_half_of_the_images_are_mirrored(pixels: torch.Tensor) -> None:
    varied = augment(pixels, "flip", seed=3, step=0)
    kept = (varied == pixels).flatten(1).all(1)
    mirrored = (varied == pixels.flip(-1)).flatten(1).all(1)
    assert bool((kept ^ mirrored).all())
    assert 70 <= int(mirrored.sum()) <= 130


@pytest.mark.parametrize("other", [{"seed": 8, "step": 5}, {"seed": 7, "step": 6}])
def test_draws_depend_on_seed_and_step_alone(pixels: torch.Tensor, other: dict[str, int]) -> None:
    first = augment(pixels, "crop-flip", seed=7, step=5)
    assert torch.equal(augment(pixels, "crop-flip", seed=7, step=5), first)
    assert not torch.equal(augment(pixels, "crop-flip", **other), first)
