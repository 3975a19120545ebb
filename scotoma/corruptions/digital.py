"""Digital: contrast, elastic, pixelate, JPEG, saturation; uint8 in, float32 0 to 255 out."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from scotoma.corruptions.resampling import (
    Floats,
    Images,
    between,
    each_by_pillow,
    gaussian_matrix,
    resized_and_back,
    value_and_lowest,
    with_fourth,
)


def contrast(images: Images, *, factor: float) -> Floats:
    """Bring each channel `factor` as far from its mean."""
    pixels = images.shape[1] * images.shape[2]
    means = images.sum(axis=(1, 2), dtype=np.int64, keepdims=True) / pixels  # exact in any order
    result: Floats = images * np.float32(factor) + (means * (1 - factor)).astype(np.float32)
    return result


def elastic_transform(
    images: Images, corners: Floats, fields: Floats, *, alpha: float, sigma: float, affine: float
) -> Floats:
    """Move three points of the image at random, then every pixel a little.

    Args:
        images: Shape (n, h, w, 3).
        corners: Uniform numbers from -1 to 1 that move each of three points across and down, in
            units of `affine` pixels, shape (n, 3, 2).
        fields: Uniform numbers from -1 to 1 for each pixel's way across and down, shape
            (n, 2, h, w): smoothed by a Gaussian of `sigma` pixels and multiplied by `alpha`.
        alpha: See `fields`, pixels.
        sigma: See `fields`, pixels.
        affine: See `corners`, pixels.
    """
    _, height, width, _ = images.shape
    middle, side = np.array([height, width]) // 2, min(height, width) // 3
    points = np.array([middle + side, [middle[0] + side, middle[1] - side], middle - side], float)
    one = np.ones((len(images), 3, 1))
    aims = np.concatenate([points + affine * corners.astype(float), one], axis=2)
    back = np.linalg.solve(aims, np.broadcast_to(points, (len(images), 3, 2)))
    y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)
    across, down, shift = back.astype(np.float32)[..., None, None].swapaxes(0, 1)
    place = across * x + down * y + shift
    pixels = between(with_fourth(images), place[:, 1], place[:, 0], edge_twice=False)
    if alpha:
        smooth_rows = gaussian_matrix(height, sigma, "reflect", 3)
        smooth_columns = gaussian_matrix(width, sigma, "reflect", 3)
        ways = np.asarray(smooth_rows @ fields @ smooth_columns.T, dtype=np.float32)
        ways *= np.float32(alpha)
        pixels = between(pixels, ways[:, 1] + y, ways[:, 0] + x, edge_twice=True)
    return pixels[..., :3]


def pixelate(images: Images, *, factor: float) -> Images:
    """Shrink to `factor` of each side and enlarge again, by the average over each box."""
    _, height, width, _ = images.shape
    small = (int(width * factor), int(height * factor))
    return resized_and_back(images, small, Image.Resampling.BOX)


def jpeg_compression(images: Images, *, quality: int) -> Images:
    """Save as JPEG of this quality (Pillow's scale) and read again."""

    def through_jpeg(image: Image.Image) -> Image.Image:
        encoded = io.BytesIO()
        image.save(encoded, "JPEG", quality=quality)
        return Image.open(encoded, formats=("JPEG",))

    return each_by_pillow(images, through_jpeg)


def saturate(images: Images, *, factor: float, offset: float) -> Floats:
    """Multiply the saturation (HSV) by `factor` and add `offset`; a grey pixel turns reddish."""
    value, lowest = value_and_lowest(images)
    grey = value == lowest
    saturation = (value - lowest) / np.maximum(value, 1)
    wanted = np.clip(saturation * np.float32(factor) + np.float32(offset), 0, 1)
    drop = (value - images) * (wanted / np.where(grey, np.float32(1), saturation))
    drop[..., 1:] += np.where(grey, value * wanted, np.float32(0))  # the hue of grey counts as red
    return np.subtract(value, drop, dtype=np.float32)
