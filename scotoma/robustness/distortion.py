"""How much did a corruption really change the pictures of a group? A fact about the pictures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Floats

WINDOW = 7  # pixels of a side, as Wang et al. recommend for square windows
LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue in ITU-R BT.601
Pixels = npt.NDArray[np.uint8]


def distortion(clean: Pixels, corrupted: Pixels) -> tuple[Floats, Floats]:
    """Measure the change of every picture.

    Args:
        clean: Shape (n, 3, H, W).
        corrupted: The same pictures, corrupted.

    Returns:
        Mean absolute change in grey levels (0 to 255) and structural similarity (1 for the same
        picture), shape (n,) each.

    >>> same = np.zeros((1, 3, 8, 8), np.uint8)
    >>> [part.tolist() for part in distortion(same, same + np.uint8(4))]
    [[4.0], [0.2889...]]
    """
    change = np.abs(clean.astype(np.int16) - corrupted).mean(axis=(1, 2, 3))
    return np.asarray(change, np.float64), structural_similarity(clean, corrupted)


def structural_similarity(first: Pixels, second: Pixels) -> Floats:
    """Mean SSIM of each pair of pictures, on luma, in square windows of 7 pixels.

    Args:
        first: Shape (n, 3, H, W), at least 7 pixels a side.
        second: The same shape.

    Returns:
        Shape (n,), at most 1.

    References:
        Wang et al. (2004), IEEE Transactions on Image Processing 13:600-612.

    >>> picture = np.arange(192, dtype=np.uint8).reshape(1, 3, 8, 8)
    >>> structural_similarity(picture, picture).tolist()
    [1.0]
    """
    from scipy.ndimage import uniform_filter  # costly to import

    x, y = (np.einsum("nchw,c->nhw", p, LUMA) for p in (first, second))

    def local(values: Floats) -> Floats:
        edge = WINDOW // 2
        means = uniform_filter(values, size=(0, WINDOW, WINDOW), mode="nearest")
        return np.asarray(means[:, edge : -edge or None, edge : -edge or None])

    mean_x, mean_y = local(x), local(y)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    var_x = unbiased * (local(x * x) - mean_x**2)
    var_y = unbiased * (local(y * y) - mean_y**2)
    covariance = unbiased * (local(x * y) - mean_x * mean_y)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    below = (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return np.asarray((above / below).mean(axis=(1, 2)))
