from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scotoma.slices.hashing import THRESHOLDS, hash_ids, mix, poisson_weights


def test_thresholds_are_the_poisson_distribution_in_64_bits():
    expected = stats.poisson.cdf(np.arange(len(THRESHOLDS)), 1)
    np.testing.assert_allclose(np.array(THRESHOLDS, float) / 2**64, expected, rtol=1e-14)
    assert THRESHOLDS[0] == 6786177901268885274  # floor(2^64 / e)


def test_weights_are_poisson_and_independent():
    weights = poisson_weights(np.arange(20_000), 8, 3)
    seen = np.bincount(weights.ravel(), minlength=8)[:8]
    expected = stats.poisson.pmf(np.arange(8), 1) * weights.size
    expected[-1] = weights.size - expected[:-1].sum()
    seen[-1] = weights.size - seen[:-1].sum()
    assert (
        stats.chisquare(seen[:7], expected[:7] * seen[:7].sum() / expected[:7].sum()).pvalue > 1e-3
    )
    between = np.corrcoef(weights.T)
    assert np.abs(between - np.eye(8)).max() < 0.03
    next_row = np.corrcoef(weights[1:, 0], weights[:-1, 0])[0, 1]
    assert abs(next_row) < 0.03


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True), st.integers(0, 99))
def test_a_weight_depends_on_seed_id_and_draw_alone(ids, seed):
    few, many = poisson_weights(ids, 3, seed), poisson_weights(ids[::-1], 5, seed)
    np.testing.assert_array_equal(few, many[::-1, :3])
    assert poisson_weights([ids[0]], 3, seed)[0].tolist() == few[0].tolist()


def test_weights_follow_the_stated_recipe():
    # The twin in plain integers: what another engine has to compute.
    (bits,) = hash_ids(["x"], 7).tolist()
    for draw, weight in enumerate(poisson_weights(["x"], 30, 7)[0].tolist()):
        counter = int(mix(np.array([draw ^ int(mix(np.array([7], np.uint64))[0])], np.uint64))[0])
        u = int(mix(np.array([bits ^ counter], np.uint64))[0]) / 2**64
        total, slow = math.exp(-1), 0
        while u >= total:
            slow += 1
            total += math.exp(-1) / math.factorial(slow)
        assert weight == slow


def test_hashes_are_those_of_splitmix64():
    def spread(x):
        z = (x + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    assert spread(0) == 0xE220A8397B1DCDAF  # first number of SplitMix64 seeded with 0
    assert hash_ids([5, 2**40], 3).tolist() == [spread(5 ^ spread(3)), spread(2**40 ^ spread(3))]
    assert hash_ids(["é1", "x"], 3).tolist() == [
        spread(spread(spread(3) ^ 233) ^ 49),
        spread(spread(3) ^ 120),
    ]
