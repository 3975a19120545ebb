"""How far the labels of two facets lie apart: KL, JS, LP, TVD, KS.

They are never negative, so where the facets are alike their estimates err in one direction only,
and no interval around them can hold 0. What can be had is an upper bound; DPL, or the difference
of any one label's shares, has the signed interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

DISTANCES = ("KL", "JS", "LP", "TVD", "KS")
DRAWS = 2000  # the 95% point of as many draws lies between the true 94% and 96% points
FEWEST_DRAWS = 200  # and of as many between the true 92% and 98% points
_CELLS = 400_000  # counts drawn for one bound: from 100 labels on there are fewer draws
_CHUNK = 2_000_000  # weights held at once, 16 MB
_TABLE = 10_000_000  # counts of clusters by cells held at once, 80 MB


def distance(name: str, counts: npt.ArrayLike, *, slips: bool = False) -> Array:
    """Distance between the label distributions of two facets.

    Args:
        name: KL, JS (both in nats), LP, TVD or KS.
        counts: Examples of each facet with each label, shape (..., 2, C), the advantaged facet
            first, over all labels that occur in either.
        slips: Reproduce the reference implementation, which drops labels absent from one facet, so
            that KL can be negative.

    Returns:
        Shape (...). nan where a facet is empty; KL is infinite where only the advantaged facet has
        a label.

    >>> alike, apart = [[30, 10], [6, 2]], [[13984, 6396], [8670, 1112]]
    >>> distance("KL", [alike, apart]).round(4)
    array([0.    , 0.1431])
    """
    of = np.asarray(counts, np.float64)
    total = of.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = of / total
    if slips:
        shares = np.where((of > 0).all(axis=-2, keepdims=True), shares, 0.0)
    a, d = shares[..., 0, :], shares[..., 1, :]
    if name == "KL":
        value = _divergence(a, d)
    elif name == "JS":
        middle = (a + d) / 2
        value = (_divergence(a, middle) + _divergence(d, middle)) / 2
    elif name == "LP":
        value = np.sqrt(((a - d) ** 2).sum(axis=-1))
    elif name == "TVD":
        value = np.abs(a - d).sum(axis=-1) / 2
    else:
        value = np.abs(a - d).max(axis=-1, initial=0.0)
    return np.where((total == 0).any(axis=(-1, -2)), np.nan, value)


def upper_bounds(
    names: Sequence[str],
    counts: Array,
    *,
    clusters: npt.NDArray[np.intp] | None = None,
    cells: npt.NDArray[np.intp] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """One-sided bootstrap bounds of distances: the truth lies below one with probability `level`.

    Each example is drawn Poisson(1) times, 2,000 times over; of more than 100 labels fewer times,
    200 from 1,000 on. The examples of one cell are then drawn Poisson(count)
    times together, so that nothing but the counts is needed, unless examples are clustered.

    Args:
        names: As for `distance`; all are bounded by the same draws.
        counts: Shape (2, C), as for `distance`.
        clusters: Number of each example's cluster from 0, shape (N,); None for single examples.
        cells: Flat index into `counts` of each example, shape (N,); with clusters only.
        level: Confidence, a fraction in (0, 1).
        seed: Same seed, same bound.

    Returns:
        At least each distance itself; infinite where KL is in more draws than 1 - level.

    References:
        Chamandy et al. 2012, "Estimating uncertainty for massive data streams", Poisson weights.

    >>> import numpy as np
    >>> round(upper_bounds(["TVD"], np.array([[600.0, 400.0], [130.0, 70.0]]))["TVD"], 3)
    0.112
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    draws = max(FEWEST_DRAWS, min(DRAWS, _CELLS // max(counts.size, 1)))
    if clusters is None or cells is None:
        drawn = rng.poisson(counts, size=(draws, *counts.shape)).astype(np.float64)
    else:
        whole = _draw_clusters(rng, clusters, cells, counts.size, draws)
        drawn = whole.reshape(draws, *counts.shape)
    drawn = drawn[(drawn.sum(axis=-1) > 0).all(axis=-1)]  # a facet may vanish from a draw
    if not len(drawn):
        return dict.fromkeys(names, math.nan)
    place = math.ceil(level * (len(drawn) - 1))  # never below the quantile
    return {
        name: max(
            float(distance(name, counts)),
            float(np.partition(distance(name, drawn), place)[place]),
        )
        for name in names
    }


def _divergence(p: Array, q: Array) -> Array:
    """KL(p, q) with 0 ln 0 = 0, infinite where q = 0 < p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    return np.asarray(terms.sum(axis=-1))


def _draw_clusters(
    rng: np.random.Generator,
    clusters: npt.NDArray[np.intp],
    cells: npt.NDArray[np.intp],
    size: int,
    draws: int,
) -> Array:
    """Cell counts of every draw when clusters are drawn whole, shape (draws, size).

    Clusters that hold the same are drawn together, which is the same and far cheaper, unless there
    are so many cells that hardly any two do.
    """
    n = int(clusters.max()) + 1
    if n * size > _TABLE:
        weights = (rng.poisson(1.0, size=n)[clusters] for _ in range(draws))
        return np.stack([np.bincount(cells, own, minlength=size) for own in weights])
    table = np.bincount(clusters * size + cells, minlength=n * size).reshape(n, size)
    kinds, times = np.unique(table, axis=0, return_counts=True)
    step = max(1, _CHUNK // len(kinds))
    parts = [
        rng.poisson(times, size=(min(step, draws - start), len(kinds))) @ kinds
        for start in range(0, draws, step)
    ]
    return np.concatenate(parts).astype(np.float64)
