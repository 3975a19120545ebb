"""How large must a harm be for an audit of this design to find it?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincinv, ndtr, stdtrit

from scotoma.errors import DataError
from scotoma.numbers.enough import FEWEST_RUNS
from scotoma.numbers.estimate import Estimate, undefined
from scotoma.numbers.inputs import Floats
from scotoma.power.model import Design, expected_parts

NODES = 16  # a variance component; 24 change the power by less than .001
QUANTILES = (np.arange(15) + 0.5) / 15  # of a variance that is itself an estimate
HIGHEST_RATE = 0.999  # compressed rate beyond which no increase is looked for


def forecast(design: Design, *, power: float = 0.8) -> Estimate:
    """Forecast the smallest relative increase of a rate that an audit finds.

    Found means: the interval of the relative change (Satterthwaite's t on the log scale, over
    examples and training runs, crossed) lies above the limit.

    Args:
        design: The audit; for a gate over M rules its level is 1 - (1 - level)/M (Bonferroni).
        power: Share of audits that is to find it, a fraction between (1 - level)/2 and 1.

    Returns:
        The increase, a fraction, 0.5 for +50%, without an interval: it is no measurement. nan if
        there is none, and why. `events` are the effective events expected for the dense rate.
        Simulated audits find it as often as promised to .04 where 15 examples or more carry the
        rate; with fewer they find it more often (.80 promised, .88 found with 10).

    Raises:
        DataError: A power out of range.

    >>> smallest = forecast(Design(group_n=2_700, rate=0.011, members=10))
    >>> round(smallest.value, 2), round(smallest.events, 1)
    (0.35, 88.9)
    >>> forecast(Design(group_n=20, rate=0.9, members=3)).reason
    'no increase is found in 80% of audits, not even up to a rate of 99.9%'
    """
    if not (1 - design.level) / 2 < power < 1:
        raise DataError(
            f"power must be a fraction between {(1 - design.level) / 2:g} and 1, got {power}: "
            "write 0.8 for 80%"
        )

    def found(relative: float, reason: str = "") -> Estimate:
        return undefined(
            reason, value=relative, n=design.group_n, members=min(design.sizes),
            events=design.effective_events()[0], level=design.level,
        )  # fmt: skip

    none = f"no increase is found in {100 * power:.3g}% of audits"
    if (decidable := _decidable(design)) <= power:
        return found(
            math.nan,
            f"{none}, since only {100 * decidable:.2g}% have the {design.min_events:g} examples "
            "that must carry the rate",
        )

    def missing(log_ratio: float) -> float:
        return promised_power(design, math.expm1(log_ratio)) - power

    low, highest, step = math.log1p(design.limit), math.log(HIGHEST_RATE / design.rate), 0.01
    while low < highest:
        high = min(low + step, highest)
        if missing(high) >= 0:
            from scipy.optimize import brentq  # costly to import, and only needed here

            return found(math.expm1(brentq(missing, low, high, xtol=1e-9)))
        low, step = high, 1.5 * step
    return found(math.nan, f"{none}, not even up to a rate of {100 * HIGHEST_RATE:g}%")


def promised_power(design: Design, relative: float) -> float:
    """Share of audits of this design that find this increase: the count model's formula.

    With the parts of the variance as independent multiples of chi-square, the estimate normal
    around the truth, it is the mean of Phi[(log(1+d) - log(1+r) - t(df) s)/sigma] over the parts'
    quantiles, s and df as an audit computes them; times the chance that enough examples carry the
    dense rate.

    Populations of fewer than five members are judged as they are: their runs move the estimate and
    are no part of its interval.

    Args:
        design: The audit.
        relative: True relative increase d, a fraction above -1, compressed rate below 1.

    Returns:
        Fraction in [0, 1].

    Raises:
        DataError: A compressed rate outside (0, 1).

    >>> design = Design(group_n=2_700, rate=0.011, members=10)
    >>> round(promised_power(design, 0.5), 2)
    0.97
    """
    if not 0 < (compressed := design.rate * (1 + relative)) < 1:
        raise DataError(
            f"relative must leave the compressed rate in (0, 1), got {relative:g}, a rate of "
            f"{compressed:g}: write 0.5 for +50%"
        )
    examples, excess, n, runs = expected_parts(design, relative)
    members, residual = (float(sum(part[place] for part in runs)) for place in (0, 1))
    total = max(float(examples) + members - residual, float(examples), members)
    freedom = 2 * n / float(excess) if excess > 0 else math.inf
    seen = [part for part in runs if part[2] >= FEWEST_RUNS]
    distance = math.log1p(relative) - math.log1p(design.limit)
    if total == 0:  # pairs that err alike to the last example
        return _decidable(design) * float(distance > 0)
    parts = [(float(examples), freedom), *((float(v), size - 1.0) for v, _, size in seen)]
    shown = seen_variances(parts, sum(float(part) for _, part, _ in seen))
    chance = chance_beyond(distance, total, *shown, level=design.level)
    return _decidable(design) * float(chance)


def chance_beyond(
    distance: float | Floats,
    variance: float | Floats,
    seen: Floats,
    df: Floats,
    weights: Floats | None = None,
    *,
    level: float = 0.95,
) -> Floats:
    """Forecast how often a t interval leaves a limit.

    The estimate is normal around the truth; the variance that its interval shows is itself
    uncertain. All arguments but `weights` broadcast; their last axis is that of the S variances.

    Args:
        distance: From the limit to the truth, on the scale of the interval.
        variance: Of the estimate; 0 where it is known to the end.
        seen: What the interval may take for its variance, shape (..., S).
        df: Degrees of freedom of each, possibly inf.
        weights: Chance of each, shape (S,); None for equal ones.
        level: Of the interval, two-sided.

    Returns:
        Fractions, shape (...).

    >>> round(float(chance_beyond(2.8, 1.0, np.ones(1), np.array([math.inf]))), 2)
    0.8
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = distance - stdtrit(df, (1 + level) / 2) * np.sqrt(seen)
        leaves = np.where(np.greater(variance, 0), ndtr(clear / np.sqrt(variance)), clear >= 0)
    return np.asarray(np.average(leaves, axis=-1, weights=weights))


def seen_variances(
    parts: Sequence[tuple[float, float]], residual: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """List what an interval may take for its variance: its parts vary as multiples of chi-square.

    Args:
        parts: What the interval counts: variance and degrees of freedom of the first factor, such
            as examples, then of the others, such as training runs.
        residual: What the first and the others both count.

    Returns:
        Variances, Satterthwaite's degrees of freedom, and the chance of each, shape (S,).

    >>> [float(one[0]) for one in seen_variances([(4.0, math.inf)])]
    [4.0, inf, 0.013576229705877088]
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    drawn = [part * chi_square(freedom, (nodes + 1) / 2) for part, freedom in parts]
    grids = np.meshgrid(*drawn, indexing="ij")
    others = sum(grids[1:], start=np.zeros(1))
    total = np.maximum(np.maximum(grids[0] + others - residual, grids[0]), others)
    spread = sum(grid**2 / freedom for grid, (_, freedom) in zip(grids, parts, strict=True))
    chances = np.prod(np.meshgrid(*[weights / 2] * len(parts), indexing="ij"), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = total**2 / spread
    return total.ravel(), df.ravel(), chances.ravel()


def _decidable(design: Design) -> float:
    """Chance of at least `min_events` effective events in the dense population."""
    mean, spread = design.effective_events()
    # The effective events of one member are a whole number, many members' nearly continuous.
    least = design.min_events - 0.5 / design.members
    return float(ndtr((mean - least) / spread)) if spread > 0 else float(mean >= least)


def chi_square(freedom: float, places: Floats = QUANTILES) -> Floats:
    """Compute quantiles of chi-square over its degrees of freedom, as an estimated variance varies.

    Args:
        freedom: Degrees of freedom, above 0, possibly inf.
        places: Which quantiles, fractions.
    """
    if math.isinf(freedom):
        return np.ones_like(places)
    return np.asarray(gammaincinv(freedom / 2, places) * 2 / freedom)
