"""Spatter: drops of water, with edges that refract, or of mud."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate, correlate1d, label

from scotoma.corruptions.resampling import Floats, Images, gaussian_blurred
from scotoma.numbers.inputs import Flags, Ints

WATER = np.array([175, 238, 238], dtype=np.float32)  # pale turquoise
MUD = np.array([63, 42, 20], dtype=np.float32)
SHADE = np.array([[[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]])  # light from the upper left
LOW, HIGH = 50, 150  # gradients from which a pixel may be, and is, an edge
FAR = np.float32(20)  # pixels beyond which distance no longer counts
# Steps of the 5x5 chamfer distance (Borgefors 1986) of OpenCV, and their lengths.
STEPS = {
    np.float32(1): [(0, 1), (1, 0)],
    np.float32(1.4): [(1, 1), (1, -1)],
    np.float32(2.1969): [(1, 2), (2, 1), (1, -2), (2, -1)],
}


def spatter(
    images: Images,
    normals: Floats,
    *,
    location: float,
    scale: float,
    sigma: float,
    threshold: float,
    intensity: float,
    mud_blur: float,
) -> Floats:
    """Cover the image with drops: blurred noise above a threshold.

    Args:
        images: Shape (n, h, w, 3).
        normals: Standard normals, shape (n, h, w).
        location: Mean of the noise.
        scale: Its standard deviation.
        sigma: Of the Gaussian that makes drops of it, pixels.
        threshold: Noise below it is no drop.
        intensity: Of water.
        mud_blur: Pixels by which the edge of mud is softened; 0 for water.
    """
    drawn = np.float32(location) + np.float32(scale) * normals[..., None]
    liquid = gaussian_blurred(drawn, sigma)[..., 0]
    drops = liquid >= np.float32(threshold)
    if mud_blur:
        cover = gaussian_blurred((liquid > np.float32(threshold))[..., None], mud_blur)
        cover = np.where(cover < np.float32(0.8), 0, cover)
        return images * (1 - cover) + MUD * cover
    water = np.where(drops, liquid * 255, 0).astype(np.int32) % 256  # as a byte overflows
    wet = water * _refraction(water).astype(np.float32)
    most = wet.max(axis=(1, 2), keepdims=True)
    share = np.where(most > 0, wet / np.maximum(most, 1), 0) * np.float32(intensity)
    return images + share[..., None].astype(np.float32) * WATER


def _refraction(water: NDArray[np.int32]) -> Ints:
    """Shade drops by the distance from their edges: levels, shape (n, h, w)."""
    distance = _box_mean(_distance(_edges(water))).astype(np.float32).astype(np.int64)
    shaded = np.clip(correlate(_equalized(distance), SHADE, mode="mirror"), 0, 255)
    return np.rint(_box_mean(shaded)).astype(np.int64)


def _box_mean(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Average each pixel with its eight neighbours."""
    sums = values.astype(np.float64)
    for axis in (1, 2):
        sums = correlate1d(sums, [1, 1, 1], axis=axis, mode="mirror")
    return sums * (1 / 9)


def _edges(levels: NDArray[np.int32]) -> Flags:
    """Find edges (Canny 1986) with Sobel gradients of 3 pixels, as OpenCV does."""
    smooth, slope = [1, 2, 1], [-1, 0, 1]
    across = correlate1d(correlate1d(levels, slope, 2, mode="nearest"), smooth, 1, mode="nearest")
    down = correlate1d(correlate1d(levels, slope, 1, mode="nearest"), smooth, 2, mode="nearest")
    size = np.abs(across) + np.abs(down)
    around = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    _, height, width = size.shape

    def beside(y: int, x: int) -> NDArray[np.int32]:
        return around[:, 1 + y : 1 + y + height, 1 + x : 1 + x + width]

    # Tangents of 22.5 and 67.5 degrees, in units of 2 ** -15.
    steep = np.abs(down).astype(np.int64) << 15
    low = np.abs(across).astype(np.int64) * 13573
    level, upright = steep < low, steep > low + (np.abs(across).astype(np.int64) << 16)
    falling = (across ^ down) < 0
    peak = np.select(
        [level, upright, falling],
        [
            (size > beside(0, -1)) & (size >= beside(0, 1)),
            (size > beside(-1, 0)) & (size >= beside(1, 0)),
            (size > beside(-1, 1)) & (size > beside(1, -1)),
        ],
        (size > beside(-1, -1)) & (size > beside(1, 1)),
    )
    maybe = peak & (size > LOW)
    in_plane = np.zeros((3, 3, 3), dtype=int)
    in_plane[1] = 1
    parts, count = label(maybe, structure=in_plane)
    sure = np.zeros(count + 1, dtype=bool)
    sure[parts[maybe & (size > HIGH)]] = True
    return maybe & sure[parts]


def _distance(edges: Flags) -> Floats:
    """Measure how far each pixel is from an edge, at most `FAR` pixels."""
    _, height, width = edges.shape
    padded = np.pad(
        np.where(edges, np.float32(0), FAR), ((0, 0), (2, 2), (2, 2)), constant_values=FAR
    )
    inside = padded[:, 2:-2, 2:-2]
    before = np.empty_like(inside)
    while not np.array_equal(before, inside):
        before[:] = inside
        for length, steps in STEPS.items():
            for y, x in [*steps, *((-y, -x) for y, x in steps)]:
                there = padded[:, 2 + y : 2 + y + height, 2 + x : 2 + x + width]
                np.minimum(inside, there + length, out=inside)
    return np.ascontiguousarray(inside)


def _equalized(levels: Ints) -> Ints:
    """Spread the levels of each image evenly over 0 to 255."""
    n, pixels = len(levels), levels[0].size
    first = np.arange(n)[:, None] * 256
    counts = np.bincount((levels.reshape(n, -1) + first).ravel(), minlength=256 * n)
    sums = counts.reshape(n, 256).cumsum(axis=1)
    lowest = np.take_along_axis(sums, levels.reshape(n, -1).min(axis=1)[:, None], axis=1)
    spread = np.maximum(pixels - lowest, 1)
    table = np.rint(np.maximum(sums - lowest, 0) * (np.float32(255) / spread.astype(np.float32)))
    one_level = lowest == pixels
    table = np.where(one_level, np.arange(256), table).astype(np.int64)
    return np.take_along_axis(table, levels.reshape(n, -1), axis=1).reshape(levels.shape)
