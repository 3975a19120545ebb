"""Corruptions of no published table: low light, colour cast, downscale, occlusion, drawn frost."""

from __future__ import annotations

import numpy as np
from PIL import Image

from scotoma.corruptions.resampling import Floats, Images, resized_and_back
from scotoma.corruptions.weather import clouds

GAMMA = 2.2  # of a display, near sRGB's
ICE_DECAY = 1.35  # rougher than fog
ICE = np.array([0.85, 0.93, 1], dtype=np.float32)


def low_light(
    images: Images, normals: Floats, *, exposure: float, photons: float, read_noise: float
) -> Floats:
    """Let a sensor see `exposure` of the light: darker, and with the noise of few photons.

    Args:
        images: Shape (n, h, w, 3), taken to be gamma-encoded.
        normals: Standard normals, shape (n, h, w, 3).
        exposure: Share of the light.
        photons: That white sends to a pixel in full light. Their noise is taken as normal, of
            variance equal to the mean.
        read_noise: Standard deviation of the sensor's own noise, photons.
    """
    levels = exposure * photons * (np.arange(256, dtype=np.float32) / 255) ** GAMMA
    noise = np.sqrt(levels + read_noise**2)
    seen = np.maximum(levels[images] + noise[images] * normals, 0) / photons
    return (255 * seen ** (1 / GAMMA)).astype(np.float32)


def colour_cast(images: Images, uniforms: Floats, *, amount: float) -> Floats:
    """Miss the white balance: red times 1 ± `amount`, blue times 1 ∓ `amount`.

    Args:
        images: Shape (n, h, w, 3).
        uniforms: From 0 to 1, shape (n); below a half the cast is blue, otherwise amber.
        amount: See above.
    """
    towards_red = np.where(uniforms < 0.5, -amount, amount).astype(np.float32)
    gains = 1 + towards_red[:, None] * np.array([1, 0, -1], dtype=np.float32)
    return images * gains[:, None, None]


def downscale(images: Images, *, factor: float) -> Images:
    """Shrink to `factor` of each side and enlarge again, both bicubic: a distant picture."""
    _, height, width, _ = images.shape
    small = (round(width * factor), round(height * factor))
    return resized_and_back(images, small, Image.Resampling.BICUBIC)


def occlusion(images: Images, uniforms: Floats, *, share: float) -> Images:
    """Cover `share` of the image with a mid-grey square.

    Args:
        images: Shape (n, h, w, 3).
        uniforms: From 0 to 1, shape (n, 2): where the square is, down and across.
        share: Of the area of the square in the middle of the image.
    """
    _, height, width, _ = images.shape
    side = max(1, round(min(height, width) * share**0.5))
    corners = (uniforms * [height - side + 1, width - side + 1]).astype(int)
    result = images.copy()
    for image, (row, column) in zip(result, corners, strict=True):
        image[row : row + side, column : column + side] = 127
    return result


def frost_like(images: Images, uniforms: Floats, *, image: float, picture: float) -> Floats:
    """Add ridges of ice drawn from noise, mixed as frost is; it stands for no photograph.

    Args:
        images: Shape (n, h, w, 3).
        uniforms: See `weather.fog`.
        image: Weight of the image.
        picture: Weight of the ice.
    """
    _, height, width, _ = images.shape
    ridges = (1 - np.abs(2 * clouds(uniforms, height, width, ICE_DECAY) - 1)) ** 1.5
    result: Floats = np.float32(image) * images
    result += np.float32(255 * picture) * ridges * ICE
    return result
