"""How fair is every single model, by Clarify's metrics of predictions?"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.arguments import Case, merged, missing, read_case
from scotoma.bias.clarify.cells import measure
from scotoma.bias.clarify.table import METRICS
from scotoma.inputs import Floats

__all__ = ["member_metrics", "rows_per_cluster"]

OF_MODELS = tuple(name for name, row in METRICS.items() if row.stage == "post-training")


def member_metrics(
    *,
    d: npt.ArrayLike,
    p: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    only: Iterable[str] = OF_MODELS,
) -> dict[str, tuple[Floats, Floats]]:
    """Measure each metric on every member, with its standard error over examples.

    Args:
        d: Whether each example belongs to the disadvantaged facet, booleans of shape (N,).
        p: Positive predictions, shape (N,), or (N, K), one column per member.
        y: Positive labels, shape (N,).
        strata: The stratum of each example, shape (N,); for CDDPL.
        features: Numbers by which examples are alike, shape (N, F), on one scale; for FT.
        clusters: Id of each example's cluster, shape (N,). Its examples are taken for one that
            stands for all of them, so that standard errors are too large rather than too small.
        only: The metrics wanted, of those of predictions.

    Returns:
        Metric name to values and standard errors, of DI those of log DI, shape (K,) each; nan where
        undefined. Proportions count one example more on each side (Agresti and Caffo 2000), so that
        a facet without errors is not known for certain. A metric whose arguments are missing is
        left out.

    Raises:
        DataError: As for `metric`.

    >>> women, men = [True] * 50, [False] * 50
    >>> hired = [[True, True]] * 10 + [[False, True]] * 40 + [[True, False]] * 20
    >>> values, se = member_metrics(d=women + men, p=hired + [[False, False]] * 30)["DPPL"]
    >>> values.round(2).tolist(), se.round(3).tolist()
    ([0.2, -1.0], [0.089, 0.027])
    """
    whole = read_case(d=d, y=y, p=p, strata=strata, features=features, clusters=clusters)
    brief, inflation = merged(whole)[0], rows_per_cluster(whole.clusters)
    return {
        name: _flips(whole, inflation) if name == "FT" else _measured(name, brief, inflation)
        for name in only
        if not missing(name, whole)
    }


def rows_per_cluster(clusters: npt.NDArray[np.intp] | None) -> float:
    """Compute the rows of the cluster of a row, on average: by it variances grow at most.

    >>> import numpy as np
    >>> rows_per_cluster(np.array([0, 0, 0, 1])), rows_per_cluster(None)
    (2.5, 1.0)
    """
    if clusters is None or not clusters.size:
        return 1.0
    sizes = np.bincount(clusters).astype(float)
    return float((sizes**2).sum() / sizes.sum())


def _measured(name: str, case: Case, inflation: float) -> tuple[Floats, Floats]:
    # With one success and one failure more in every facet: in its largest stratum, so that the
    # weights of strata hardly move.
    cells = case.cells
    values = measure(name, cells).values
    largest = int(cells.sum(axis=(0, 2, 3, 4)).argmax())
    more = cells.copy()
    more[:, largest] += 0.5
    moved = measure(name, more)
    influence = np.broadcast_to(moved.influence, cells.shape)
    n = more.sum(axis=(1, 2, 3, 4))
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(more > 0, more * influence**2, 0.0)
        variance = squares.sum(axis=(1, 2, 3, 4)) * inflation / n**2
        scale = values if name == "DI" else 1.0
        se = np.sqrt(variance) / scale
    return values, np.where(np.isfinite(values) & np.isfinite(se), se, np.nan)


def _flips(case: Case, inflation: float) -> tuple[Floats, Floats]:
    """The fliptest, whose influences are those of examples and not of cells."""
    if not case.both_facets:
        nothing = np.full(case.members, np.nan)
        return nothing, nothing
    flips = case.flips
    return flips.values, np.sqrt(flips.influences.var(axis=0) * inflation / case.n)
