"""How certain is a mean over training runs, on this test set and on another like it?"""

from __future__ import annotations

import math

import numpy as np

from scotoma.inputs import Floats
from scotoma.numbers import Estimate, undefined
from scotoma.variance import THIS_TEST_SET
from scotoma.variance.effects import mean_of, variance_of

__all__ = ["covariance_of_draws", "two_level_mean"]

FEWEST_DRAWS = 0.5  # share of the draws in which a metric must be defined


def two_level_mean(
    differences: Floats,
    draws: Floats | None = None,
    *,
    level: float = 0.95,
    note: str = THIS_TEST_SET,
) -> Estimate:
    """Mean over runs with an interval over runs, and over test examples where draws are passed.

    The variance is that of the mean over runs plus that over the draws of test examples, with
    Satterthwaite's degrees of freedom. What depends on both, the run and the example, is in either
    part, so that the interval is a little too wide rather than too narrow.

    Args:
        differences: One a run, shape (R,), R >= 2.
        draws: The mean on test sets drawn anew, shape (B,); None for an interval over runs alone.
        level: Coverage, a fraction in (0, 1).
        note: What the interval over runs alone is about.

    >>> one = two_level_mean(np.array([0.10, 0.12, 0.11, 0.13]))
    >>> both = two_level_mean(np.array([0.10, 0.12, 0.11, 0.13]), np.array([0.10, 0.13, 0.115]))
    >>> round(one.high - one.low, 3) < round(both.high - both.low, 3), both.note
    (True, '')
    """
    runs = differences.size
    said = note if draws is None else ""
    if not np.isfinite(differences).all():
        return undefined(
            "undefined (the metric is undefined in a run)", n=runs, members=runs, level=level,
            note=said,
        )  # fmt: skip
    value, of_runs = mean_of(differences), variance_of(differences) / runs
    of_examples = 0.0 if draws is None else float(covariance_of_draws(draws[:, None])[0, 0])
    variance = of_runs + of_examples
    if not variance > 0:
        reason = f"interval not estimable (nothing varies over {runs} runs)"
        if math.isnan(of_examples):
            reason = "interval not estimable (undefined on most test sets drawn anew)"
        return undefined(reason, value=value, n=runs, members=runs, level=level, note=said)
    df = variance**2 * (runs - 1.0) / of_runs**2 if of_runs > 0 else math.inf
    return Estimate.on_scale(
        value, math.sqrt(variance), df, n=runs, members=runs, level=level, note=said
    )


def covariance_of_draws(draws: Floats) -> Floats:
    """Covariance of columns over draws, shape (columns, columns).

    Args:
        draws: Shape (B, columns); draws with a nan are left out. nan where more than half are.
    """
    whole = draws[np.isfinite(draws).all(axis=1)]
    columns = draws.shape[1]
    if len(whole) < max(2, FEWEST_DRAWS * len(draws)):
        return np.full((columns, columns), np.nan)
    return np.asarray(np.cov(whole, rowvar=False), np.float64).reshape(columns, columns)
