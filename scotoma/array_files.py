"""Read arrays as NumPy saves them (`.npz`) as the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable

__all__ = ["open_arrays", "read_arrays"]

MOST_COLUMNS = 1000  # that one array may become
AGAIN = "save the arrays with numpy.savez, text and numbers only"


@contextmanager
def open_arrays(path: Path, name: str) -> Iterator[Any]:
    """Open a file of `numpy.savez`; nothing is unpickled.

    Args:
        path: The file.
        name: What messages call it, printable.

    Yields:
        Its arrays, as `numpy.load` has them.

    Raises:
        DataError: It cannot be read, then or in the block.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (DataError, MemoryError):
        raise
    except Exception as error:  # numpy and zipfile raise many kinds of a damaged file
        raise DataError(f"{name} cannot be read as .npz; {AGAIN}") from error


def read_arrays(path: Path, called: str) -> pl.DataFrame:
    """Read the arrays of a file, each a column; nothing is unpickled.

    Args:
        path: A file of `numpy.savez`: arrays of shape (N,), and of shape (N, K) for K models, which
            become the columns `NAME_0` to `NAME_{K-1}`.
        called: What messages call it.

    Raises:
        DataError: It is no such file, or an array has objects, another shape or another length.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.npz")
    ...     np.savez(path, y=[1, 0], int8=[[1, 1], [0, 1]])
    ...     read_arrays(path, "t.npz").columns
    ['y', 'int8_0', 'int8_1']
    """
    name = printable(called)
    columns: dict[str, pl.Series] = {}
    with open_arrays(path, name) as arrays:
        for key in arrays.files:
            array = arrays[key]
            if array.dtype.kind in "fc" and array.ndim == 2:
                raise DataError(
                    f"array {printable(key)!r} of {name} holds scores of shape {array.shape}; "
                    "save predicted classes instead, such as scores.argmax(axis=1)"
                )
            if array.dtype.kind not in "biufUM" or array.ndim not in (1, 2):
                raise DataError(
                    f"array {printable(key)!r} of {name} must hold text or numbers, one an "
                    f"example, got {array.dtype} of shape {array.shape}; {AGAIN}"
                )
            if array.ndim == 2 and array.shape[1] > MOST_COLUMNS:
                raise DataError(
                    f"array {printable(key)!r} of {name} must hold at most {MOST_COLUMNS:,} "
                    f"models, got shape {array.shape}; transpose it, or save fewer"
                )
            whole = {key: array} if array.ndim == 1 else {}
            many = {} if whole else {f"{key}_{k}": one for k, one in enumerate(array.T)}
            columns |= {column: pl.Series(column, one) for column, one in (whole | many).items()}
    if len(lengths := {len(column): column.name for column in columns.values()}) > 1:
        shown = " and ".join(f"{n:,} in {printable(one)!r}" for n, one in [*lengths.items()][:2])
        raise DataError(
            f"arrays of {name} must have one value per example, got {shown}; save arrays of one "
            "length"
        )
    return pl.DataFrame(columns)
