"""Adjust p-values for the number of questions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import floats


def holm(p: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """P-values adjusted so that the chance of any false alarm in the family stays bounded.

    Args:
        p: P-values of one family, shape (M,), fractions; nan means "not tested" and does not count
            towards the size of the family.

    Returns:
        Adjusted p-values in the order of `p_values`, fractions in [0, 1], nan where p is nan.

    Raises:
        DataError: A p-value lies outside [0, 1].

    References:
        Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    >>> holm([0.01, 0.04, 0.03, float("nan")])
    array([0.03, 0.06, 0.06,  nan])
    """
    values, tested = _tested(p)
    known = values[tested]
    order = np.argsort(known, kind="stable")
    steps = known[order] * np.arange(known.size, 0, -1)
    adjusted = np.empty_like(known)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return _spread(adjusted, tested)


def benjamini_hochberg(p: npt.ArrayLike, *, dependence: bool = False) -> npt.NDArray[np.float64]:
    """P-values adjusted so that the expected share of false alarms among alarms stays bounded.

    Args:
        p: P-values of one family, shape (M,), fractions; nan means "not tested" and does not count
            towards the size of the family.
        dependence: True for Benjamini-Yekutieli, valid under any dependence.

    Returns:
        Adjusted p-values in the order of `p_values`, fractions in [0, 1], nan where p is nan.

    Raises:
        DataError: A p-value lies outside [0, 1].

    References:
        Benjamini and Hochberg (1995), JRSS B 57:289-300; Benjamini and Yekutieli (2001), Annals of
        Statistics 29:1165-1188.

    >>> benjamini_hochberg([0.01, 0.04, 0.03, float("nan")])
    array([0.03, 0.04, 0.04,  nan])
    """
    # scipy.stats has this, and takes half a second of processor time to import.
    values, tested = _tested(p)
    kept = values[tested]
    order = np.argsort(kept)
    ranks = np.arange(1, kept.size + 1)
    steps = kept[order] * (kept.size / ranks) * ((1 / ranks).sum() if dependence else 1)
    adjusted = np.empty_like(kept)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1)
    return _spread(adjusted, tested)


def _tested(p: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    values = np.atleast_1d(floats(p, "p-values"))
    tested = ~np.isnan(values)
    outside = tested & ~((values >= 0) & (values <= 1))
    if outside.any():
        raise DataError(
            f"p-values must be fractions in [0, 1], got {values[outside][0]:g}: "
            "pass nan for what was not tested"
        )
    return values, tested


def _spread(
    adjusted: npt.NDArray[np.float64], tested: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    result = np.full(tested.shape, np.nan)
    result[tested] = adjusted
    return result
