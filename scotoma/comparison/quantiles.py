"""How much does a quantile of a score change, on the same examples?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from scotoma.comparison.means import ScoreTable
from scotoma.errors import DataError
from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    Estimate,
    Number,
    Units,
    check_level,
    of_variance,
    undefined,
)
from scotoma.numbers.inputs import Flags, Floats


@dataclass(frozen=True)
class QuantileChange:
    """One quantile of a score before and after.

    Attributes:
        share: Which quantile, a fraction: 0.5 for the median.
        before: Of the dense models, over all rows and models.
        after: Of the compressed models.
        change: after - before; its interval is that of a paired comparison.
    """

    share: float
    before: Estimate
    after: Estimate
    change: Estimate


@dataclass(frozen=True, eq=False)
class _Side:
    """A quantile of one population.

    Attributes:
        estimate: The quantile with its interval.
        below: The share of scores that are no larger than it.
        density: Of the scores at the quantile; nan where the interval has no width.
    """

    estimate: Estimate
    below: Number
    density: float


def quantile_change(
    table: ScoreTable,
    share: float,
    inside: Flags | None = None,
    *,
    level: float = 0.95,
) -> QuantileChange:
    """Compare a quantile of two populations' scores on the same rows.

    The quantile is the smallest score that at least this share of all scores is no larger than. Its
    interval holds the scores at which the share of scores up to them leaves the interval of that
    share (Woodruff). The change is linearised: the density is that which the interval's width
    implies.

    Args:
        table: From `score_table`.
        share: Which quantile, a fraction in (0, 1).
        inside: Which rows count, bool, shape (n,); None for all.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        The quantiles and their difference; numbers that have no interval say why.

    Raises:
        DataError: A share or level that is no fraction.

    References:
        Woodruff (1952), Journal of the American Statistical Association 47:635-646; Francisco and
        Fuller (1991), Annals of Statistics 19:454-469.

    >>> from scotoma.comparison.means import score_table
    >>> scores = np.arange(400) / 400
    >>> found = quantile_change(score_table(scores, scores + 0.1), 0.5)
    >>> found.before.value, round(found.before.low, 2), round(found.before.high, 2)
    (0.4975, 0.45, 0.55)
    >>> round(found.change.value, 3)
    0.1
    """
    check_level(level)
    if not 0 < share < 1:
        raise DataError(f"a quantile must be a fraction in (0, 1), got {share:g}: write 0.9")
    rows = np.ones(len(table.before), np.bool_) if inside is None else inside
    members = min(table.before.shape[1], table.after.shape[1])
    if not rows.any():
        nothing = undefined("undefined (no examples)", n=0, members=members, level=level)
        return QuantileChange(share, nothing, nothing, nothing)
    units = Units.of(int(rows.sum()), None if table.clusters is None else table.clusters[rows])
    before = _side(table.before[rows], units, share, level, DENSE)
    after = _side(table.after[rows], units, share, level, DENSE if table.paired else COMPRESSED)
    return QuantileChange(
        share, before.estimate, after.estimate, _change(before, after, members, level)
    )


def _change(before: _Side, after: _Side, members: int, level: float) -> Estimate:
    value, n = after.estimate.value - before.estimate.value, before.estimate.n
    if not (before.density > 0 and after.density > 0):
        reason = before.estimate.reason or after.estimate.reason
        reason = reason or "interval not estimable (too many equal scores)"
        return undefined(reason, value=value, n=n, members=members, level=level)
    change = after.below / after.density - before.below / before.density
    return of_variance(value, change.variance, n=n, members=members, level=level)


def _side(scores: Floats, units: Units, share: float, level: float, axis: str) -> _Side:
    ordered = np.sort(scores, axis=None)
    value = _smallest(ordered, share)
    below = units.mean(scores <= value, axis=axis, flip=None)
    n, members = below.n, scores.shape[1]
    share_below = of_variance(share, below.variance, n=n, members=members, level=level)
    low, high = share_below.low, share_below.high
    if not (low > 0 and high < 1):
        reason = f"interval not estimable ({n:,} examples are too few for this quantile)"
        return _Side(
            undefined(reason, value=value, n=n, members=members, level=level), below, np.nan
        )
    ends = _smallest(ordered, low), _smallest(ordered, high)
    width = ends[1] - ends[0]
    scale: Literal["identity"] = "identity"
    estimate = Estimate(
        value, *ends, n, members, np.nan, share_below.df, level, "", share_below.note, np.nan, scale
    )
    return _Side(estimate, below, (high - low) / width if width > 0 else np.nan)


def _smallest(ordered: Floats, share: float) -> float:
    """The smallest score that at least this share of the scores is no larger than."""
    # A share that rounding lifts, as 0.07 * 100, would else take the next score.
    place = int(np.ceil(share * len(ordered) - 1e-9)) - 1
    return float(ordered[min(max(place, 0), len(ordered) - 1)])


POWER, ALPHA = 0.8, 0.05
KNOWN = 1e5  # degrees of freedom from which a variance is taken for known
QUANTILES = (np.arange(15) + 0.5) / 15  # of the variance, which is itself an estimate
SELDOM = 2.0  # divides degrees of freedom that come from rows alone, which show few tails
PLANTINGS = 6  # rounds, each with the worsening of the one before


def smallest_worsening(
    table: ScoreTable, inside: Flags, groups: int, *, lower_is_better: bool = True
) -> float | None:
    """Find the smallest worsening of a group's mean that is shown with 80% power.

    Shown: the change of the mean has a p of at most 5% after a correction over all groups. The
    worsening is planted in the scores, for what carries the mean makes the change vary, too: of
    losses with a long tail a few rows do.

    Args:
        table: Scores of both populations.
        inside: The group's rows, shape (n,).
        groups: How many are tested.
        lower_is_better: Of the score.

    Returns:
        A fraction: 0.02 for 2%. None where the means are not above 0 or there is no interval.

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> rng = np.random.default_rng(0)
    >>> before, after = np.exp(rng.normal(size=(2, 4000)))
    >>> table = score_table(before, after)
    >>> round(smallest_worsening(table, np.ones(4000, bool), 1), 2)
    0.08
    """
    own = table.change(inside)
    if own.log_variance is None or not own.log_variance.total > 0:
        return None
    level = table.after * (own.before.value / own.after.value)  # as if nothing had changed yet
    seldom = SELDOM if own.change.members == 1 else 1.0
    worse = 0.0
    for _ in range(PLANTINGS):
        factor = 1 + worse if lower_is_better else 1 / (1 + worse)
        variance = replace(table, after=level * factor).change(inside).variance
        if variance is None:
            return None
        needed = errors_needed(variance.df / seldom, groups)
        shift = needed * math.sqrt(variance.total) / own.before.value
        if not lower_is_better and shift >= 1:
            return None  # no mean above 0 is as much smaller
        worse = shift if lower_is_better else shift / (1 - shift)
    return worse


def errors_needed(df: float, groups: int) -> float:
    """Count the standard errors of a change that is shown with 80% power.

    The standard error is itself an estimate: the power is the mean over what it may be.

    Args:
        df: Degrees of freedom of the standard error, possibly inf.
        groups: How many are tested.

    >>> round(errors_needed(math.inf, 1), 2), round(errors_needed(10, 1), 2)
    (2.8, 3.37)
    """
    from scipy.optimize import brentq

    from scotoma.power.forecast import chance_beyond, chi_square  # SciPy comes with it

    free = min(max(df, 2.0), KNOWN)  # below 2 nothing is known of it
    seen = chi_square(free)  # an estimated variance over the true one
    known, level = np.asarray(free), 1 - ALPHA / groups

    def lacking(effect: float) -> float:
        chances = chance_beyond(effect * np.sqrt(seen)[:, None], 1.0, seen, known, level=level)
        return POWER - float(chances.mean())

    return float(brentq(lacking, 0.0, 100 / ALPHA * groups))
