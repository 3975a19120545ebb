"""Sums over clusters of rows, and rates as ratios of such sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Codes, Floats, cluster_ids, floats


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


def ratio_influence(events: npt.ArrayLike, at_risk: npt.ArrayLike) -> Floats:
    """Influence of each cluster on a rate whose denominator varies between clusters.

    The rate is sum(events) / (K sum(at_risk)); linearised, cluster x moves member m's rate by
    (e_xm - p r_x) / mean(r).

    Args:
        events: Events of each member among the rows of each cluster, shape (n, K).
        at_risk: Rows of each cluster that could have had the event, shape (n,), some above 0.

    Returns:
        Shape (n, K); the mean over clusters and members is 0.

    References:
        Cochran (1977), Sampling Techniques, 3rd edition, section 6.3, the ratio estimator.

    >>> ratio_influence([[1, 1], [0, 2]], [1, 3])
    array([[ 0.25,  0.25],
           [-0.75,  0.25]])
    """
    e, r = np.asarray(events, np.float64), np.asarray(at_risk, np.float64)
    rate = e.sum() / (r.sum() * e.shape[1])
    influence = np.asarray(e - rate * r[:, None])
    influence /= r.mean()
    return influence
