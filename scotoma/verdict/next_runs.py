"""Where will the next training runs lie, and how many runs would tell?

The runs are taken for normal draws, of a ratio on its logarithm. The next one lies around their
mean with the variance of a run, that of the mean, and what the test set gives to all runs alike:
another training run, on another test set of this kind. m next runs all lie within where each does
at 1/m of the risk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, undefined
from scotoma.verdict.level import Bound, Level, LevelSpread
from scotoma.verdict.outlook import MOST_MODELS, QUANTILES, SURE, Outlook, first_numbers, numbers_to

__all__ = ["level_outlook", "mean_of_runs", "next_run", "spread_of"]


def mean_of_runs(values: Sequence[float], se: Sequence[float], *, n: int, reason: str) -> Estimate:
    """Estimate the mean of a metric that chance lifts, from its value and error on every model.

    Its variance over examples is that of one model: averaging takes nothing off what lifts all.
    Below `FEWEST_RUNS` models their spread is left out.

    Args:
        values: Of each model, shape (K,); nan where undefined.
        se: Standard errors over examples.
        n: Examples, or clusters.
        reason: Why a value is undefined.

    >>> mean = mean_of_runs([0.1, 0.1, 0.1, 0.1, 0.1], [0.02] * 5, n=900, reason="")
    >>> round(mean.low, 3), round(mean.high, 3)
    (0.061, 0.139)
    """
    k = len(values)
    value, single = float(np.mean(values)), float(np.mean(se)) if se else math.nan
    if math.isnan(value) or not single >= 0:
        return undefined(reason or "undefined", value=value, n=n, members=k)
    runs = float(np.var(values, ddof=1)) / k if k >= FEWEST_RUNS else 0.0
    total = runs + single**2
    if total == 0:
        return undefined("nothing varies", value=value, n=n, members=k)
    pieces = runs**2 / (k - 1) if runs else 0.0
    df = total**2 / (pieces + single**4 / max(n - 1, 1))
    return Estimate.on_scale(value, math.sqrt(total), df, n=n, members=k, note=few_runs(k))


def spread_of(values: Sequence[float], mean: Estimate, *, single: bool) -> LevelSpread | None:
    """Part the variance of a mean over models into runs and examples.

    None below `FEWEST_RUNS` models, whose spread is a guess, and where a ratio is 0.

    Args:
        values: Of each model.
        mean: Their mean with its interval over both.
        single: Whether one next run is asked for, not the mean over runs.
    """
    k = len(values)
    scaled = [_scaled(value, mean.scale) for value in values]
    if k < FEWEST_RUNS or not np.isfinite(scaled).all() or not mean.se > 0:
        return None
    runs, variance = float(np.var(scaled, ddof=1)), mean.se**2
    examples = max(0.0, variance - runs / k)
    pieces = max(0.0, variance**2 / mean.df - (runs / k) ** 2 / (k - 1))
    df = examples**2 / pieces if pieces > 0 else math.inf
    return LevelSpread(float(np.mean(scaled)), runs, examples, max(df, 1.0), k, single)


def next_run(mean: Estimate, spread: LevelSpread) -> Estimate:
    """Estimate where one next training run lies: its interval predicts, it does not estimate.

    >>> values = [0.88, 0.90, 0.91, 0.92, 0.89]
    >>> mean = Estimate.on_scale(0.90, 0.01, 30.0, n=900, members=5)
    >>> one = next_run(mean, spread_of(values, mean, single=True))
    >>> round(one.low, 2), round(one.high, 2)
    (0.85, 0.95)
    """
    total, df = spread.at(spread.members)
    value = math.exp(spread.centre) if mean.scale == "ratio" else spread.centre
    return Estimate.on_scale(
        value, math.sqrt(total), df, n=mean.n, members=spread.members, events=mean.events,
        scale=mean.scale,
    )  # fmt: skip


def level_outlook(level: Level, *, alpha: float, together: int) -> Outlook | None:
    """Forecast how many models settle a level that is UNSURE.

    Args:
        level: The limit and what is known.
        alpha: Of the gate.
        together: Number of UNSURE tests that must all be settled for a PASS.

    Returns:
        The forecast; None where there is no interval to start from.
    """
    bound = level.clearing
    if bound is None or level.outside:
        return None
    held = bound.at(alpha / 2)
    today = held.low if level.side == "at least" else held.high
    k = level.members
    leaning: Literal["PASS", "FAIL"] = "FAIL" if level.breaks(bound.estimate.value) else "PASS"
    none = Outlook(leaning, None, math.nan, math.nan, k, today, limit=True)
    if leaning == "FAIL" or level.spread is None:
        return none
    spread, sure = level.spread, SURE ** (1 / together)
    distance = abs(_scaled(level.limit, bound.estimate.scale) - spread.centre)
    more = numbers_to(k, MOST_MODELS)
    chances = (_chance(spread, bound, distance, int(m), alpha / 2) for m in more)
    models = first_numbers(more, chances, sure)
    if models is None:
        return none
    return Outlook("PASS", "models", *models, k, today, limit=True)


def _chance(
    spread: LevelSpread, bound: Bound, distance: float, members: int, chance: float
) -> float:
    """Chance that so many models settle it, the present ones among them.

    The variance between runs is itself an estimate: the mean over what it may be.
    """
    from scipy.special import chdtri, ndtr, stdtrit

    now = spread.members
    scales = max(now - 1, 2) / chdtri(max(now - 1, 2), QUANTILES)
    settled = []
    for scale in scales:
        runs = spread.runs * float(scale)
        total, df = LevelSpread(
            spread.centre, runs, spread.examples, spread.examples_df, members, spread.single
        ).at(members)
        clear = distance - float(stdtrit(df, 1 - chance / bound.tries)) * math.sqrt(total)
        moves = math.sqrt(runs * (1 / now - 1 / members))
        settled.append(float(ndtr(clear / moves)) if moves > 0 else float(clear >= 0))
    return float(np.mean(settled))


def _scaled(value: float, scale: str) -> float:
    if scale != "ratio":
        return value
    return math.log(value) if value > 0 else -math.inf
