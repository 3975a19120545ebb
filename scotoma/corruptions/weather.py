"""Weather: snow, frost, fog, brightness. Images are uint8, results float32 in 0 to 255."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scotoma.corruptions.blur import motion_blur, zoomed
from scotoma.corruptions.resampling import Floats, Images, value_and_lowest

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601


def brightness(images: Images, *, value: float) -> Floats:
    """Add `value` of full white to the value of HSV; hue and saturation stay."""
    highest, _ = value_and_lowest(images)
    wanted = np.clip(highest + np.float32(255 * value), 0, 255)
    # Hue and saturation stay where all channels are multiplied alike; black has neither.
    result: Floats = images * (wanted / np.maximum(highest, 1))
    result += np.where(highest == 0, wanted, np.float32(0))
    return result


def darken(images: Images, *, value: float) -> Floats:
    """Take `value` of full white from the value of HSV: the opposite of `brightness`."""
    return brightness(images, value=-value)


def snow(
    images: Images,
    normals: Floats,
    angles: NDArray[np.float64],
    *,
    location: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    weight: float,
) -> Floats:
    """Whiten the image and add flakes: noise above a threshold, enlarged and moved along a line.

    Args:
        images: Shape (n, h, w, 3).
        normals: Standard normals, shape (n, h, w).
        angles: Degrees in which the flakes fall, shape (n).
        location: Mean of the noise before the threshold, of white.
        scale: Its standard deviation.
        zoom: How much the noise is enlarged.
        threshold: Noise below it is no flake.
        radius: See `motion_blur`, pixels.
        sigma: See `motion_blur`, pixels.
        weight: Share of the image itself; the rest is whitened.
    """
    layer = zoomed(np.float32(location) + np.float32(scale) * normals[..., None], zoom)
    layer = np.where(layer < np.float32(threshold), 0, np.clip(layer, 0, 1))
    still: Images = (layer * 255).astype(np.uint8)
    flakes = np.floor(motion_blur(still, angles, radius=radius, sigma=sigma))
    light = (images @ LUMA)[..., None] * 1.5 + 127.5
    white = np.maximum(images, light)
    result: Floats = np.float32(weight) * images + np.float32(1 - weight) * white
    result += flakes
    result += flakes[:, ::-1, ::-1]
    return result


def frost(images: Images, crops: Images, *, image: float, picture: float) -> Floats:
    """Add `picture` of a crop of a photograph to `image` of the image; see `frost.crop`."""
    return np.float32(image) * images + np.float32(picture) * crops


def fog(images: Images, uniforms: Floats, *, amount: float, decay: float) -> Floats:
    """Add `amount` of a cloud, and scale so that the brightest value stays.

    Args:
        images: Shape (n, h, w, 3).
        uniforms: From -1 to 1, shape (n, side ** 2 - 1), with `map_side`; see `clouds`.
        amount: Of the cloud, which runs from 0 to 1.
        decay: How much smoother the cloud gets from one scale to the next.
    """
    _, height, width, _ = images.shape
    brightest = images.max(axis=(1, 2, 3), keepdims=True).astype(np.float32)
    cloud = clouds(uniforms, height, width, decay)
    share = brightest / (brightest + np.float32(255 * amount))
    result: Floats = (images + np.float32(255 * amount) * cloud) * share
    return result


def map_side(height: int, width: int) -> int:
    """Find the side of the map that clouds are drawn on: a power of two.

    >>> map_side(32, 32), map_side(224, 224)
    (32, 256)
    """
    return 1 << (max(height, width) - 1).bit_length()


def clouds(uniforms: Floats, height: int, width: int, decay: float) -> Floats:
    """Cut maps, shape (n, h, w, 1), of 0 to 1, from those of the diamond-square algorithm.

    Each level takes its numbers from `uniforms` in turn: the middles of squares, then of their
    upper and of their left edges.
    """
    step, wibble, taken = map_side(height, width), 100.0, 0
    maps = np.zeros((len(uniforms), step, step), dtype=np.float32)

    def middle(corners: Floats) -> Floats:
        nonlocal taken
        count = corners.shape[1] * corners.shape[2]
        drawn = uniforms[:, taken : taken + count].reshape(corners.shape)
        taken += count
        return corners / 4 + np.float32(wibble**2) * drawn

    while step >= 2:
        half = step // 2
        corners = maps[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, axis=1)
        maps[:, half::step, half::step] = middle(pairs + np.roll(pairs, -1, axis=2))
        centres, corners = maps[:, half::step, half::step], maps[:, ::step, ::step]
        vertical = centres + np.roll(centres, 1, axis=1)
        maps[:, ::step, half::step] = middle(vertical + corners + np.roll(corners, -1, axis=2))
        horizontal = centres + np.roll(centres, 1, axis=2)
        maps[:, half::step, ::step] = middle(horizontal + corners + np.roll(corners, -1, axis=1))
        step, wibble = half, wibble / decay
    maps -= maps.min(axis=(1, 2), keepdims=True)
    maps /= maps.max(axis=(1, 2), keepdims=True)
    return maps[:, :height, :width, None]
