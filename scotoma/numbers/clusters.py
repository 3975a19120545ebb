"""Sums over clusters of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.inputs import Codes, Floats, cluster_ids, floats


def cluster_sums(values: npt.ArrayLike, clusters: npt.ArrayLike | None) -> Floats:
    """Sum the rows of each cluster.

    Args:
        values: Shape (N, K) or (N,).
        clusters: Id of each row's cluster, shape (N,); None leaves every row its own cluster.

    Returns:
        Shape (n, K) or (n,), one row per cluster that occurs, in order of id.

    Raises:
        DataError: There are not as many ids as rows, or a row has none.

    >>> cluster_sums([[1, 0], [1, 1], [0, 1]], [7, 3, 7])
    array([[1., 1.],
           [1., 1.]])
    """
    rows = floats(values, "values")
    if clusters is None:
        return rows
    if not rows.ndim:
        raise DataError(f"values must have one row per cluster id, got the number {rows:g}")
    codes = cluster_ids(clusters, len(rows))
    return rows if codes is None or not codes.size else _counted(rows, codes)


def _counted(rows: Floats, codes: Codes) -> Floats:
    """The sums, without sorting the rows."""
    columns = rows.reshape(len(rows), -1)
    k = columns.shape[1]
    flat = (codes[:, None] * k + np.arange(k)).ravel()
    sums = np.bincount(flat, columns.ravel()).reshape(-1, k)
    return np.asarray(sums.reshape(-1, *rows.shape[1:]), np.float64)
