"""How much worse must the mean of a score get before a comparison shows it?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scotoma.comparison.means import ScoreTable
from scotoma.numbers.inputs import Flags

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
    from scipy.special import chdtri

    from scotoma.power import chance_beyond  # SciPy comes with it

    free = min(max(df, 2.0), KNOWN)  # below 2 nothing is known of it
    seen = np.asarray(
        chdtri(free, QUANTILES) / free, np.float64
    )  # an estimated variance over the true one
    known, level = np.asarray(free), 1 - ALPHA / groups

    def lacking(effect: float) -> float:
        chances = chance_beyond(effect * np.sqrt(seen)[:, None], 1.0, seen, known, level=level)
        return POWER - float(chances.mean())

    return float(brentq(lacking, 0.0, 100 / ALPHA * groups))
