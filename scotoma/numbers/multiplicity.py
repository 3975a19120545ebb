"""Adjust p-values for the number of questions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.inputs import Floats, floats

Correction = Literal["bh", "by", "holm", "bonferroni", "none"]


def holm(p: npt.ArrayLike) -> Floats:
    """P-values adjusted so that the chance of any false alarm in the family stays bounded.

    Args:
        p: P-values of one family, shape (M,), fractions; nan means "not tested" and does not count
            towards the size of the family.

    Returns:
        Adjusted p-values in the order of `p`, fractions in [0, 1], nan where p is nan.

    Raises:
        DataError: A p-value lies outside [0, 1].

    References:
        Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    >>> holm([0.01, 0.04, 0.03, float("nan")])
    array([0.03, 0.06, 0.06,  nan])
    """
    return adjust(p, "holm")


def benjamini_hochberg(p: npt.ArrayLike, *, dependence: bool = False) -> Floats:
    """P-values adjusted so that the expected share of false alarms among alarms stays bounded.

    Args:
        p: P-values of one family, shape (M,), fractions; nan means "not tested" and does not count
            towards the size of the family.
        dependence: True for Benjamini-Yekutieli, valid under any dependence.

    Returns:
        Adjusted p-values in the order of `p`, fractions in [0, 1], nan where p is nan.

    Raises:
        DataError: A p-value lies outside [0, 1].

    References:
        Benjamini and Hochberg (1995), JRSS B 57:289-300; Benjamini and Yekutieli (2001), Annals of
        Statistics 29:1165-1188.

    >>> benjamini_hochberg([0.01, 0.04, 0.03, float("nan")])
    array([0.03, 0.04, 0.04,  nan])
    """
    # scipy.stats has this, and takes half a second of processor time to import.
    return adjust(p, "by" if dependence else "bh")


def adjust(p: npt.ArrayLike, correct: Correction, tested: int | None = None) -> Floats:
    """Adjust the p-values of a family, or the smallest of them.

    Args:
        p: As for `holm`, or the smallest of the family in any order: every one up to some bound.
        correct: `holm`, `bh` Benjamini-Hochberg, `by` Benjamini-Yekutieli, `bonferroni`, `none`.
        tested: Size of the whole family, at least M; None where `p` is the whole family.

    Returns:
        Adjusted p-values in the order of `p`, exact up to the bound; beyond it they may be too
        large, never too small.

    >>> adjust([0.01, 0.001], "bh", 10), adjust([0.01, 0.001], "holm", 10)
    (array([0.05, 0.01]), array([0.09, 0.01]))
    """
    return np.minimum(_adjusted(p, correct, tested)[1], 1.0)


def multipliers(p: npt.ArrayLike, correct: Correction) -> Floats:
    """Compute what each p-value is multiplied with when it is adjusted, before it is cut at 1.

    An interval at level 1 - alpha/multiplier then lies beyond a margin where the adjusted p-value
    is at most alpha/2, and only there.

    Args:
        p: As for `holm`.
        correct: As for `adjust`.

    Returns:
        Numbers of at least 1, shape (M,), nan where p is nan.

    >>> multipliers([0.01, 0.04, 0.03, float("nan")], "holm").tolist()
    [3.0, 1.5, 2.0, nan]
    """
    values, steps, own = _adjusted(p, correct)
    # The p-values before or behind a p-value can decide for it; of p = 0 only its own rank can.
    return np.where(values > 0, steps / np.where(values > 0, values, 1.0), own)


def _adjusted(
    p: npt.ArrayLike, correct: Correction, family: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """P-values, the same adjusted and not cut at 1, and what the own rank of each multiplies by."""
    values = np.atleast_1d(floats(p, "p-values"))
    places = np.flatnonzero(~np.isnan(values))
    order = places[np.argsort(values[places], kind="stable")]
    ranked, ranks = values[order], np.arange(1, order.size + 1)
    if not ((ranked >= 0) & (ranked <= 1)).all():
        outside = values[(values < 0) | (values > 1)][0]
        raise DataError(
            f"p-values must be fractions in [0, 1], got {outside:g}: pass nan for what was not "
            "tested"
        )
    size = order.size if family is None else family
    if correct in ("bh", "by"):
        factors = (size / ranks) * ((1 / np.arange(1, size + 1)).sum() if correct == "by" else 1)
        steps = np.minimum.accumulate((ranked * factors)[::-1])[::-1]
    else:
        factors = np.full(order.size, 1.0 if correct == "none" else size)
        factors -= (ranks - 1) * (correct == "holm")
        steps = np.maximum.accumulate(ranked * factors)
    adjusted, own = np.full((2, *values.shape), np.nan)
    adjusted[order], own[order] = steps, factors
    return values, adjusted, own
