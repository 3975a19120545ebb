"""Blur: defocus, glass, motion, zoom, Gaussian. Images are uint8, results float32 in 0 to 255."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d
from scipy.signal import fftconvolve

from scotoma.corruptions.resampling import (
    Floats,
    Images,
    gaussian_blurred,
    mirrored,
    planes,
    with_fourth,
)

HALF_A_STEP = np.float32(0.5 / 257)  # of ImageMagick's 16 bits, to which it rounds first
FEW_TERMS = 4  # products of matrices up to which they take less time than a Fourier transform


def defocus_blur(images: Images, *, radius: float, alias: float) -> Floats:
    """Blur with a disc of `radius` pixels whose edge is softened by a Gaussian of `alias`."""
    _, height, width, _ = images.shape
    terms = _disc_terms(radius, alias, height, width)
    pixels = planes(images)
    if len(terms) <= FEW_TERMS:
        result = np.zeros_like(pixels)
        for rows, columns in terms:
            result += rows @ pixels @ columns
        return result.transpose(0, 2, 3, 1)
    kernel = disc(radius, alias)
    reach = len(kernel) // 2
    row = mirrored(np.arange(-reach, height + reach), height, edge_twice=False)
    column = mirrored(np.arange(-reach, width + reach), width, edge_twice=False)
    for image in pixels:
        for plane in image:
            plane[:] = fftconvolve(plane[row[:, None], column], kernel, mode="valid")
    return pixels.transpose(0, 2, 3, 1)


@lru_cache(maxsize=16)
def disc(radius: float, alias: float) -> Floats:
    """Draw a disc of sum 1 on pixels and soften it by a Gaussian of 3 or (beyond 8) 5 pixels.

    Returns:
        Shape (side, side), without the rows of zeros around it.
    """
    reach = 8 if radius <= 8 else int(radius)
    steps = np.arange(-reach, reach + 1)
    inside = (steps[:, None] ** 2 + steps**2 <= radius**2).astype(float)
    inside /= inside.sum()
    width = 1 if radius <= 8 else 2
    weights = np.exp(-(np.arange(-width, width + 1) ** 2) / (2 * alias**2))
    for axis in (0, 1):
        inside = correlate1d(inside, weights / weights.sum(), axis=axis, mode="mirror")
    empty = int(np.argmax(inside.any(axis=1)))
    side = len(inside)
    kernel: Floats = inside[empty : side - empty, empty : side - empty].astype(np.float32)
    return kernel


@lru_cache(maxsize=16)
def _disc_terms(radius: float, alias: float, height: int, width: int) -> list[tuple[Floats, ...]]:
    """Write the disc as a sum of products of a filter down and a filter across."""
    left, sizes, right = np.linalg.svd(disc(radius, alias).astype(float))
    terms = int((sizes > 1e-6 * sizes[0]).sum())

    def matrix(weights: NDArray[np.float64], size: int) -> Floats:
        filtered = correlate1d(np.eye(size), weights, axis=0, mode="mirror")
        return np.ascontiguousarray(filtered, dtype=np.float32)

    return [
        (matrix(left[:, t] * sizes[t], height), matrix(right[t], width).T) for t in range(terms)
    ]


def glass_blur(
    images: Images, moves: NDArray[np.int8], *, sigma: float, delta: int, iterations: int
) -> Floats:
    """Blur, copy each pixel from a neighbour of up to `delta` pixels away, blur again.

    Args:
        images: Shape (n, h, w, 3).
        moves: Steps across and down of each copy, shape (n, iterations, h', w', 2), from -delta
            to delta - 1, in the order of the copies: rows and columns from the last to the first.
        sigma: Of both blurs, pixels.
        delta: How far a neighbour may be, pixels.
        iterations: How often every pixel is copied.
    """
    n, height, width, channels = images.shape
    soft = gaussian_blurred(images, sigma).clip(0, 255).astype(np.uint8)
    source = np.arange(height * width, dtype=np.int32)[None]
    for iteration in range(iterations):
        copied = _copied_from(moves[:, iteration], height, width, delta)
        source = np.take_along_axis(np.broadcast_to(source, copied.shape), copied, axis=1)
    pixels = soft.reshape(n, height * width, channels)
    copies = np.take_along_axis(pixels, source[..., None], axis=1)
    return gaussian_blurred(copies.reshape(images.shape), sigma)


def _copied_from(moves: NDArray[np.int8], height: int, width: int, delta: int) -> NDArray[np.int32]:
    """Find the pixel that each pixel holds after one round of copies.

    A pixel copied from one that was copied before it holds what that one holds by then. Following
    such chains by doubling gives what the loop over all pixels gives.

    Returns:
        Numbers of pixels, shape (n, h * w).
    """
    n, pixels = len(moves), height * width
    down, across = np.arange(height - delta, delta, -1), np.arange(width - delta, delta, -1)
    row = down[:, None] + moves[..., 1]
    column = across + moves[..., 0]
    here = (down[:, None] * width + across).astype(np.int32)
    there = (row * width + column).astype(np.int32)
    # States 0 to pixels - 1 are the image before the round, the next as many after it: those at
    # the border, which is not copied, as they were.
    after = np.arange(pixels, dtype=np.int32)
    state = np.broadcast_to(np.concatenate([after, after]), (n, 2 * pixels)).copy()
    state[:, pixels + here.ravel()] = np.where(there > here, there + pixels, there).reshape(n, -1)
    while (state[:, pixels:] >= pixels).any():
        state[:, pixels:] = np.take_along_axis(state, state[:, pixels:], axis=1)
    return state[:, pixels:]


def motion_blur(
    images: Images, angles: NDArray[np.float64], *, radius: float, sigma: float
) -> Floats:
    """Average each image with itself moved pixel by pixel along its angle, by half a Gaussian.

    Args:
        images: Shape (n, h, w, channels); the edge is repeated beyond it.
        angles: Degrees, shape (n).
        radius: Half of the number of steps, pixels.
        sigma: Standard deviation of the Gaussian, pixels.

    Returns:
        float32, to be truncated as ImageMagick does, with which the published sets were made.
    """
    _, height, width, _ = images.shape
    steps = np.arange(int(np.ceil(2 * radius + 1)))
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    result = np.empty(images.shape, dtype=np.float32)
    moving = np.empty(images.shape[1:], dtype=np.float32)
    for image, angle, total in zip(images, np.deg2rad(angles), result, strict=True):
        row = np.ceil(steps * np.sin(angle) - 0.5).astype(int)
        column = np.ceil(steps * np.cos(angle) - 0.5).astype(int)
        top, left = -min(row.min(), 0), -min(column.min(), 0)
        edges = ((top, max(row.max(), 0)), (left, max(column.max(), 0)), (0, 0))
        padded = np.pad(image.astype(np.float32), edges, mode="edge")
        total[:] = 0
        for weight, y, x in zip(weights, row + top, column + left, strict=True):
            np.multiply(padded[y : y + height, x : x + width], weight, out=moving)
            total += moving
    result += HALF_A_STEP
    return result


def zoom_blur(images: Images, *, zooms: list[float]) -> Floats:
    """Average the image with itself zoomed in by each of `zooms`."""
    pixels = with_fourth(images)
    total = pixels.copy()
    for zoom in zooms:
        total += zoomed(pixels, zoom)
    total /= len(zooms) + 1
    return total[..., :3]


def zoomed(pixels: Floats, zoom: float) -> Floats:
    """Enlarge the middle of images of shape (n, h, w, channels), bilinearly, to their size."""
    for axis in (1, 2):
        before, after, share = _zoom_places(pixels.shape[axis], zoom)
        here = pixels.take(before, axis=axis)
        step = pixels.take(after, axis=axis)
        step -= here
        step *= share.reshape([-1 if a == axis else 1 for a in range(pixels.ndim)])
        step += here
        pixels = step
    return pixels


@lru_cache(maxsize=256)
def _zoom_places(size: int, zoom: float) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Find the two pixels between which each pixel of a zoomed line lies, and where between."""
    cropped = int(np.ceil(size / zoom))
    enlarged = round(cropped * zoom)
    first = (size - cropped) // 2
    trimmed = (enlarged - size) // 2
    step = (cropped - 1) / (enlarged - 1)
    place = (trimmed + np.arange(size)) * step
    before = np.minimum(place.astype(int), cropped - 2)
    share = (place - before).astype(np.float32)
    return first + before, first + before + 1, share
