"""What does a picture look like, in numbers that people can follow: light, contrast, blur, size?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.datasets.image_decoding import CHUNK, THREADS_PAY, Pixels, image_opener
from scotoma.processes.machine import cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.datasets.examples import AuditedExamples


# Each with its unit or meaning, for whoever reads a slice such as `image sharpness < 12`.
STATISTICS = {
    "image brightness": "mean of the grey levels, 0 to 255",
    "image contrast": "standard deviation of the grey levels",
    "image sharpness": "variance of the Laplacian of the grey levels: small where blurred",
    "image width": "pixels of the original file",
    "image height": "pixels of the original file",
    "image aspect": "width over height of the original file",
}

BAND = 2**22  # pixels that are measured at a time

Row = tuple[float, float, float | None, int, int, float]


def image_statistics(examples: AuditedExamples) -> pl.DataFrame:
    """Compute statistics of every image, upright if models see it so, but not resized or cropped.

    Args:
        examples: Images as encoded bytes that can be decoded.

    Returns:
        `example_id` and the columns of `STATISTICS`, one row per example (of several labels per
        image and label); no sharpness where a side is shorter than three pixels.

    References:
        Pech-Pacheco et al. (2000), ICPR 3:314-317: the variance of the Laplacian as focus measure.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import load_examples
    >>> table = image_statistics(load_examples(default_config()).split("test"))
    >>> table["image width"].unique().to_list(), table.height
    ([8], 1798)
    """
    opening, encoded = image_opener(), examples.pictured.table["image"].struct.field("bytes")
    chunks = range(0, len(encoded), CHUNK)

    def measure(start: int) -> list[Row]:
        rows = []
        for data in encoded.slice(start, CHUNK).to_list():
            with opening(data) as opened:
                shown = opened if examples.size is None else examples.size.turned(opened)
                rows.append((*_of_pixels(np.asarray(shown.convert("L"))), *shown.size))
        return [(*row, row[-2] / row[-1]) for row in rows]

    first = measure(0) if len(encoded) else []
    workers = cores() if first and first[0][3] * first[0][4] >= THREADS_PAY else 1
    with ThreadPoolExecutor(workers) as pool:
        rows = list(chain(first, chain.from_iterable(pool.map(measure, chunks[1:]))))
    kinds = [pl.Float64, pl.Float64, pl.Float64, pl.Int64, pl.Int64, pl.Float64]
    schema = dict(zip(STATISTICS, kinds, strict=True))
    table = pl.DataFrame(rows, schema=schema, orient="row")
    table = table[np.repeat(np.arange(table.height), examples.rows_an_image)]
    return table.insert_column(0, examples.table["example_id"])


def _of_bands(grey: Pixels) -> tuple[float, float, float | None]:
    """Compute the same of a large image, some lines at a time, in a tenth of the memory."""
    height, width = grey.shape
    lines = max(1, BAND // width)
    levels, edges = _Moments(), _Moments()
    for start in range(0, height, lines):
        levels.add(grey[start : start + lines].astype(np.float64))
        # The Laplacian of the lines themselves needs one more on each side.
        band = grey[max(start - 1, 0) : start + lines + 1].astype(np.float64)
        if min(band.shape) >= 3:
            edges.add(_laplacian(band))
    sharpness = edges.variance if edges.n else None
    return levels.mean, float(np.sqrt(levels.variance)), sharpness


class _Moments:
    """Mean and variance of values that come some at a time (Chan, Golub and LeVeque 1983)."""

    def __init__(self) -> None:
        self.n, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        n, mean = values.size, float(values.mean())
        squares = float(((values - mean) ** 2).sum())
        step = mean - self.mean
        self.squares += squares + step**2 * self.n * n / (self.n + n)
        self.mean += step * n / (self.n + n)
        self.n += n

    @property
    def variance(self) -> float:
        return self.squares / self.n


def _laplacian(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    around = levels[:-2, 1:-1] + levels[2:, 1:-1] + levels[1:-1, :-2] + levels[1:-1, 2:]
    inside: NDArray[np.float64] = 4.0 * levels[1:-1, 1:-1] - around
    return inside


def _of_pixels(grey: Pixels) -> tuple[float, float, float | None]:
    """Compute mean, deviation and variance of the Laplacian of grey levels, shape (H, W).

    >>> _of_pixels(np.array([[0, 0, 0], [0, 9, 0], [0, 0, 0]], np.uint8))
    (1.0, 2.8284271247461903, 0.0)
    """
    if grey.size > BAND:
        return _of_bands(grey)
    levels = grey.astype(np.float64)
    sharpness = None
    if min(levels.shape) >= 3:
        sharpness = float(_laplacian(levels).var())
    return float(levels.mean()), float(levels.std()), sharpness
