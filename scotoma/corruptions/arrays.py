"""What are images and numbers in this package, and how do they pass through Pillow?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Floats", "Images", "each_by_pillow", "resized_and_back"]

Images = NDArray[np.uint8]  # RGB, shape (n, h, w, 3)
Floats = NDArray[np.float32]  # on the scale of Images, unless a docstring says otherwise


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
