"""How much true effects differ: the Q-profile interval beside solvers that we did not write."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from scotoma.numbers import heterogeneity

Estimates = tuple[Any, Any]


def drawn(classes: int, tau: float, *, n: int = 50, seed: int = 0) -> Estimates:
    """Losses of classes and their variances: normal truth, normal chance, each class its own."""
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.5, 2.0, classes) * 0.1 / n
    return tau * rng.normal(size=classes) + np.sqrt(variances) * rng.normal(size=classes), variances


def slow_q(effects: Any, variances: Any, tau: float) -> float:
    """Cochran's Q of Viechtbauer (2007): sum w_i (y_i - mu)^2, w_i = 1/(v_i + tau^2)."""
    weights = [1 / (v + tau**2) for v in variances]
    mu = sum(w * y for w, y in zip(weights, effects, strict=True)) / sum(weights)
    return float(sum(w * (y - mu) ** 2 for w, y in zip(weights, effects, strict=True)))


def slow_df(effects: Any, variances: Any) -> float:
    """Degrees of freedom 2(C - 1)/(kurtosis - 1), the kurtosis 3 at least."""
    mu = float(np.average(effects, weights=1 / np.asarray(variances)))
    scaled = [(y - mu) / math.sqrt(v) for y, v in zip(effects, variances, strict=True)]
    fourth, second = (sum(z**power for z in scaled) / len(scaled) for power in (4, 2))
    return 2 * (len(scaled) - 1) / (max(3.0, fourth / second**2) - 1)


@pytest.mark.parametrize(("classes", "tau"), [(30, 0.02), (100, 0.05), (100, 0.2), (400, 0.03)])
def test_the_interval_solves_the_equations_of_viechtbauer(classes: int, tau: float) -> None:
    """Q(low) and Q(high), per degree of freedom, are the quantiles of chi-squared at both ends."""
    effects, variances = drawn(classes, tau, seed=classes)
    estimate = heterogeneity(effects, variances, variances, n=50 * classes, members=5)
    df = slow_df(effects, variances)
    assert estimate.df == pytest.approx(df)
    for end, chance in ((estimate.low, 0.975), (estimate.value, 0.5), (estimate.high, 0.025)):
        wanted = float(stats.chi2.ppf(chance, df)) * (classes - 1) / df

        def missing(tau: float, wanted: float = wanted) -> float:
            return slow_q(effects, variances, tau) - wanted

        solved = 0.0 if missing(0.0) <= 0 else optimize.brentq(missing, 0, 10, xtol=1e-12)
        assert end == pytest.approx(solved, abs=1e-9)


@pytest.mark.parametrize("limit", [0.0, 0.01, 0.05, 0.3])
def test_p_values_are_the_tails_of_chi_squared(limit: float) -> None:
    effects, variances = drawn(60, 0.05, seed=3)
    estimate = heterogeneity(effects, variances, variances, n=3000, members=5)
    df = slow_df(effects, variances)
    q = slow_q(effects, variances, limit) * df / 59
    assert estimate.p_above(limit) == pytest.approx(stats.chi2.sf(q, df))
    assert estimate.p_below(limit) == pytest.approx(stats.chi2.cdf(q, df))


@given(
    seed=st.integers(0, 50), tau=st.sampled_from([0.0, 0.02, 0.1]), level=st.floats(0.5, 0.999),
    factor=st.floats(0.1, 10),
)  # fmt: skip
def test_interval_and_p_values_never_disagree(
    seed: int, tau: float, level: float, factor: float
) -> None:
    """Inside the interval nothing is rejected; a change of units changes nothing else."""
    effects, variances = drawn(40, tau, seed=seed)
    estimate = heterogeneity(effects, variances, variances, n=2000, members=5, level=level)
    tail = (1 - level) / 2
    assert 0 <= estimate.low <= estimate.value <= estimate.high
    assert estimate.p_below(1.001 * estimate.high) <= tail + 1e-9
    if estimate.high > 0:
        assert estimate.p_below(0.999 * estimate.high) >= tail
    if estimate.low > 0:
        assert estimate.p_above(0.999 * estimate.low) <= tail
        assert estimate.p_above(1.001 * estimate.low) >= tail
    scaled = heterogeneity(
        factor * effects, factor**2 * variances, variances, n=2000, members=5, level=level
    )
    assert scaled.high == pytest.approx(factor * estimate.high, rel=1e-6, abs=1e-12)


def test_variances_are_pooled_over_the_classes_by_their_shares() -> None:
    """A class in which nothing flipped is not known exactly: it gets its share of the sum."""
    effects, variances = drawn(40, 0.05, seed=1)
    holes = np.where(np.arange(40) % 2 == 0, 0.0, variances)
    shares = np.full(40, 2.0)
    estimate = heterogeneity(effects, holes, shares, n=2000, members=5)
    np.testing.assert_allclose(estimate.variances, np.full(40, holes.sum() / 40))


def test_what_does_not_vary_has_no_interval_and_says_so() -> None:
    estimate = heterogeneity([0.0] * 30, [0.0] * 30, [1.0] * 30, n=900, members=5)
    assert (estimate.reason, estimate.n) == ("nothing varies", 900)
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.p_below(0.01))
    assert math.isnan(estimate.p_above(0.01))


def outcomes(classes: int, replications: int) -> tuple[int, int]:
    """FAILs and PASSes of 2.5% tests at tau = 1 point exactly, which is the margin.

    Losses are differences of binomial counts, with 10% of the answers changed.
    """
    failed = passed = 0
    n, tau, flips = 50, 0.01, 0.1
    for seed in range(replications):
        rng = np.random.default_rng([classes, seed])
        truth = tau * rng.normal(size=classes)
        chances = np.clip([(flips + truth) / 2, (flips - truth) / 2], 0, 1)
        worse, better, _ = rng.multinomial(n, np.vstack([chances, 1 - chances.sum(0)]).T).T
        changed = (worse + better) / n
        loss = (worse - better) / n
        variances = (changed - loss**2) / (n - 1)
        estimate = heterogeneity(loss, variances, np.full(classes, 1.0), n=n * classes, members=1)
        failed += estimate.p_above(tau) <= 0.025
        passed += estimate.p_below(tau) <= 0.025
    return failed, passed


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [100, 1000])
def test_at_the_margin_few_audits_are_decided(classes: int) -> None:
    """At most 19 of 400 either way: 99.7% of Binomial(400, .025)."""
    failed, passed = outcomes(classes, 400)
    assert max(failed, passed) <= 19


def test_at_the_margin_few_of_sixty_audits_are_decided() -> None:
    """At most 6 of 60: 99.9% of Binomial(60, .025)."""
    failed, passed = outcomes(100, 60)
    assert max(failed, passed) <= 6
