"""Which groups does the change of a score hit?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

from scotoma.comparison.means import MeanChange, ScoreTable
from scotoma.inputs import booleans
from scotoma.uncertainty import holm

__all__ = ["GroupScoreEffect", "affected", "group_effects"]

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class GroupScoreEffect:
    """What compression does to the score of one group.

    Attributes:
        group: Its key.
        rows: Rows of the group.
        score: The mean before and after, and its change with a paired interval.
        p_adjusted: Two-sided p-value of "nothing changed", adjusted by Holm over all groups.
    """

    group: str
    rows: int
    score: MeanChange
    p_adjusted: float


def group_effects(
    table: ScoreTable, masks: npt.ArrayLike, names: Sequence[str], *, level: float = 0.95
) -> list[GroupScoreEffect]:
    """Compare the means of every group.

    Args:
        table: From `score_table`.
        masks: Which rows belong to each group, bool, shape (G, n); groups may overlap.
        names: G keys.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        A row a group, in their order.

    Raises:
        DataError: Masks that are not one row a name.

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> row = np.arange(400)
    >>> table = score_table(np.ones(400), np.where(row < 200, 1, row % 4 > 0))
    >>> effects = group_effects(table, [row < 200, row >= 200], ["a", "b"])
    >>> [(one.group, round(one.score.change.value, 2)) for one in affected(effects)]
    [('b', -0.25)]
    """
    inside = booleans(masks, "groups", (len(names), len(table.before)))
    scores = [table.change(mask, level=level) for mask in inside]
    adjusted = holm([score.p for score in scores]).tolist() if scores else []
    return [
        GroupScoreEffect(name, int(mask.sum()), score, float(p))
        for name, mask, score, p in zip(names, inside, scores, adjusted, strict=True)
    ]


def affected(
    effects: Sequence[GroupScoreEffect],
    *,
    higher_is_better: bool = True,
    alpha: float = SIGNIFICANT,
) -> list[GroupScoreEffect]:
    """The groups that surely lose, those with the largest certain loss first.

    Args:
        effects: From `group_effects`.
        higher_is_better: Of the score: a loss is a fall, else a rise.
        alpha: Level of the adjusted p-values.
    """
    sign = -1.0 if higher_is_better else 1.0

    def least_loss(effect: GroupScoreEffect) -> float:
        change = effect.score.change
        return -change.high if higher_is_better else change.low

    hit = [one for one in effects if one.p_adjusted <= alpha and sign * one.score.change.value > 0]
    return sorted(hit, key=least_loss, reverse=True)
