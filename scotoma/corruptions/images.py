"""How is one image file read, within the limits that hold for every image?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.config.limits import LIMITS
from scotoma.datasets.image_decoding import decode_rows
from scotoma.datasets.image_size import ImageSize
from scotoma.storage.files import open_regular


def read_image(path: Path, size: ImageSize | None = None) -> NDArray[np.uint8]:
    """Read an image.

    Args:
        path: A file that `scotoma.datasets` can decode.
        size: See `Examples.size`; None leaves the image as it is.

    Returns:
        RGB, uint8, shape (h, w, 3); grey images are made RGB and transparency is dropped.

    Raises:
        DataError: It cannot be decoded, has more pixels than the limits allow, or more than 8 bits
            a channel.
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        encoded = file.read()
    image = {"bytes": encoded, "path": str(path)}
    table = pl.DataFrame({"example_id": [path.name], "image": [image]})
    return np.ascontiguousarray(decode_rows(table, size, limits=LIMITS)[0].transpose(1, 2, 0))


def has_transparency(path: Path) -> bool:
    """Whether the file of an image that can be decoded has an alpha channel or a clear colour."""
    from PIL import Image

    with open_regular(path) as file, Image.open(file) as image:
        return bool(image.has_transparency_data)
