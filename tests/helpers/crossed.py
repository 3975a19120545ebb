"""The crossed variance of tables of influences, by the arithmetic of Number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.numbers import COMPRESSED, DENSE, Units, Variance

Floats = npt.NDArray[np.float64]


def crossed_variance(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike | None = None,
    *,
    paired: bool = False,
    times: npt.ArrayLike | None = None,
    unit: float | None = 1.0,
) -> Variance:
    """Variance of mean(compressed) - mean(dense), or of a single mean, over examples and members.

    Args:
        dense: Influences of examples on the members of one population, shape (n, K).
        compressed: The same of the other population, shape (n, K').
        paired: Member m of `compressed` derives from member m of `dense`.
        times: How many examples each row stands for, shape (n,).
        unit: Influence of an example that flips in every member; None for no floor.
    """
    before = np.asarray(dense, float)
    units = Units(len(before), None, None if times is None else np.asarray(times, float))
    number = units.mean(before, flip=None)
    if compressed is None:
        return number.variance
    after = np.asarray(compressed, float)
    other = Units(len(after), None, units.times)
    change = other.mean(after, axis=DENSE if paired else COMPRESSED, flip=None) - number
    return (change if unit is None else change.floored(unit)).variance


def ratio_influence(events: npt.ArrayLike, at_risk: npt.ArrayLike) -> Floats:
    """Influence of each cluster on a rate sum(events) / (K sum(at_risk)), shape (n, K).

    Cochran (1977), Sampling Techniques, 3rd edition, section 6.3: (e_xm - p r_x) / mean(r).
    """
    e, r = np.asarray(events, float), np.asarray(at_risk, float)
    rate = e.sum() / (r.sum() * e.shape[1])
    return np.asarray((e - rate * r[:, None]) / r.mean())
