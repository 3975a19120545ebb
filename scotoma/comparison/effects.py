"""Which groups does the change of a score hit?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

from scotoma.comparison.means import MeanChange, ScoreTable
from scotoma.numbers import Estimate, Variance, holm, of_variance, satterthwaite, undefined
from scotoma.numbers.inputs import Flags, booleans

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class GroupScoreEffect:
    """What compression does to the score of one group.

    Attributes:
        group: Its key.
        rows: Rows of the group.
        score: The mean before and after, and its change with a paired interval.
        p_adjusted: Two-sided p-value of "nothing changed", adjusted by Holm over all groups.
        beyond_rest: Its change less that of all other rows; without interval where there are none.
        p_beyond_rest: Two-sided p-value of "it changes as the rest does", adjusted likewise.
    """

    group: str
    rows: int
    score: MeanChange
    p_adjusted: float
    beyond_rest: Estimate
    p_beyond_rest: float


def group_effects(
    table: ScoreTable, masks: npt.ArrayLike, names: Sequence[str], *, level: float = 0.95
) -> list[GroupScoreEffect]:
    """Compare the means of every group.

    Args:
        table: From `score_table`.
        masks: Which rows belong to each group, bool, shape (G, n); groups may overlap.
        names: G keys.
        level: Coverage of the intervals, a fraction in (0, 1).

    Each group is held against all other rows, too. Rows of one cluster may lie in both, which makes
    the difference look less certain than it is.

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
    beyond = [
        _beyond_rest(table, mask, score, level) for mask, score in zip(inside, scores, strict=True)
    ]
    own, of_rest = (
        holm(p).tolist() if scores else []
        for p in ([score.p for score in scores], list(map(_two_sided, beyond)))
    )
    return [
        GroupScoreEffect(name, int(mask.sum()), score, float(p), difference, float(p_rest))
        for name, mask, score, p, difference, p_rest in zip(
            names, inside, scores, own, beyond, of_rest, strict=True
        )
    ]


def _beyond_rest(table: ScoreTable, mask: Flags, own: MeanChange, level: float) -> Estimate:
    """The change of a group less that of all other rows."""
    if not mask.any() or mask.all():
        return undefined(
            "undefined (no other examples)", n=own.n, members=own.change.members, level=level
        )
    rest = table.change(~mask, level=level)
    if own.variance is None or rest.variance is None:
        return undefined(
            "undefined (nothing varies)", n=own.n, members=own.change.members, level=level
        )
    return _difference(own, rest)


def _two_sided(change: Estimate) -> float:
    return min(1.0, 2 * min(change.p_above(0.0), change.p_below(0.0)))


def surely_worse(change: Estimate, *, lower_is_better: bool) -> bool:
    """Whether the interval of a change lies on the worse side of 0."""
    return change.low > 0 if lower_is_better else change.high < 0


def all_lose_alike(
    change: Estimate,
    effects: Sequence[GroupScoreEffect],
    *,
    lower_is_better: bool,
) -> bool:
    """Whether the score of all gets worse, and no group's change differs from that of the rest.

    Args:
        change: Of the score of all.
        effects: From `group_effects`.
        lower_is_better: Of the score.

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> row = np.arange(2_000)
    >>> odd = row % 2 == 1
    >>> def alike(after):
    ...     table = score_table(np.ones(2_000), after)
    ...     effects = group_effects(table, [odd, ~odd], ["odd", "even"])
    ...     return all_lose_alike(table.change().change, effects, lower_is_better=False)
    >>> alike(row % 20 >= 4), alike((row % 20 >= 4) | ~odd)
    (True, False)
    """
    p = [one.p_beyond_rest for one in effects if not math.isnan(one.p_beyond_rest)]
    worse = surely_worse(change, lower_is_better=lower_is_better)
    return worse and bool(p) and min(p) > SIGNIFICANT


def _difference(one: MeanChange, other: MeanChange) -> Estimate:
    """The difference of the changes of two parts that share no example, as Welch has it."""
    assert one.variance is not None
    assert other.variance is not None
    total, df = satterthwaite((own.total, own.df) for own in (one.variance, other.variance))
    return of_variance(
        one.change.value - other.change.value,
        Variance(total, total, 0.0, 0.0, df),
        n=min(one.n, other.n), members=one.change.members, level=one.change.level,
    )  # fmt: skip


def affected(
    effects: Sequence[GroupScoreEffect],
    *,
    higher_is_better: bool = True,
) -> list[GroupScoreEffect]:
    """The groups that surely lose, and more than the rest, the largest certain loss first.

    Args:
        effects: From `group_effects`.
        higher_is_better: Of the score: a loss is a fall, else a rise.
    """
    sign = -1.0 if higher_is_better else 1.0

    def least_loss(effect: GroupScoreEffect) -> float:
        change = effect.score.change
        return -change.high if higher_is_better else change.low

    hit = [
        one
        for one in effects
        if one.p_adjusted <= SIGNIFICANT
        and sign * one.score.change.value > 0
        and one.p_beyond_rest <= SIGNIFICANT
        and sign * one.beyond_rest.value > 0
    ]
    return sorted(hit, key=least_loss, reverse=True)
