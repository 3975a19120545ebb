"""What does every corruption look like? One picture of many, with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from scotoma.corruptions.resampling import Images

SMALLEST = 96  # pixels that an image is enlarged to, by a whole factor
GAP, CAPTION = 6, 20  # pixels
LONG = 8  # rows from which two blocks stand side by side
PAPER, INK = "white", "#222222"


def draw_strip(rows: Mapping[str, Sequence[Images]]) -> Image.Image:
    """Draw rows of images, each below its caption; many rows in two blocks side by side.

    Args:
        rows: Caption, and images of shape (h, w, 3), all of one size.

    >>> grey = np.full((32, 32, 3), 128, np.uint8)
    >>> draw_strip({"fog: 1, 3, 5": [grey] * 3}).size
    (312, 128)
    """
    height, width = next(iter(rows.values()))[0].shape[:2]
    factor = -(-SMALLEST // min(height, width))
    height, width = height * factor, width * factor
    across = max(len(images) for images in rows.values()) * (width + GAP) + GAP
    down = CAPTION + height + GAP
    blocks = 2 if len(rows) >= LONG else 1
    in_block = -(-len(rows) // blocks)
    sheet = Image.new("RGB", (blocks * across, in_block * down + GAP), PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for number, (caption, images) in enumerate(rows.items()):
        block, row = divmod(number, in_block)
        left, top = block * across + GAP, row * down + GAP // 2
        pen.text((left, top), caption, fill=INK, font=font)
        for place, image in enumerate(images):
            enlarged = Image.fromarray(np.repeat(np.repeat(image, factor, 0), factor, 1))
            sheet.paste(enlarged, (left + place * (width + GAP), top + CAPTION))
    return sheet
