"""Which small steps make a sequence of pictures, in the manner of ImageNet-P?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scotoma.corruptions.arrays import Floats, Images
from scotoma.corruptions.noise import gaussian_noise
from scotoma.corruptions.random_numbers import generators
from scotoma.corruptions.resampling import between, with_fourth
from scotoma.corruptions.weather import brightness, darken
from scotoma.errors import ConfigError

__all__ = ["FROM_FIRST", "PERTURBATIONS", "perturbed"]

FROM_FIRST = ("gaussian_noise",)  # draws have no order: frames are compared with the first one
NOISE = 0.04  # standard deviation, of white
LIGHT = 0.02  # of white a frame
SHIFT = 1 / 64  # of the width a frame
TURN = 1.0  # degrees a frame
GROWTH = 0.01  # of the size a frame


def perturbed(
    images: Images, example_ids: Sequence[str], kind: str, frame: int, frames: int, *, seed: int
) -> Images:
    """Make one frame of each picture's sequence.

    Frames lie around the picture itself, a small step apart; noise begins with the picture, and
    draws anew for every later frame.

    Args:
        images: RGB, uint8, shape (n, h, w, 3).
        example_ids: One for each image; with `seed` it decides the noise.
        kind: One of `PERTURBATIONS`.
        frame: From 0 to `frames` - 1.
        frames: Length of the sequence.
        seed: Of the whole suite.

    Returns:
        uint8, of the shape of `images`.

    Raises:
        ConfigError: The kind is unknown.

    Source: the idea is that of ImageNet-P (Hendrycks and Dietterich 2019, section 3.3); steps are
    ours, so that flip rates do not stand beside published ones.

    >>> grey = np.full((1, 8, 8, 3), 100, np.uint8)
    >>> [int(perturbed(grey, ["a"], "brightness", k, 3, seed=0)[0, 0, 0, 0]) for k in range(3)]
    [94, 100, 105]
    """
    if kind not in PERTURBATIONS:
        raise ConfigError(
            f"sequences are made by {', '.join(PERTURBATIONS)}, got {kind!r}; choose one of them"
        )
    if kind in FROM_FIRST:
        if not frame:
            return images.copy()
        size = images.shape[1:]
        normals = np.stack([
            each.standard_normal(size, dtype=np.float32)
            for each in generators(seed, example_ids, f"sequence {kind}", frame)
        ])  # fmt: skip
        return _as_bytes(gaussian_noise(images, normals, scale=NOISE))
    return _as_bytes(_STEPS[kind](images, frame - (frames - 1) / 2))


def _as_bytes(images: Floats) -> Images:
    return np.clip(images, 0, 255).astype(np.uint8)


def _light(images: Images, steps: float) -> Floats:
    change = brightness if steps > 0 else darken
    return change(images, value=abs(steps) * LIGHT)


def _moved(images: Images, across: float, turn: float, growth: float) -> Floats:
    """Shift by pixels, turn by degrees and enlarge around the middle; edges are mirrored."""
    n, height, width, _ = images.shape
    y = np.arange(height, dtype=np.float32)[:, None] - (height - 1) / 2
    x = np.arange(width, dtype=np.float32) - (width - 1) / 2 - np.float32(across)
    cosine, sine = (np.float32(f(np.deg2rad(turn)) / growth) for f in (np.cos, np.sin))
    rows = cosine * y - sine * x + np.float32((height - 1) / 2)
    columns = sine * y + cosine * x + np.float32((width - 1) / 2)
    places = (np.broadcast_to(one, (n, height, width)) for one in (rows, columns))
    return between(with_fourth(images), *places, edge_twice=True)[..., :3]


_STEPS: dict[str, Callable[[Images, float], Floats]] = {
    "brightness": _light,
    "translate": lambda images, steps: _moved(images, steps * SHIFT * images.shape[2], 0, 1),
    "rotate": lambda images, steps: _moved(images, 0, steps * TURN, 1),
    "scale": lambda images, steps: _moved(images, 0, 0, 1 + steps * GROWTH),
}
PERTURBATIONS = (*FROM_FIRST, *_STEPS)
