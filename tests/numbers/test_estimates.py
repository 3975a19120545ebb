"""What an estimate says: its interval on its scale, its p-values, and those of a family."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    Estimate,
    Units,
    Variance,
    benjamini_hochberg,
    holm,
    none_seen,
)
from tests.numbers.test_variance import hard_examples


def test_single_mean_on_the_logit_scale_stays_inside_the_unit_interval():
    scores = hard_examples(np.random.default_rng(6), 25, 5, -1.2)
    mean = Units.of(25).mean(scores)
    plain, logit = mean.estimate(), mean.estimate("logit")
    assert plain.low < 0 < logit.low < logit.value < logit.high < 1
    assert plain.value == logit.value
    assert logit.df == pytest.approx(plain.df)  # the gradient cancels
    assert logit.se == pytest.approx(plain.se / (plain.value * (1 - plain.value)))


def test_t_not_normal_decides_the_width():
    d = hard_examples(np.random.default_rng(7), 200, 5)
    rate = Units.of(200).mean(d).estimate()
    assert rate.df < 30
    assert rate.high - rate.value == pytest.approx(stats.t.ppf(0.975, rate.df) * rate.se)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (np.zeros((0, 3)), "undefined (no examples)"),
        (np.ones((1, 3)), "interval not estimable (one example)"),
        (np.full((50, 3), 0.1), "interval not estimable (nothing varies over 50 examples)"),
    ],
)
def test_means_without_interval_say_why(scores, reason):
    estimate = Units.of(len(scores)).mean(scores).estimate()
    assert estimate.reason == reason
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)
    assert math.isnan(estimate.value) == (len(scores) == 0)


@given(
    value=st.floats(0.01, 0.99),
    se=st.floats(0.01, 2),
    df=st.floats(1, 1e6),
    level=st.floats(0.5, 0.999),
    scale=st.sampled_from(["identity", "logit", "log", "ratio"]),
)
def test_intervals_and_p_values_agree_at_every_level(value, se, df, level, scale):
    first = Estimate.on_scale(value, se, df, n=100, members=5, scale=scale)
    estimate = first.at(level)
    again = Estimate.on_scale(value, se, df, n=100, members=5, scale=scale, level=level)
    assert estimate == again
    if se * stats.t.ppf((1 + level) / 2, df) < 5:  # further out the ends run into 0 and 1
        assert estimate.p_above(estimate.low) == pytest.approx((1 - level) / 2, rel=1e-5)
    assert estimate.p_above(value) == pytest.approx(0.5)
    assert estimate.p_above(0.5) + estimate.p_below(0.5) == pytest.approx(1)


def test_rule_of_three_bounds_what_was_never_seen():
    change = none_seen(0.0, n=300, members=10, lowest=-1.0)
    assert (change.low, change.high) == pytest.approx((-0.01, 0.01))
    # Exactly: seeing none of 300 has probability 5% when the share is 0.993%.
    assert (1 - change.high) ** 300 == pytest.approx(0.05, abs=0.002)
    assert change.p_below(0.01) == pytest.approx(0.05)
    assert change.p_below(0.02) == pytest.approx(0.0025)
    assert change.p_above(0.01) == 1
    assert change.at(0.9975).high == pytest.approx(0.02)
    assert none_seen(0.0, n=2, members=1, lowest=0.0, highest=1.0).high == 1


def test_estimates_survive_json_with_nan_as_none():
    missing = Units.of(5).mean(np.zeros((5, 2))).estimate()
    text = json.dumps(missing.as_dict(), allow_nan=False)
    assert json.loads(text)["low"] is None
    third = Estimate.on_scale(1 / 3, 0.1, math.inf, n=3, members=2).as_dict()
    assert third["value"] == 1 / 3
    assert third["df"] == "inf"
    variance = Variance(1.0, 0.5, 0.5, 0.0, math.inf).as_dict()
    assert json.loads(json.dumps(variance, allow_nan=False))["total"] == 1


def test_holm_prints_the_published_steps():
    # Holm (1979) by hand: sorted 0.005, 0.011, 0.02, 0.04, times 4, 3, 2, 1, never falling.
    np.testing.assert_allclose(holm([0.02, 0.005, 0.04, 0.011]), [0.04, 0.02, 0.04, 0.033])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1, 1])


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=12))
def test_adjusted_p_values_keep_order_and_skip_what_was_not_tested(p):
    values = np.array(p, float)
    tested = ~np.isnan(values)
    for adjusted in (holm(p), benjamini_hochberg(p)):
        assert (np.isnan(adjusted) == ~tested).all()
        assert ((adjusted >= values) & (adjusted <= 1))[tested].all()
        order = np.argsort(values[tested], kind="stable")
        assert (np.diff(adjusted[tested][order]) >= 0).all()
    if tested.any():
        oracle = stats.false_discovery_control(values[tested], method="bh")
        np.testing.assert_allclose(benjamini_hochberg(p)[tested], oracle)


# --- p-values adjusted for how many were asked, against the papers' rule and example --------------


LEVELS = st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.012, 0.2, 0.9, 1.0]), min_size=1, max_size=9)


# Benjamini and Hochberg (1995), section 3: fifteen comparisons of two treatments after a heart
# attack.
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
    0.6528, 0.7590, 1.0,
]  # fmt: skip


@given(p=LEVELS, dependence=st.booleans())
def test_false_discovery_is_controlled_as_the_rule_says(p: list[float], dependence: bool) -> None:
    """The smallest level at which the step-up rule rejects each of them."""
    ordered, m = sorted(p), len(p)
    factor = sum(1 / rank for rank in range(1, m + 1)) if dependence else 1.0
    needed = [min(1.0, factor * m * value / rank) for rank, value in enumerate(ordered, 1)]
    expected = [min(needed[place:]) for place in (ordered.index(value) for value in p)]
    adjusted = benjamini_hochberg([*p, np.nan], dependence=dependence)
    assert adjusted[:-1] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(adjusted[-1])


def test_the_example_of_the_paper_rejects_four() -> None:
    assert (benjamini_hochberg(THROMBOLYSIS) <= 0.05).tolist() == [True] * 4 + [False] * 11


def test_no_test_at_all_leaves_nothing_to_adjust() -> None:
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    assert benjamini_hochberg([]).size == 0


# --- numbers on rows that stand for several examples ----------------------------------------------


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_stand_for_several_examples_give_the_numbers_of_these(weighed, paired):
    rng = np.random.default_rng(4)
    times = rng.integers(1, 6, 30)
    was, now = (rng.random((30, 6)) < share for share in (0.2, 0.4))
    risk = rng.random(30) < 0.7 if weighed else np.ones(30, bool)
    answers = []
    for units, rows in (
        (Units(30, None, times.astype(float)), np.arange(30)),
        (Units(int(times.sum())), np.repeat(np.arange(30), times)),
    ):
        before = units.mean(was[rows], risk[rows])
        after = units.mean(now[rows], risk[rows], axis=DENSE if paired else COMPRESSED)
        answers.append((after.since(before), after.since(before).estimate(), before.rate("")))
    (merged, *few), (_, *many) = answers
    for one, other in zip(few, many, strict=True):
        for name in ("value", "low", "high", "n", "events", "se", "df"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9), name
    assert merged.changed == pytest.approx(answers[1][0].changed)
