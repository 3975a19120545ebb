"""Detections as arrays of NumPy: what torchvision's detectors return, concatenated over images.

Called in the process that reads files from outside.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.detection.coco import DETECTIONS
from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = ["detection_table"]

ARRAYS = {"image_id": 1, "labels": 1, "scores": 1, "boxes": 2}  # name to number of axes


def detection_table(path: Path, called: str) -> pl.DataFrame:
    """Read detections: `image_id`, `labels` and `scores` of shape (D,), `boxes` of shape (D, 4).

    Boxes are [left, top, right, bottom] in pixels, as torchvision has them; nothing is unpickled.

    Args:
        path: A file of `numpy.savez`.
        called: What messages call it.

    Raises:
        DataError: It is no such file, or an array is absent or has another shape.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "d.npz"), image_id=[1], labels=[3], scores=[0.5],
    ...              boxes=[[2.0, 2, 6, 5]])
    ...     detection_table(Path(folder, "d.npz"), "d.npz").row(0)
    ('1', '3', 2.0, 2.0, 4.0, 3.0, 0.5)
    """
    name = printable(called)
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {key: file[key] for key in ARRAYS if key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(
            f"{name} cannot be read as .npz; save the arrays with numpy.savez"
        ) from error
    rows = len(held["scores"]) if "scores" in held and held["scores"].ndim else -1
    for key, axes in ARRAYS.items():
        shape = held[key].shape if key in held else None
        wanted = (rows,) if axes == 1 else (rows, 4)
        if shape != wanted or held[key].dtype.kind not in ("iufU" if key == "image_id" else "iuf"):
            got = "none" if shape is None else f"{held[key].dtype} of shape {shape}"
            raise DataError(
                f"{name} must hold the arrays image_id, labels and scores of shape (D,) and boxes "
                f"of shape (D, 4), got {key}: {got}; concatenate the tensors of all images"
            )
    left, top, right, bottom = held["boxes"].astype(np.float64).T
    ids = (pl.Series(_whole(held[key])).cast(pl.String) for key in ("image_id", "labels"))
    columns = (*ids, left, top, right - left, bottom - top, held["scores"].astype(np.float64))
    return pl.DataFrame(dict(zip(DETECTIONS, columns, strict=True)), schema=DETECTIONS)


def _whole(ids: np.ndarray) -> np.ndarray:
    return ids.astype(np.int64) if ids.dtype.kind == "f" else ids
