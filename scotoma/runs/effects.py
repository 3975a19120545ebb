"""What is a mean, a difference or a spread over training runs, with its interval over runs?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, fdtri, nctdtrinc, ndtri, stdtrit

from scotoma.errors import DataError
from scotoma.numbers import Estimate, check_level, satterthwaite, undefined
from scotoma.numbers.inputs import Floats, floats

# Metrics are of order 1, and sums of thousands of rounded terms: what differs by less is equal.
ROUNDING = 64 * np.finfo(np.float64).eps
# Above it SciPy's inverse of the noncentral t distribution loses digits, and soon does not end.
FAR = 1000.0
NEAR = 1e-9
FEWEST_DRAWS = 0.5  # share of the draws in which a metric must be defined
THIS_TEST_SET = "about training runs on this test set"
UNDEFINED_IN_A_RUN = "undefined (the metric is undefined in a run)"
NO_GAIN = "undefined (no gain to survive: the interval of the dense gain holds 0)"
SAWILOWSKY = {
    "huge": 2.0, "very large": 1.2, "large": 0.8, "medium": 0.5, "small": 0.2, "very small": 0.01,
}  # fmt: skip


ALONE = "a number of these models alone"  # why it has no interval


def rests_on(*sizes: int, level: float = 0.95, note: str = THIS_TEST_SET) -> dict[str, Any]:
    """What an estimate rests on: the runs of one set, or of two together."""
    return {"n": sum(sizes), "members": min(sizes), "level": level, "note": note}


def bare(value: float, *sizes: int, reason: str = "") -> Estimate:
    """Put a number without an interval, such as a p-value, among estimates."""
    return undefined(reason, value=value, **rests_on(*sizes, note=""))


def ranged(value: float, ends: Iterable[float], df: float, **on: Any) -> Estimate:
    """An estimate whose interval is no t interval."""
    low, high = ends
    return Estimate(
        value, low, high, on["n"], on["members"], math.nan, df, on["level"], note=on["note"]
    )


def mean_of(values: Floats) -> float:
    """Mean as the first value and what the others add, so that equal runs have it exactly."""
    return float(values[0] + (values - values[0]).mean())


def variance_of(values: Floats) -> float:
    """Sample variance, exactly 0 where values differ by their rounding alone."""
    alike = np.ptp(values) <= ROUNDING * max(1.0, np.abs(values).max())
    return 0.0 if alike else float(values.var(ddof=1))


def welch_difference(b: Floats, o: Floats, level: float) -> Estimate:
    """Difference of means with Welch's t interval (Welch 1947, Biometrika 34:28-35)."""
    value, on = mean_of(o) - mean_of(b), rests_on(b.size, o.size, level=level)
    return _mean(value, [(variance_of(one) / one.size, one.size - 1) for one in (b, o)], on)


def _mean(value: float, parts: Sequence[tuple[float, float]], on: dict[str, Any]) -> Estimate:
    """The t interval of what varies by independent parts: variance and degrees of freedom each."""
    total, df = satterthwaite(parts)
    if not total > 0:
        reason = f"interval not estimable (nothing varies over {on['n']} runs)"
        if math.isnan(total):
            reason = "interval not estimable (undefined on most test sets drawn anew)"
        return undefined(reason, value=value, **on)
    return Estimate.on_scale(value, math.sqrt(total), float(df), **on)


def cohens_d(b: Floats, o: Floats, level: float) -> Estimate:
    """Cohen's d over the root of the mean variance, with its noncentral t interval.

    d sqrt(N) has a noncentral t distribution with noncentrality delta sqrt(N), where
    N = n n' (s^2 + s'^2) / (2 (n' s^2 + n s'^2)): half the runs a side where n = n'. Its degrees of
    freedom are those of the mean of two variances that may differ (Delacre et al. 2021, "Why
    Hedges' g*s based on the non-pooled standard deviation should be reported with Welch's t-test").
    """
    n, m = b.size, o.size
    s, t = variance_of(b), variance_of(o)
    on = rests_on(n, m, level=level)
    if not s + t > 0:
        return undefined(f"undefined (nothing varies over {n + m} runs)", **on)
    d = (mean_of(o) - mean_of(b)) / math.sqrt((s + t) / 2)
    weight = math.sqrt(n * m * (s + t) / (2 * (m * s + n * t)))
    _, df = satterthwaite([(s, n - 1), (t, m - 1)])
    tail = (1 - level) / 2
    ends = (_noncentrality(d * weight, df, p) / weight for p in (1 - tail, tail))
    return ranged(d, ends, df, **on)


def _noncentrality(t: float, df: float, p: float) -> float:
    """Noncentrality with which a noncentral t is below `t` with probability `p`.

    That of a large t is t times the root of a chi-squared over its degrees of freedom, to 1.5e-5.
    """
    if abs(t) <= FAR:
        return float(nctdtrinc(df, p, t))
    return t * math.sqrt(chdtri(df, p if t > 0 else 1 - p) / df)


def sawilowsky(d: float) -> str:
    """Name of the size of an effect (Sawilowsky 2009, J. Mod. Appl. Stat. Methods 8:597-599)."""
    if math.isnan(d):
        return "undefined"
    return next((name for name, least in SAWILOWSKY.items() if abs(d) >= least), "negligible")


def sigma(values: Floats, level: float) -> Estimate:
    """The standard deviation with its chi-square interval."""
    df = values.size - 1
    s = math.sqrt(variance_of(values))
    on = rests_on(values.size, level=level, note=f"{THIS_TEST_SET}; takes the runs as normal")
    if not s > 0:
        why = "a run has no value" if math.isnan(s) else f"nothing varies over {values.size} runs"
        return undefined(f"interval not estimable ({why})", value=s, **on)
    tails = (1 - level) / 2, (1 + level) / 2
    return ranged(s, (s * math.sqrt(df / float(chdtri(df, p))) for p in tails), df, **on)


def spread_ratio(b: Floats, o: Floats, level: float, note: str) -> Estimate:
    """Standard deviation of `o` over that of `b`, one of which varies, with an F interval.

    The variance of a sample variance grows with the kurtosis k of the values: for normal runs it is
    that of n - 1 degrees of freedom, for others that of r = 2n / (k - (n - 3)/(n - 1)). Here k is
    the mean over both sides, each in its own standard deviations, and r at most n - 1: the interval
    is never shorter than for normal runs. In simulation 95% intervals of 5 to 32 runs held .95 for
    normal, .97 to .99 for uniform, .89 to .92 for t(5) and .82 to .87 for exponential runs.

    References:
        Shoemaker (2003), Fixing the F test for equal variances, The American Statistician
        57:105-114.
    """
    n, m = b.size, o.size
    s, t = variance_of(b), variance_of(o)
    value, on = math.sqrt(t / s) if s > 0 else math.inf, rests_on(n, m, level=level, note=note)
    if not (s > 0 and t > 0):
        still, runs = ("base", n) if t > 0 else ("other", m)
        reason = f"interval not estimable ({still} does not vary over {runs} runs)"
        return undefined(reason, value=value, **on)
    fourths = ((b - mean_of(b)) ** 4).sum() / s**2 + ((o - mean_of(o)) ** 4).sum() / t**2
    kurtosis = fourths / (n + m) * ((n + m) / (n + m - 2)) ** 2
    of_b, of_o = (
        min(size - 1.0, 2 * size / (kurtosis - (size - 3) / (size - 1))) for size in (n, m)
    )
    tails = (1 + level) / 2, (1 - level) / 2
    ends = (value / math.sqrt(float(fdtri(of_o, of_b, p))) for p in tails)
    return ranged(value, ends, math.nan, **on)


def single_run_risk(b: Floats, o: Floats, level: float) -> Estimate:
    """Measure how often one run a side would contradict the means of all runs.

    It is U / (R R'), U of Mann and Whitney: the share of pairs (one run of the baseline, one of
    the technique) that order the two against their means; a tie counts half. The interval is the
    score interval of Newcombe's method 5, which also holds where no pair points the wrong way.
    `n` is the number of pairs.

    References:
        Newcombe (2006), Statistics in Medicine 25:559-573, method 5; Hanley and McNeil (1982).

    >>> risk = single_run_risk(np.array([3, 4, 5, 6.0]), np.array([1, 2, 3.5, 2.5]), 0.95)
    >>> risk.value, round(risk.low, 2), round(risk.high, 2)
    (0.0625, 0.01, 0.49)
    """
    above = (o[:, None] > b).sum() + 0.5 * (o[:, None] == b).sum()
    pairs = b.size * o.size
    wrong = float(above / pairs if o.mean() <= b.mean() else 1 - above / pairs)
    on = rests_on(b.size, o.size, level=level) | {"n": pairs}
    return ranged(wrong, _score_interval(wrong, b.size, o.size, level), math.nan, **on)


def _score_interval(share: float, n: int, m: int, level: float) -> tuple[float, float]:
    """Where (share - t)^2 = z^2 V(t), V that of exponential runs, the same from both sides."""
    from scipy.optimize import brentq  # costly to import

    z, extra = float(ndtri((1 + level) / 2)), (n + m) / 2 - 1

    def beyond(t: float) -> float:
        spread = 1 + extra * (1 - t) / (2 - t) + extra * t / (1 + t)
        return (share - t) ** 2 - z**2 * t * (1 - t) * spread / (n * m)

    # At 0 and 1 the share itself is a root, beside the one that is meant.
    low = 0.0 if share == 0 else float(brentq(beyond, 0.0, min(share, 1 - NEAR)))
    high = 1.0 if share == 1 else float(brentq(beyond, max(share, NEAR), 1.0))
    return low, high


def two_level_mean(
    differences: Floats, draws: Floats | None = None, *, level: float = 0.95
) -> Estimate:
    """Mean over runs with an interval over runs, and over test examples where draws are passed.

    The variance is that of the mean over runs plus that over the draws of test examples, with
    Satterthwaite's degrees of freedom. What depends on both, the run and the example, is in either
    part, so that the interval is a little too wide rather than too narrow.

    Args:
        differences: One a run, shape (R,), R >= 2.
        draws: The mean on test sets drawn anew, shape (B,); None for an interval over runs alone.
        level: Coverage, a fraction in (0, 1).

    >>> one = two_level_mean(np.array([0.10, 0.12, 0.11, 0.13]))
    >>> both = two_level_mean(np.array([0.10, 0.12, 0.11, 0.13]), np.array([0.10, 0.13, 0.115]))
    >>> round(one.high - one.low, 3) < round(both.high - both.low, 3), both.note
    (True, '')
    """
    runs = differences.size
    on = rests_on(runs, level=level, note=THIS_TEST_SET if draws is None else "")
    if not np.isfinite(differences).all():
        return undefined(UNDEFINED_IN_A_RUN, **on)
    parts = [(variance_of(differences) / runs, runs - 1.0)]
    if draws is not None:
        parts.append((float(covariance_of_draws(draws[:, None])[0, 0]), math.inf))
    return _mean(mean_of(differences), parts, on)


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


def fieller(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    examples: Floats | None = None,
    level: float = 0.95,
) -> Estimate:
    """Ratio of two paired means with Fieller's interval.

    The interval holds every ratio r at which a paired t test does not reject that the mean of
    numerator - r * denominator is 0.

    Args:
        numerator: Shape (R,), R >= 2.
        denominator: Shape (R,), run i the same as in `numerator`.
        examples: Covariance of both means over test examples, shape (2, 2), added to that over
            runs; None for an interval over runs on this test set.
        level: Coverage, a fraction in (0, 1).

    Returns:
        The ratio; nan where the t interval of the denominator's mean holds 0, which is where
        Fieller's is unbounded.

    Raises:
        DataError: Different shapes, or fewer than two runs.

    References:
        Fieller (1954), Some problems in interval estimation, JRSS B 16:175-185.

    >>> ratio = fieller([1.0, 1.2, 0.9, 1.1], [2.0, 2.1, 1.9, 2.2])
    >>> round(ratio.value, 3), round(ratio.low, 3), round(ratio.high, 3)
    (0.512, 0.442, 0.576)
    """
    check_level(level)
    x, y = floats(numerator, "numerator"), floats(denominator, "denominator")
    if x.ndim != 1 or x.shape != y.shape or x.size < 2:
        raise DataError(
            f"numerator and denominator must be pairs of two or more runs, got shapes {x.shape} "
            f"and {y.shape}: pass one number per run"
        )
    runs = x.size
    on = rests_on(runs, level=level, note=THIS_TEST_SET if examples is None else "")
    if not np.isfinite(np.concatenate([x, y])).all():
        return undefined(UNDEFINED_IN_A_RUN, **on)
    of_examples = 0.0 if examples is None else examples
    (xx, xy), (_, yy) = (np.cov(x, y) / runs + of_examples).tolist()
    a, b = float(x.mean()), float(y.mean())
    t2 = float(stdtrit(runs - 1, (1 + level) / 2)) ** 2
    square, half, rest = b**2 - t2 * yy, a * b - t2 * xy, a**2 - t2 * xx
    if not square > 0:
        return undefined(NO_GAIN, **on)
    root = math.sqrt(max(half**2 - square * rest, 0.0))
    ends = (half - root) / square, (half + root) / square
    return ranged(a / b, ends, runs - 1.0, **on)
