"""P-values corrected for a family of which only the small ones were kept."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Correction = Literal["bh", "by", "holm", "bonferroni", "none"]


def adjust(p: npt.ArrayLike, tested: int, correction: Correction) -> npt.NDArray[np.float64]:
    """Adjust the smallest p-values of a family.

    Args:
        p: The smallest p-values of the family in any order, shape (M,): every one up to some bound.
        tested: Size of the whole family, at least M.
        correction: `bh` Benjamini-Hochberg, `by` Benjamini-Yekutieli, `holm`, `bonferroni`, `none`.

    Returns:
        Adjusted p-values in the order given, exact up to the bound; beyond it they may be too
        large, never too small.

    References:
        Benjamini and Hochberg (1995), JRSS B 57:289-300; Benjamini and Yekutieli (2001), Annals of
        Statistics 29:1165-1188; Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    >>> adjust([0.01, 0.001], 10, "bh"), adjust([0.01, 0.001], 10, "holm")
    (array([0.05, 0.01]), array([0.09, 0.01]))
    """
    values = np.asarray(p, np.float64)
    if correction == "none":
        return values
    order = np.argsort(values, kind="stable")
    ranks = np.arange(1, values.size + 1)
    adjusted = np.empty_like(values)
    if correction in ("bh", "by"):
        factor = tested * (np.sum(1.0 / np.arange(1, tested + 1)) if correction == "by" else 1.0)
        steps = values[order] * factor / ranks
        adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    elif correction == "holm":
        adjusted[order] = np.maximum.accumulate(values[order] * (tested - ranks + 1))
    else:
        adjusted = values * tested
    return np.minimum(adjusted, 1.0)
