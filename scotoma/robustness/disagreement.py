"""On how many corrupted pictures do dense and compressed models differ? No labels are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.predictions import label_counts

__all__ = ["Disagreement", "disagreement"]


@dataclass(frozen=True, eq=False)
class Disagreement:
    """How two populations differ on each example under one condition.

    Attributes:
        cie: Whether their most frequent labels differ, bool, shape (n,).
        taxicab: Share of the votes that would have to change, in [0, 1], shape (n,).
        flips: Chance that a dense and a compressed member differ, in [0, 1], shape (n,).
    """

    cie: npt.NDArray[np.bool_]
    taxicab: Floats
    flips: Floats


def disagreement(
    dense: npt.ArrayLike, compressed: npt.ArrayLike, classes: int, *, paired: bool = False
) -> Disagreement:
    """Compare the labels that two populations give.

    Args:
        dense: Class ids of the dense members, shape (n, K).
        compressed: Class ids of the compressed members, shape (n, K').
        classes: Number of classes.
        paired: Compressed member m derives from dense member m; flips are then member by member.

    Returns:
        One value an example; modal ties go to the smallest class id, as published.

    References:
        Hooker et al. (2020), section 3, for CIEs and taxicab.

    >>> once = disagreement([[0, 0, 1]], [[1, 1, 1]], 2)
    >>> once.cie.tolist(), once.taxicab.round(2).tolist(), once.flips.round(2).tolist()
    ([True], [0.67], [0.67])
    """
    d, c = np.asarray(dense), np.asarray(compressed)
    shares = [label_counts(own, classes) / own.shape[1] for own in (d, c)]
    flips = (d != c).mean(1) if paired else 1 - (shares[0] * shares[1]).sum(1)
    return Disagreement(
        cie=shares[0].argmax(1) != shares[1].argmax(1),
        taxicab=np.abs(shares[0] - shares[1]).sum(1) / 2,
        flips=np.asarray(flips, np.float64),
    )
