"""Which images choose the ranges of int8-static?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.datasets import AuditedExamples, decode_images
from scotoma.quantization.calibration import balanced_order
from scotoma.run import Run

__all__ = ["calibration_images"]

STREAM = 1_000_003  # of the seed: which training images calibrate int8-static


def calibration_images(run: Run, count: int, *, protocol: str = "sound") -> NDArray[np.uint8]:
    """Images that ranges are chosen by, shape (at most `count`, 3, H, W).

    `sound`: the first of the seeded shuffle of the rows to calibrate on, or of the training rows.
    `group-balanced`: of that shuffle as many of each label and values of all attributes.
    `published`: the first training rows as they stand.
    """
    examples = AuditedExamples.read(run.examples, images=False).pictured
    rows = examples.split("train")
    chosen = np.arange(min(count, len(rows.ids)))
    if protocol != "published":
        apart = examples.split("calibrate")
        rows = apart if apart.ids else rows
        seed = run.config.population.seed
        order = np.random.Generator(np.random.Philox(key=[seed, STREAM]))
        shuffled = order.permutation(len(rows.ids))
        if protocol == "group-balanced":
            shuffled = balanced_order(_cells(rows), shuffled)
        chosen = shuffled[:count]
    ids = rows.table["example_id"].gather(chosen).to_list()
    return decode_images(AuditedExamples.read(run.examples, only=ids))


def _cells(rows: AuditedExamples) -> NDArray[np.int64]:
    """A number for each row's label, where it has one, and values of all attributes, shape (N,)."""
    columns = rows.table.select(*([] if rows.several else ["label"]), *rows.attributes)
    numbers = columns.select(pl.struct(pl.all()).rank("dense")).to_series()
    return numbers.to_numpy().astype(np.int64)
