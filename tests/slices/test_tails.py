from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scotoma.numbers import benjamini_hochberg, holm
from scotoma.numbers.multiplicity import adjust
from scotoma.slices.judging.rates import hypergeometric_tail, newcombe, sign_tail
from tests.slices.searching import prepared


@settings(max_examples=60)
@given(rows=st.integers(2, 5000), data=st.data())
def test_tails_are_those_of_scipys_hypergeometric(rows, data):
    all_events = data.draw(st.integers(0, rows))
    size = np.array(data.draw(st.lists(st.integers(1, rows), min_size=1, max_size=20)))
    shares = np.array(data.draw(st.lists(st.floats(0, 1), min_size=size.size, max_size=size.size)))
    lowest, highest = np.maximum(0, size + all_events - rows), np.minimum(size, all_events)
    events = (lowest + np.round(shares * (highest - lowest))).astype(int)
    ours = hypergeometric_tail(events, size, all_events, rows)
    theirs = stats.hypergeom.sf(events - 1, rows, all_events, size)
    # Complements lose their last digits: below 1e-9 only sums of the tail itself are compared.
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-11)
    small = theirs < 0.3
    np.testing.assert_allclose(ours[small], theirs[small], rtol=1e-8)


def test_tail_reaches_the_p_values_that_a_corrected_search_needs():
    events, size = np.arange(20, 90, 5), 100
    ours = hypergeometric_tail(events, np.full(events.size, size), 6_000, 48_842)
    theirs = stats.hypergeom.sf(events - 1, 48_842, 6_000, size)
    assert ours.min() < 1e-60
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_eight_wrong_of_thirty_at_five_per_cent_are_no_score_statistics_matter():
    # Exact 8e-5 where the score statistic says 3e-8: 3,000 times too small.
    (exact,) = hypergeometric_tail([8], [30], 50_000, 1_000_000)
    score = stats.norm.sf((8 / 30 - 0.05) / np.sqrt(0.05 * 0.95 / 30))
    assert exact == pytest.approx(stats.binom.sf(7, 30, 0.05), rel=1e-3)
    assert 1_000 < exact / score < 5_000


def test_tails_beyond_the_level_may_be_left_unsummed_but_never_those_within():
    rng = np.random.default_rng(0)
    size = rng.integers(1, 400, 2_000)
    events = rng.hypergeometric(300, 2_700, size)
    whole = hypergeometric_tail(events, size, 300, 3_000)
    cut = hypergeometric_tail(events, size, 300, 3_000, keep=0.05)
    np.testing.assert_array_equal(cut[whole <= 0.05], whole[whole <= 0.05])
    assert (cut[whole > 0.05] > 0.05).all()


@given(st.integers(0, 300), st.integers(0, 300))
def test_sign_tail_is_scipys_binomial_test(worse, better):
    (ours,) = sign_tail([worse], [worse + better])
    if worse + better:
        theirs = stats.binomtest(worse, worse + better, alternative="greater").pvalue
        assert ours == pytest.approx(theirs, rel=1e-9)
    else:
        assert ours == 1.0


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_a_rate_is_judged_by_fishers_exact_test(direction):
    rng = np.random.default_rng(1)
    events, inside = rng.random(400) < 0.2, rng.random(400) < 0.15
    judged = prepared(events.astype(float), direction=direction, min_size=1).judge(
        inside[None].astype(int), 2
    )
    table = [[(events & inside).sum(), (~events & inside).sum()]]
    table += [[(events & ~inside).sum(), (~events & ~inside).sum()]]
    side = {"higher": "greater", "lower": "less"}[direction]
    assert judged.p[1] == pytest.approx(stats.fisher_exact(table, side).pvalue, rel=1e-9)
    assert judged.effect[1] == pytest.approx(events[inside].mean() - events[~inside].mean())


def test_two_models_are_judged_by_the_examples_on_which_they_differ():
    after, before = np.array([1] * 9 + [0] * 91), np.array([0] * 9 + [1] * 2 + [0] * 89)
    inside = np.ones((1, 100), int)
    for direction, side in (("higher", "greater"), ("lower", "less"), ("both", "two-sided")):
        judged = prepared(after, baseline=before, direction=direction).judge(inside, 2)
        assert judged.p[0] == pytest.approx(stats.binomtest(9, 11, alternative=side).pvalue)
        assert judged.effect[0] == pytest.approx(0.07)


# Newcombe (1998), Statistics in Medicine 17:873-890, Table II, method 10.
@pytest.mark.parametrize(
    ("k", "n", "j", "m", "low", "high"),
    [
        (56, 70, 48, 80, 0.0524, 0.3339),
        (9, 10, 3, 10, 0.1705, 0.8090),
        (10, 10, 0, 20, 0.6791, 1.0),
        (5, 56, 0, 29, -0.0381, 0.1926),
    ],
)
def test_difference_of_rates_has_newcombes_interval(k, n, j, m, low, high):
    assert newcombe(k, n, j, m, 0.95) == pytest.approx((low, high), abs=5e-5)


@given(st.lists(st.floats(1e-12, 1), min_size=1, max_size=60), st.floats(0.001, 1))
def test_corrections_of_the_small_p_values_are_those_of_the_whole_family(values, bound):
    p = np.array(values)
    kept = p <= bound
    for name, whole in (("bh", benjamini_hochberg(p)), ("holm", holm(p))):
        ours = adjust(p[kept], name, p.size)
        small = whole[kept] <= bound
        np.testing.assert_allclose(ours[small], whole[kept][small], rtol=1e-12)
        assert (ours[~small] > bound * (1 - 1e-12)).all()
    by = adjust(p, "by")
    np.testing.assert_allclose(by, benjamini_hochberg(p, dependence=True), rtol=1e-12)
    np.testing.assert_allclose(adjust(p, "bonferroni"), np.minimum(p * p.size, 1))
    np.testing.assert_array_equal(adjust(p, "none"), p)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"baseline": np.arange(200) % 5 == 0},
        {"metric": "mean"},
        {"protocol": "published", "bootstrap": 5},
    ],
)
def test_a_slice_of_the_smallest_size_is_tested_and_a_smaller_one_is_not(options):
    keys = np.repeat([0, 1, 2], [30, 29, 141])[None]
    outcome = (np.arange(200) % 3 == 0).astype(float)
    given = {
        name: own.astype(float) if name == "baseline" else own for name, own in options.items()
    }
    assert prepared(outcome, min_size=30, **given).judge(keys, 3).cell.tolist() == [0, 2]
