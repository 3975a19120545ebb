"""The count model and audits drawn from it: bivariate normals, quadrature, draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kurtosis, multivariate_normal, norm

from scotoma.errors import DataError
from scotoma.numbers import Tally, n_effective
from scotoma.numbers.crossed import combine
from scotoma.power.model import Design, Probit, both_below, expected_parts
from scotoma.power.simulate import PlantedGroup, draw_events, planted_audit

PURE = Probit(difficulty_sd=0, run_sd=0)  # every member errs on its own: binomial counts


# --- the count model ------------------------------------------------------------------------------


@settings(max_examples=50)
@given(a=st.floats(-5, 5), b=st.floats(-5, 5), correlation=st.floats(0, 0.99))
def test_chance_of_two_events_is_the_bivariate_normal_distribution(a, b, correlation):
    expected = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf([a, b])
    assert both_below(a, b, correlation) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.0, 1.3), (-0.7, 0.0), (0.0, -0.7)])
def test_chance_of_two_events_holds_where_a_rate_is_one_half(a, b):
    expected = multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]]).cdf([a, b])
    assert both_below(a, b, 0.6) == pytest.approx(expected, abs=1e-7)
    assert both_below(a, b, 1.0) == pytest.approx(norm.cdf(min(a, b)), abs=1e-15)


@pytest.mark.parametrize(("k", "k_c"), [(1, 1), (10, 10), (5, 12)])
def test_without_difficulty_and_run_effect_the_variance_is_that_of_two_binomials(k, k_c):
    n, p, p_c = 700, 0.04, 0.05
    design = Design(group_n=n, rate=p, members=k, compressed_members=k_c, errors=PURE)
    expected = (1 - p) / (n * k * p) + (1 - p_c) / (n * k_c * p_c)
    assert combine(*expected_parts(design, 0.25)).total == pytest.approx(expected, rel=1e-9)


WORLDS = {
    "unpaired": Design(group_n=400, rate=0.08, members=5, compressed_members=8),
    "paired": Design(group_n=400, rate=0.08, members=6, paired=True, errors=Probit(run_sd=0.3)),
    "one model each": Design(group_n=400, rate=0.08, members=1, paired=True),
    "few hard": Design(
        group_n=400, rate=0.08, members=6, errors=Probit(difficulty_sd=3, correlation=0.8)
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_expected_parts_of_the_variance_are_those_that_audits_find(world):
    design, relative, audits = WORLDS[world], 0.5, 500
    rng = np.random.default_rng(3)
    rates = design.rate * np.array([1, 1 + relative])
    at = [np.full(design.group_n, rate) for rate in rates]
    found, values = [], []
    for _ in range(audits):
        events = draw_events(*at, *design.sizes, design.errors, rng, paired=design.paired)
        moments = Tally.of(*events, paired=design.paired)
        # The gradients of the truth, so that the formula is exact, not of first order.
        variance = moments.variance(1 / rates[0], 1 / rates[1])
        found.append([variance.examples, variance.members, variance.residual])
        dense, compressed = moments.rates()
        values.append(compressed / rates[1] - dense / rates[0])
    expected = combine(*expected_parts(design, relative))
    parts = np.array([expected.examples, expected.members, expected.residual])
    error = np.std(found, axis=0, ddof=1) / math.sqrt(audits)
    assert (np.abs(np.mean(found, axis=0) - parts) <= 4 * error + 1e-12).all()
    # The estimates' own spread, and that each population errs at its rate.
    assert np.var(values, ddof=1) == pytest.approx(expected.total, rel=4 * math.sqrt(2 / audits))
    assert abs(np.mean(values)) <= 4 * math.sqrt(expected.total / audits)


@pytest.mark.parametrize("world", WORLDS)
def test_expected_kurtosis_is_that_of_one_large_audit(world):
    design, relative = replace(WORLDS[world], group_n=400_000, errors=Probit(run_sd=0)), 0.5
    rates = design.rate * np.array([1, 1 + relative])
    rng = np.random.default_rng(0)
    at = [np.full(design.group_n, rate) for rate in rates]
    dense, compressed = draw_events(*at, *design.sizes, design.errors, rng, paired=design.paired)
    psi = compressed.mean(1) / rates[1] - dense.mean(1) / rates[0]
    excess = float(expected_parts(design, relative)[1])
    assert kurtosis(psi, fisher=False) - 1 == pytest.approx(excess, rel=0.03)


def test_quadrature_of_the_model_in_plain_notation_gives_the_same_variance():
    # Cov of two members on one example, dense against compressed: E[P(z) Q(z')] - pq, by area.
    su, sr, rho, p, q = 1.5, 0.25, 0.9, 0.05, 0.08
    scale = math.sqrt(1 + su**2 + sr**2)

    z = np.linspace(-8, 8, 801)
    followed = rho * z[:, None] + math.sqrt(1 - rho**2) * z
    chances = [
        norm.cdf((su * u - norm.isf(rate) * scale) / math.hypot(1, sr))
        for u, rate in ((z, p), (followed, q))
    ]
    weight = norm.pdf(z) * (z[1] - z[0])
    joint = (weight * chances[0]) @ chances[1] @ weight
    errors = Probit(difficulty_sd=su, run_sd=sr, correlation=rho)
    few, many = (
        combine(*expected_parts(Design(group_n=n, rate=p, members=200, errors=errors), q / p - 1))
        for n in (1_000, 2_000)
    )
    alone = [  # V_ex of one population: what it has less the part shared
        both_below(x, x, su**2 / scale**2) / rate**2 - 1
        for x, rate in ((norm.ppf(p), p), (norm.ppf(q), q))
    ]
    # V_ex - V_res is the examples' own variance, whatever the number of members.
    expected = sum(alone) - 2 * (joint / (p * q) - 1)
    assert (few.examples - few.residual) * 1_000 == pytest.approx(expected, rel=1e-6)
    assert (many.examples - many.residual) * 2_000 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("k", [1, 10])
def test_effective_events_of_a_rate_are_those_of_audits(k):
    design = Design(group_n=170, rate=0.01, members=k)
    rng = np.random.default_rng(1)
    at = np.full(170, 0.01)
    found = [
        n_effective(draw_events(at, at, k, 1, design.errors, rng)[0].sum(1)) for _ in range(600)
    ]
    mean, spread = design.effective_events()
    assert np.mean(found) == pytest.approx(mean, abs=5 * spread / math.sqrt(600))
    assert np.std(found) == pytest.approx(spread, rel=0.15)


# --- audits with planted truth --------------------------------------------------------------------


def test_planted_audit_errs_as_planted_in_every_group_and_class():
    planted = [
        PlantedGroup(name="men", n=6_000, rate=0.05, relative=0.6, positives=0.3),
        PlantedGroup(name="women", n=4_000, rate=0.2),
    ]
    audit = planted_audit(planted, members=60, errors=Probit(run_sd=0), seed=4)
    assert audit.names == ["men", "women"]
    assert audit.groups.sum(1).tolist() == [6_000, 4_000]
    assert audit.labels[:6_000].mean() == pytest.approx(0.3)
    wrong = [predicted != audit.labels[:, None] for predicted in (audit.dense, audit.compressed)]
    for group, mask in zip(planted, audit.groups, strict=True):
        for y in (0, 1):
            rows = mask & (audit.labels == y)
            # Half of the variance of an event is its example's: at most 4 sd of that.
            for events, rate in zip(wrong, (group.rate, group.compressed_rate), strict=True):
                assert events[rows].mean() == pytest.approx(
                    rate, abs=4 * math.sqrt(rate / rows.sum())
                )
    assert planted_audit(planted, members=2, seed=9).dense.tobytes() == (
        planted_audit(planted, members=2, seed=9).dense.tobytes()
    )


def test_a_population_of_one_member_errs_as_planted_whatever_the_runs_do():
    errors, n = Probit(difficulty_sd=0, run_sd=0.8), 20_000
    for seed in range(5):
        audit = planted_audit(
            [PlantedGroup(name="all", n=n, rate=0.1)], members=1, compressed_members=3,
            errors=errors, seed=seed,
        )  # fmt: skip
        wrong = (audit.dense != audit.labels[:, None]).mean(0)
        assert wrong == pytest.approx([0.1], abs=4 * math.sqrt(0.09 / n))
        assert np.ptp((audit.compressed != audit.labels[:, None]).mean(0)) > 0.02


def test_a_member_has_the_same_luck_in_every_group():
    halves = [PlantedGroup(name=name, n=20_000, rate=0.1) for name in ("a", "b")]
    audit = planted_audit(halves, members=40, errors=Probit(run_sd=0.3), seed=0)
    wrong = audit.dense != audit.labels[:, None]
    rates = [wrong[mask].mean(0) for mask in audit.groups]
    assert np.corrcoef(*rates)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: planted_audit([], members=2, seed=0), "groups must hold at least one planted"),
        (
            lambda: PlantedGroup(name="men", n=0, rate=0.1),
            "group 'men': n must be at least 1, got 0: plant examples",
        ),
        (
            lambda: PlantedGroup(name="men", n=9, rate=0.6, relative=1.0),
            "group 'men': relative must leave the compressed rate in (0, 1), got 1.2",
        ),
        (
            lambda: PlantedGroup(name="men", n=9, rate=0.6, positives=50),
            "group 'men': positives must be a share in [0, 1], got 50: write 0.5 for half",
        ),
    ],
)
def test_what_cannot_be_planted_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(DataError) as refusal:
        ask()
    assert sentence in str(refusal.value)
