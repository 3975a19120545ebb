"""How are images blurred along their axes, and read between their pixels?"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter1d

Indices = NDArray[np.intp]
Mode = Literal["nearest", "reflect"]


@lru_cache(maxsize=64)
def gaussian_matrix(size: int, sigma: float, mode: Mode = "nearest", truncate: float = 4) -> Floats:
    """Build the matrix that blurs a line of pixels with a Gaussian.

    Args:
        size: Pixels of the line.
        sigma: Standard deviation, pixels; 0 leaves the line as it is.
        mode: How the line goes on beyond its ends, in scipy's words.
        truncate: Standard deviations after which the Gaussian ends.

    Returns:
        float32, shape (size, size); each row sums to 1.
    """
    if sigma < 1e-15:
        return np.eye(size, dtype=np.float32)
    blurred = gaussian_filter1d(np.eye(size), sigma, axis=0, mode=mode, truncate=truncate)
    return np.ascontiguousarray(blurred, dtype=np.float32)


def planes(images: NDArray[np.generic]) -> Floats:
    """Put channels before rows: float32, shape (n, channels, h, w)."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32)


def gaussian_blurred(images: NDArray[np.generic], sigma: float) -> Floats:
    """Blur images of shape (n, h, w, channels) with a Gaussian, the edge repeated beyond it.

    One product of matrices per image, so that the size of a batch decides no bit.
    """
    _, height, width, _ = images.shape
    rows, columns = gaussian_matrix(height, sigma), gaussian_matrix(width, sigma)
    result = (rows @ planes(images) @ columns.T).transpose(0, 2, 3, 1)
    return np.asarray(result, dtype=np.float32)


def mirrored(indices: Indices, size: int, *, edge_twice: bool) -> Indices:
    """Reflect indices of pixels into 0 to size - 1.

    >>> mirrored(np.arange(-3, 7), 4, edge_twice=True).tolist()
    [2, 1, 0, 0, 1, 2, 3, 3, 2, 1]
    >>> mirrored(np.arange(-3, 7), 4, edge_twice=False).tolist()
    [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    """
    period = 2 * size if edge_twice else max(2 * size - 2, 1)
    indices = indices % period
    return np.minimum(indices, period - edge_twice - indices)


def with_fourth(images: NDArray[np.generic]) -> Floats:
    """Add an empty fourth channel: pixels of 16 bytes are gathered several times as fast."""
    result = np.zeros((*images.shape[:-1], 4), dtype=np.float32)
    result[..., :3] = images
    return result


def between(images: Floats, rows: Floats, columns: Floats, *, edge_twice: bool) -> Floats:
    """Read images between their pixels, bilinearly.

    Args:
        images: Shape (n, h, w, 4), see `with_fourth`.
        rows: Where each pixel of the result is read, shape (n, h, w).
        columns: The same across.
        edge_twice: How the image is mirrored beyond its edge: with the last pixel repeated, or
            around the middle of it.

    Returns:
        Shape (n, h, w, 4).
    """
    n, height, width, _ = images.shape
    pixels = images.reshape(-1, 4)
    first = (np.arange(n) * (height * width)).reshape(-1, 1, 1)
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    above, below = _and_next(top, height, edge_twice=edge_twice)
    before, after = _and_next(left, width, edge_twice=edge_twice)
    above, below = above * width + first, below * width + first

    def across(line: Indices) -> Floats:
        here = pixels.take(line + before, axis=0)
        step = pixels.take(line + after, axis=0)
        step -= here
        step *= right
        step += here
        return step

    result, lower = across(above), across(below)
    lower -= result
    lower *= down
    result += lower
    return result


def _and_next(places: Floats, size: int, *, edge_twice: bool) -> tuple[Indices, Indices]:
    """Mirror whole places, and the places after them, by one table for all."""
    indices = places.astype(np.intp)
    lowest = indices.min()
    table = mirrored(np.arange(lowest, indices.max() + 2), size, edge_twice=edge_twice)
    indices -= lowest
    here = table.take(indices)
    indices += 1
    return here, table.take(indices)


Images = NDArray[np.uint8]  # RGB, shape (n, h, w, 3)
Floats = NDArray[np.float32]  # on the scale of Images, unless a docstring says otherwise


def value_and_lowest(images: Images) -> tuple[Floats, Floats]:
    """Find the highest and the lowest channel of each pixel, shape (n, h, w, 1).

    The first is the value of HSV. Channel by channel is several times as fast as along the axis.
    """
    red, green, blue = (images[..., channel, None] for channel in range(3))
    value = np.maximum(np.maximum(red, green), blue)
    lowest = np.minimum(np.minimum(red, green), blue)
    return value.astype(np.float32), lowest.astype(np.float32)


def each_by_pillow(images: Images, change: Callable[[Image.Image], Image.Image]) -> Images:
    """Change each image by a function of Pillow's."""
    result = np.empty_like(images)
    for before, after in zip(images, result, strict=True):
        after[:] = np.asarray(change(Image.fromarray(before)))
    return result


def resized_and_back(
    images: Images, small: tuple[int, int], resampling: Image.Resampling
) -> Images:
    """Resize images to `small`, (width, height), and to their own size again."""
    _, height, width, _ = images.shape
    small = (max(1, small[0]), max(1, small[1]))
    return each_by_pillow(
        images, lambda image: image.resize(small, resampling).resize((width, height), resampling)
    )
