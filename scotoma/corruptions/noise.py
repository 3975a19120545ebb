"""Noise: Gaussian, shot, impulse, speckle. Images are uint8, results float32 in 0 to 255."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import poisson

from scotoma.corruptions.resampling import Floats, Images


def gaussian_noise(images: Images, normals: Floats, *, scale: float) -> Floats:
    """Add `scale` of full white times standard normals, one for each value."""
    return images + np.float32(255 * scale) * normals


def speckle_noise(images: Images, normals: Floats, *, scale: float) -> Floats:
    """Add `scale` of each value times a standard normal."""
    return images * (1 + np.float32(scale) * normals)


def impulse_noise(images: Images, uniforms: Floats, *, amount: float) -> Images:
    """Set each value to black or white with probability `amount` / 2 each."""
    black, white = np.float32(amount / 2), np.float32(amount)
    return np.where(uniforms < white, np.where(uniforms < black, np.uint8(0), 255), images)


def shot_noise(images: Images, uniforms: Floats, *, photons: int) -> Images:
    """Replace each value v by a Poisson count of mean `photons` v, over `photons`.

    Counts are drawn by Walker's alias method, one uniform each: v has only 256 values.
    """
    threshold, values, aliases = _poisson_tables(photons)
    columns = len(values)
    scaled = uniforms * np.float32(columns)
    column = scaled.astype(np.int32)
    np.minimum(column, columns - 1, out=column)  # a uniform next to 1 may round up
    scaled -= column
    cell = images * np.int32(columns) + column
    return np.where(scaled < threshold[cell], values[column], aliases[cell])


@cache
def _poisson_tables(photons: int) -> tuple[Floats, Images, Images]:
    """Build one alias table for each level of grey, of the level that each count shows as.

    Returns:
        For level v and column k at v * columns + k: the threshold below which k is taken, and the
        level of the count taken otherwise; and for each k the level of k counts.
    """
    counts = np.arange(photons + 1)
    mass = np.asarray(poisson.pmf(counts, photons * np.arange(256)[:, None] / 255))
    mass[:, -1] += 1 - mass.sum(axis=1)  # more counts than white stay white
    levels = np.arange(256)
    threshold = mass * len(counts)
    alias = np.broadcast_to(counts, threshold.shape).copy()
    small = threshold.copy()  # columns that are settled are marked with infinity
    for _ in counts[1:]:
        poorest, richest = small.argmin(axis=1), threshold.argmax(axis=1)
        missing = np.maximum(1 - small[levels, poorest], 0)
        alias[levels, poorest] = richest
        threshold[levels, richest] -= missing
        small[levels, richest] -= missing
        small[levels, poorest] = np.inf
    shown = (np.minimum(counts / photons, 1) * 255).astype(np.uint8)
    return threshold.astype(np.float32).ravel(), shown, shown[alias].ravel()
