"""How much do many true effects differ, beyond what chance adds to each?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from scotoma.numbers.estimate import Estimate, check_level
from scotoma.numbers.inputs import Floats


@dataclass(frozen=True)
class Heterogeneity(Estimate):
    """The standard deviation of true effects, tau, with its Q-profile interval.

    Attributes:
        effects: Estimated effects, shape (C,).
        variances: Their variances by chance, shape (C,).
    """

    effects: Floats = field(default_factory=lambda: np.empty(0), compare=False, repr=False)
    variances: Floats = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def at(self, level: float) -> Heterogeneity:
        """The same with its interval at another level."""
        check_level(level)
        tail = (1 - level) / 2
        return replace(self, low=self._tau(1 - tail), high=self._tau(tail), level=level)

    def p_above(self, limit: float) -> float:
        """One-sided p-value of "tau is at most `limit`"."""
        from scipy.special import chdtrc

        return float(chdtrc(self.df, self._q(limit))) if self.df > 0 else math.nan

    def p_below(self, limit: float) -> float:
        """One-sided p-value of "tau is at least `limit`"."""
        from scipy.special import chdtr

        return float(chdtr(self.df, self._q(limit))) if self.df > 0 else math.nan

    def _q(self, tau: float) -> float:
        """Cochran's Q at this tau, on as many degrees of freedom as its kurtosis leaves."""
        weights = 1 / (self.variances + tau**2)
        mean = np.average(self.effects, weights=weights)
        q = float((weights * (self.effects - mean) ** 2).sum())
        return q * self.df / (len(self.effects) - 1)

    def _tau(self, chance: float) -> float:
        """The tau at which Q lies at this quantile of its distribution; 0 where it lies below."""
        from scipy.special import chdtri

        wanted = float(chdtri(self.df, 1 - chance)) if 0 < chance < 1 else math.nan
        if not self.df > 0 or math.isnan(wanted):
            return math.nan
        if self._q(0.0) <= wanted:
            return 0.0
        low, high = 0.0, 1.0
        while self._q(high) > wanted:
            low, high = high, 2 * high
        # After 60 halvings float64 tells the two ends no further apart.
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._q(middle) > wanted else (low, middle)
        return high


def heterogeneity(
    effects: npt.ArrayLike,
    variances: npt.ArrayLike,
    shares: npt.ArrayLike,
    *,
    n: int,
    members: int,
    level: float = 0.95,
) -> Heterogeneity:
    """Estimate how much true effects differ, from many estimates with few examples each.

    The variance of a single effect is itself a guess where few of its examples changed. Variances
    are therefore pooled: each is its `share` of their sum. Q of effects that rest on few changes
    has heavier tails than chi-squared; its degrees of freedom are lowered by the kurtosis seen.

    Args:
        effects: One a class, shape (C,), C at least 3.
        variances: Their estimated variances, shape (C,).
        shares: What the variances are proportional to, above 0, shape (C,).
        n: Examples in all.
        members: Size of the smaller population.
        level: Coverage, a fraction in (0, 1).

    Returns:
        tau in the unit of the effects, at least 0.

    References:
        Viechtbauer (2007), Statistics in Medicine 26:37-52, the Q-profile interval.

    >>> rng = np.random.default_rng(0)
    >>> effects = rng.normal(0, 0.03, 400) + rng.normal(0, 0.04, 400)
    >>> tau = heterogeneity(effects, [0.0009] * 400, [1.0] * 400, n=20_000, members=1)
    >>> tau.low < 0.04 < tau.high, round(tau.value, 2)
    (True, 0.04)
    """
    y, parts = np.asarray(effects, np.float64), np.asarray(shares, np.float64)
    pooled = parts * (np.asarray(variances, np.float64).sum() / parts.sum())
    centred = (y - np.average(y, weights=1 / parts)) / np.sqrt(parts)
    square = float((centred**2).mean())
    # Tails lighter than the normal's (3) are not believed: they would narrow the interval.
    kurtosis = max(3.0, float((centred**4).mean()) / square**2) if square > 0 else 3.0
    df = 2 * (len(y) - 1) / (kurtosis - 1)
    nan = math.nan
    start = Heterogeneity(
        nan, nan, nan, n, members, nan, df, level, scale="q-profile", effects=y, variances=pooled
    )
    if not pooled.any():
        return replace(start, reason="nothing varies", df=nan)
    return replace(start.at(level), value=start._tau(0.5))
