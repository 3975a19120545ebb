"""Which groups does the change of a score hit?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from scotoma.comparison.means import MeanChange, ScoreTable
from scotoma.inputs import Flags, booleans
from scotoma.uncertainty import Estimate, Variance, holm, of_variance

__all__ = ["GroupScoreEffect", "affected", "all_lose_alike", "group_effects", "surely_worse"]

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


def surely_worse(change: Estimate, *, lower_is_better: bool) -> bool:
    """Whether the interval of a change lies on the worse side of 0."""
    return change.low > 0 if lower_is_better else change.high < 0


def all_lose_alike(
    table: ScoreTable, masks: Iterable[Flags], *, lower_is_better: bool, alpha: float = SIGNIFICANT
) -> bool:
    """Whether the score of all gets worse, and no group's change differs from that of the rest.

    Each group is held against all other rows, with Holm's correction over the groups. Rows of one
    cluster may lie in both, which makes the difference look less certain than it is.

    Args:
        table: From `score_table`.
        masks: The rows of each group, bool, shape (n,).
        lower_is_better: Of the score.
        alpha: Level of the adjusted p-values.

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> row = np.arange(2_000)
    >>> odd = row % 2 == 1
    >>> every_fifth = score_table(np.ones(2_000), row % 20 >= 4)
    >>> odd_alone = score_table(np.ones(2_000), (row % 20 >= 4) | ~odd)
    >>> all_lose_alike(every_fifth, [odd, ~odd], lower_is_better=False)
    True
    >>> all_lose_alike(odd_alone, [odd, ~odd], lower_is_better=False)
    False
    """
    inside = [mask for mask in masks if mask.any() and not mask.all()]
    if not inside or not surely_worse(table.change().change, lower_is_better=lower_is_better):
        return False
    differences = [_difference(table.change(mask), table.change(~mask)) for mask in inside]
    p = [min(1.0, 2 * min(one.p_above(0.0), one.p_below(0.0))) for one in differences]
    return bool((holm(p) > alpha).all())


def _difference(one: MeanChange, other: MeanChange) -> Estimate:
    """The difference of the changes of two parts that share no example, as Welch has it."""
    assert one.variance is not None
    assert other.variance is not None
    parts = [(variance.total, variance.df) for variance in (one.variance, other.variance)]
    total = sum(own for own, _ in parts)
    spread = sum(own**2 / df for own, df in parts)
    return of_variance(
        one.change.value - other.change.value,
        Variance(total, total, 0.0, 0.0, total**2 / spread if spread > 0 else float("inf")),
        n=min(one.n, other.n), members=one.change.members, level=one.change.level,
    )  # fmt: skip


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
