"""Adjust p-values for the number of questions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.inputs import floats

Correction = Literal["holm", "bh", "none"]


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
    return np.minimum(_adjusted(p, "holm")[1], 1.0)


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
    return np.minimum(_adjusted(p, "bh", dependence=dependence)[1], 1.0)


def multipliers(p: npt.ArrayLike, correct: Correction) -> npt.NDArray[np.float64]:
    """Compute what each p-value is multiplied with when it is adjusted, before it is cut at 1.

    An interval at level 1 - alpha/multiplier then lies beyond a margin where the adjusted p-value
    is at most alpha/2, and only there.

    Args:
        p: As for `holm`.
        correct: `holm`, `bh` (Benjamini-Hochberg) or `none`.

    Returns:
        Numbers of at least 1, shape (M,), nan where p is nan.

    >>> multipliers([0.01, 0.04, 0.03, float("nan")], "holm").tolist()
    [3.0, 1.5, 2.0, nan]
    """
    values, steps, own = _adjusted(p, correct)
    # The p-values before or behind a p-value can decide for it; of p = 0 only its own rank can.
    return np.where(values > 0, steps / np.where(values > 0, values, 1.0), own)


def _adjusted(
    p: npt.ArrayLike, correct: Correction, *, dependence: bool = False
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """P-values, the same adjusted and not cut at 1, and what the own rank of each multiplies by."""
    values, tested = _tested(p)
    places = np.flatnonzero(tested)
    order = places[np.argsort(values[places], kind="stable")]
    size, ranked = order.size, values[order]
    if correct == "holm":
        factors = np.arange(size, 0, -1.0)
        steps = np.maximum.accumulate(ranked * factors)
    elif correct == "bh":
        ranks = np.arange(1, size + 1)
        factors = (size / ranks) * ((1 / ranks).sum() if dependence else 1)
        steps = np.minimum.accumulate((ranked * factors)[::-1])[::-1]
    else:
        factors, steps = np.ones(size), ranked
    adjusted, own = np.full((2, *values.shape), np.nan)
    adjusted[order], own[order] = steps, factors
    return values, adjusted, own


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
