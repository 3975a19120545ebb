"""Bets on bounded values: beside the paper's notation, subset by subset, and in the long run."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from scotoma.errors import DataError
from scotoma.numbers.anytime import BETS, BoundedSample, e_holm


def capital(x: np.ndarray, m: float) -> float:
    """Capital of Waudby-Smith and Ramdas (2024), eq. 10, example by example, mean over bets."""
    scaled, mean = (x + 1) / 2, (m + 1) / 2
    wealths = []
    for share in BETS:
        wealth, bet = 1.0, share / mean
        for value in scaled:
            wealth *= 1 + bet * (value - mean)
        wealths.append(wealth)
    return float(np.mean(wealths))


@pytest.mark.parametrize("seed", range(5))
def test_evidence_is_the_capital_of_the_paper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 0.0, 0.25, 1.0], 300, p=[0.05, 0.8, 0.05, 0.1])
    m = rng.uniform(-0.2, 0.2)
    sample = BoundedSample.of(x, -1, 1)
    assert sample.above(m) == pytest.approx(math.log(capital(x, m)), rel=1e-9)
    assert sample.below(m) == pytest.approx(math.log(capital(-x, -m)), rel=1e-9)


def test_the_interval_is_what_the_evidence_leaves() -> None:
    sample = BoundedSample.of(np.repeat([-1.0, 0.0, 1.0], [3, 180, 17]), -1, 1)
    low, high = sample.interval(0.95)
    assert -1 < low < sample.mean < high < 1
    assert sample.above(low) == pytest.approx(math.log(40), abs=1e-6)
    assert sample.below(high) == pytest.approx(math.log(40), abs=1e-6)
    assert BoundedSample.of([], -1, 1).interval() == (-1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_adjusted_evidence_is_the_closed_test_of_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    e = np.exp(rng.normal(0, 3, rng.integers(1, 7)))
    subsets = [s for k in range(1, len(e) + 1) for s in combinations(range(len(e)), k)]
    closed = [min(e[list(s)].mean() for s in subsets if i in s) for i in range(len(e))]
    assert np.exp(e_holm(np.log(e))) == pytest.approx(closed)


def test_nobody_who_looks_always_is_wrong_more_often_than_agreed() -> None:
    """400 sequences at the margin, each looked at after every example: Ville's bound is 1/40."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        chance = rng.random(1_500)
        x = (chance < 0.04).astype(float) - (chance > 0.98)
        returned = (1 - x) / (1 - 0.02)
        paths = np.cumsum(np.log1p(BETS[:, None] * (returned - 1)), axis=1)
        wealth = np.logaddexp.reduce(paths) - math.log(len(BETS))
        assert wealth[-1] == pytest.approx(BoundedSample.of(x, -1, 1).below(0.02))
        wrong += wealth.max() >= math.log(40)
    assert wrong <= 18  # 99% of Binomial(400, 1/40)


def test_values_beyond_the_range_are_refused() -> None:
    with pytest.raises(DataError, match=r"from -1 to 1, got 0 to 2"):
        BoundedSample.of([0.0, 2.0], -1, 1)
