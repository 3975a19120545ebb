"""How much of an amplification is the luck of one pair of models, or of one draw of noise?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scotoma.robustness.amplification import Mask, amplified
from scotoma.robustness.right_answers import Answered, RightAnswers

__all__ = ["OnePair", "corruption_draw_variance", "one_pair"]


@dataclass(frozen=True)
class OnePair:
    """What an audit of one dense and one compressed model would have said.

    Attributes:
        misled: Share of the pairs that do not show the sign that all models together show.
        pairs: Pairs there are.
    """

    misled: float
    pairs: int


def one_pair(
    dense: Answered, compressed: Answered, at_risk: Mask, *, paired: bool = False
) -> OnePair | None:
    """Count the pairs of models that give another sign of the absolute amplification, or none.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        at_risk: Examples that count, bool, shape (n,).
        paired: Compressed member m derives from dense member m; only such pairs count.

    Returns:
        None of a single pair, without examples, or where the amplification is 0.

    >>> clean, worse = np.ones((2, 2)), np.array([[1, 0.5], [1, 0.5]])
    >>> one_pair(Answered(clean, worse), Answered(clean, worse - 0.25), np.ones(2, bool))
    OnePair(misled=0.25, pairs=4)
    """
    if not at_risk.any():
        return None
    d, c = (
        own.clean[at_risk].mean(axis=0) - own.corrupted[at_risk].mean(axis=0)
        for own in (dense, compressed)
    )
    each = (c - d if paired else c[:, None] - d[None, :]).ravel()
    sign = np.sign(amplified(dense, compressed, at_risk))
    if each.size < 2 or sign == 0:
        return None
    return OnePair(float(np.mean(sign * each <= 0)), each.size)


def corruption_draw_variance(
    dense: RightAnswers, compressed: RightAnswers, corruptions: Sequence[int], draws: int
) -> float:
    """Variance of the absolute amplification that comes from the draws of random corruptions.

    Every example has random numbers of its own, so that the variance over examples holds this part
    already: it says what more draws would save, and is not added.

    Args:
        dense: Right answers of the dense members; draws of a severity stand side by side.
        compressed: The same of the compressed members.
        corruptions: Places of the corruptions.
        draws: Draws of each severity.

    Returns:
        Variance of the mean over the draws; nan of a single one.

    >>> right = RightAnswers.of([[1]], [[[[1]], [[0]]]], [1])
    >>> still = RightAnswers.of([[1]], [[[[1]], [[1]]]], [1])
    >>> corruption_draw_variance(still, right, [0], 2)
    0.25
    """
    if draws < 2:
        return math.nan
    everyone = np.ones(len(dense.clean), np.bool_)
    of_each = []
    for draw in range(draws):
        places = range(draw, dense.corrupted.shape[1], draws)
        one, other = (right.under(corruptions, places) for right in (dense, compressed))
        of_each.append(amplified(one, other, everyone))
    return float(np.var(of_each, ddof=1)) / draws
