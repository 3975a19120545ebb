"""How much does the mean of a score change, on the same examples?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    Estimate,
    Number,
    Units,
    Variance,
    check_level,
    cluster_sums,
    holm,
    n_effective,
    of_variance,
    satterthwaite,
    undefined,
)
from scotoma.numbers.inputs import Codes, Flags, Floats, booleans, cluster_ids, floats


@dataclass(frozen=True)
class MeanChange:
    """The mean of one score before and after.

    Attributes:
        n: Examples; clusters where rows belong together.
        before: Mean of the dense models.
        after: Mean of the compressed models.
        change: after - before; its interval is that of a paired comparison.
        recovery: after / before, its interval on the log scale.
        variance: Of the change, with its parts.
        log_variance: Of the logarithm of the recovery; None where that is not defined.
    """

    n: int
    before: Estimate
    after: Estimate
    change: Estimate
    recovery: Estimate
    variance: Variance | None = None
    log_variance: Variance | None = None

    def worsening(self, *, lower_is_better: bool) -> Estimate:
        """How much worse the mean gets, relative to the better one; its interval on the log scale.

        after / before - 1 where lower is better, before / after - 1 where higher is.

        >>> change = mean_change([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
        >>> change.worsening(lower_is_better=True).value
        0.5
        """
        ratio = self.recovery
        if self.log_variance is None:
            return ratio
        value = ratio.value if lower_is_better else 1 / ratio.value
        return of_variance(
            value - 1, self.log_variance, n=self.n, members=ratio.members,
            events=self.change.events, level=ratio.level, scale="log",
        )  # fmt: skip

    @property
    def p(self) -> float:
        """Two-sided p-value of "nothing changed"; nan without an interval."""
        return self.change.p_differs()


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of two populations on the same rows.

    Attributes:
        before: Scores of the dense models, shape (n, K).
        after: Scores of the compressed models, shape (n, K').
        clusters: Number of each row's cluster, shape (n,), or None.
        binary: All scores are 0 or 1.
        paired: Member m of both derives from the same training run.
    """

    before: Floats
    after: Floats
    clusters: Codes | None
    binary: bool
    paired: bool = False

    def change(self, inside: Flags | None = None, *, level: float = 0.95) -> MeanChange:
        """The change among some rows; see `mean_change`."""
        if inside is None or inside.all():
            return _change(self, level)
        own = None if self.clusters is None else self.clusters[inside]
        before, after = self.before[inside], self.after[inside]
        codes = cluster_ids(own, len(before))
        return _change(replace(self, before=before, after=after, clusters=codes), level)


def score_table(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    paired: bool = False,
) -> ScoreTable:
    """Check the scores of two populations.

    Args:
        before: Finite scores, shape (n,) or (n, K).
        after: Scores of the same rows in the same order, shape (n,) or (n, K').
        clusters: Id of each row's cluster, shape (n,); None where every row is its own.
        paired: Member m of both derives from the same training run.

    Raises:
        DataError: Tables of different length, without a row, or with a score that is not finite;
            or paired populations of different size.

    >>> score_table([0, 1], [1.0, 1.0]).binary
    True
    """
    d, c = (_table(values, name) for values, name in ((before, "before"), (after, "after")))
    if len(d) != len(c):
        raise DataError(
            f"before and after must score the same examples, got {len(d):,} and {len(c):,} rows; "
            "pair them by id"
        )
    if not len(d):
        raise DataError("before and after must score at least one example, got none")
    if paired and d.shape[1] != c.shape[1]:
        raise DataError(
            f"paired populations must have as many compressed as dense members, got {c.shape[1]} "
            f"and {d.shape[1]}: drop the members without a partner, or leave paired out"
        )
    binary = bool(np.isin(d, (0.0, 1.0)).all() and np.isin(c, (0.0, 1.0)).all())
    return ScoreTable(d, c, cluster_ids(clusters, len(d)), binary, paired)


def mean_change(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> MeanChange:
    """Compare the means of two populations' scores on the same rows.

    Both are scored on the same examples, so that what makes an example hard for both cancels. Where
    all scores are 0 or 1, the interval of the change holds the floor of flips that were not seen,
    and single means lie on the logit scale.

    Args:
        before: Finite scores, shape (n,) or (n, K), a column a model.
        after: Scores of the same rows in the same order, shape (n,) or (n, K').
        clusters: Id of each row's cluster, shape (n,), such as the example of each rerun; None
            where every row is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Means, their difference and ratio; numbers that have no interval say why.

    Raises:
        DataError: As `score_table`, or a level that is no fraction.

    >>> row = np.arange(400)
    >>> found = mean_change(row % 10 > 0, row % 5 > 0)
    >>> round(found.change.value, 3), round(found.change.low, 3), round(found.change.high, 3)
    (-0.1, -0.131, -0.069)
    >>> round(found.recovery.value, 4), found.n
    (0.8889, 400)
    """
    return score_table(before, after, clusters).change(level=level)


def _table(values: npt.ArrayLike, name: str) -> Floats:
    table = floats(values, name)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.shape[1]:
        raise DataError(
            f"{name} must hold a score an example, or a column a model, got shape {table.shape}"
        )
    if not (finite := np.isfinite(table).all(axis=1)).all():
        raise DataError(
            f"{name} must be finite scores, got {int((~finite).sum()):,} rows without one, the "
            f"first is row {int(finite.argmin())}; leave them out of both"
        )
    return table


def _change(table: ScoreTable, level: float) -> MeanChange:
    check_level(level)
    members = min(table.before.shape[1], table.after.shape[1])
    if not len(table.before):
        nothing = undefined("undefined (no examples)", n=0, members=members, level=level)
        return MeanChange(0, nothing, nothing, nothing, nothing)
    units = Units.of(len(table.before), table.clusters)
    flip, axis = 1.0 if table.binary else None, DENSE if table.paired else COMPRESSED
    before = units.mean(table.before, flip=flip)
    after = units.mean(table.after, flip=flip, axis=axis)
    moved = cluster_sums(table.after.mean(axis=1) - table.before.mean(axis=1), table.clusters)
    change = after.since(before)
    recovery, log_variance = _recovery(before, after, members, level)
    return MeanChange(
        change.n,
        _mean(before, members, level),
        _mean(after, members, level),
        of_variance(
            change.value, change.variance, n=change.n, members=members,
            events=n_effective(np.abs(moved)), level=level,
        ).within(1.0 if table.binary else math.inf),
        recovery,
        change.variance,
        log_variance,
    )  # fmt: skip


def _mean(mean: Number, members: int, level: float) -> Estimate:
    n, value, variance = mean.n, mean.value, mean.variance
    if mean.flip is None:
        return of_variance(value, variance, n=n, members=members, level=level)
    if not 0 < value < 1:
        reason = f"interval not estimable (all {n:,} scores are {value:g})"
        return undefined(reason, value=value, n=n, members=members, level=level)
    variance = variance.scaled(1 / (value * (1 - value)))
    return of_variance(value, variance, n=n, members=members, level=level, scale="logit")


def _recovery(
    before: Number, after: Number, members: int, level: float
) -> tuple[Estimate, Variance | None]:
    n = before.n
    if not min(before.value, after.value) > 0:
        reason = f"recovery not defined (the means are {before.value:g} and {after.value:g})"
        return undefined(reason, n=n, members=members, level=level), None
    variance, ratio = after.log().since(before.log()).variance, after.value / before.value
    return of_variance(ratio, variance, n=n, members=members, level=level, scale="ratio"), variance


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
    table: ScoreTable, masks: Mapping[str, npt.ArrayLike], *, level: float = 0.95
) -> tuple[GroupScoreEffect, ...]:
    """Compare the means of every group.

    Args:
        table: From `score_table`.
        masks: Key of each group to its rows, bool, shape (n,); groups may overlap.
        level: Coverage of the intervals, a fraction in (0, 1).

    Each group is held against all other rows, too. Rows of one cluster may lie in both, which makes
    the difference look less certain than it is.

    Returns:
        A row a group, in their order.

    Raises:
        DataError: Masks of other rows than the table.

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> row = np.arange(400)
    >>> table = score_table(np.ones(400), np.where(row < 200, 1, row % 4 > 0))
    >>> effects = group_effects(table, {"a": row < 200, "b": row >= 200})
    >>> [(one.group, round(one.score.change.value, 2)) for one in affected(effects)]
    [('b', -0.25)]
    """
    inside = [booleans(mask, "groups", (len(table.before),)) for mask in masks.values()]
    scores = [table.change(mask, level=level) for mask in inside]
    beyond = [
        _beyond_rest(table, mask, score, level) for mask, score in zip(inside, scores, strict=True)
    ]
    own, of_rest = (
        holm(p).tolist() if scores else []
        for p in ([score.p for score in scores], [one.p_differs() for one in beyond])
    )
    return tuple(
        GroupScoreEffect(name, int(mask.sum()), score, float(p), difference, float(p_rest))
        for name, mask, score, p, difference, p_rest in zip(
            masks, inside, scores, own, beyond, of_rest, strict=True
        )
    )


def _beyond_rest(table: ScoreTable, mask: Flags, own: MeanChange, level: float) -> Estimate:
    """The change of a group less that of all other rows, as Welch has it: they share no example."""
    members = own.change.members
    if not mask.any() or mask.all():
        reason = "undefined (no other examples)"
        return undefined(reason, n=own.n, members=members, level=level)
    rest = table.change(~mask, level=level)
    assert own.variance is not None
    assert rest.variance is not None
    total, df = satterthwaite((one.total, one.df) for one in (own.variance, rest.variance))
    return of_variance(
        own.change.value - rest.change.value, Variance(total, total, 0.0, 0.0, df),
        n=min(own.n, rest.n), members=members, level=level,
    )  # fmt: skip


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
    ...     effects = group_effects(table, {"odd": odd, "even": ~odd})
    ...     return all_lose_alike(table.change().change, effects, lower_is_better=False)
    >>> alike(row % 20 >= 4), alike((row % 20 >= 4) | ~odd)
    (True, False)
    """
    p = [one.p_beyond_rest for one in effects if not math.isnan(one.p_beyond_rest)]
    worse = surely_worse(change, lower_is_better=lower_is_better)
    return worse and bool(p) and min(p) > SIGNIFICANT


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
