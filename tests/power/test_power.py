"""What an audit of a given size finds: closed forms, and audits with planted truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from scotoma.bias import GroupChange, amplification
from scotoma.errors import DataError
from scotoma.numbers.crossed import combine
from scotoma.power.forecast import forecast, promised_power
from scotoma.power.model import Design, Probit, expected_parts
from scotoma.power.simulate import PlantedGroup, planted_audit

PAIRS = Design(group_n=400, rate=0.08, members=6, paired=True, errors=Probit(run_sd=0.3))


def fpr_change(design: Design, relative: float, seed: int) -> GroupChange:
    """The change of the FPR that `amplification` sees in one audit with planted truth."""
    k, k_c = design.sizes
    men = PlantedGroup(
        name="men", n=design.group_n, rate=design.rate, relative=relative, positives=0
    )
    audit = planted_audit(
        [men], members=k, compressed_members=k_c, errors=design.errors, paired=design.paired,
        seed=seed,
    )  # fmt: skip
    changes = amplification(
        audit.labels, audit.dense, audit.compressed, audit.groups, audit.names, positive=1,
        n_classes=2, paired=design.paired, level=design.level,
    )  # fmt: skip
    return next(change for change in changes if change.metric == "fpr")


def test_smallest_amplification_of_binomial_counts_solves_the_textbook_equation():
    # log(1 + d) = (z(.975) + z(.8)) sqrt((1-p)/(nKp) + (1-p')/(nKp')), p' = p(1 + d).
    # With one model each nothing but the counts varies, and 16,000 events make t normal.
    n, p = 8_000_000, 0.002

    def missing(d):
        spread = sum((1 - rate) / (n * rate) for rate in (p, p * (1 + d)))
        return math.log1p(d) - (norm.ppf(0.975) + norm.ppf(0.8)) * math.sqrt(spread)

    pure = Probit(difficulty_sd=0, run_sd=0)
    found = forecast(Design(group_n=n, rate=p, members=1, errors=pure)).value
    assert found == pytest.approx(brentq(missing, 1e-6, 1), rel=2e-3)
    # Many members of fewer examples: the same counts, and a larger of parts that estimate the same.
    crowd = forecast(Design(group_n=40_000, rate=p, members=200, errors=pure)).value
    assert found < crowd < 1.03 * found


@settings(max_examples=15)
@given(
    n=st.integers(200, 20_000),
    rate=st.floats(0.02, 0.3),
    k=st.just(1) | st.integers(5, 60),
    relative=st.floats(0.05, 1.0),
    paired=st.booleans(),
    run_sd=st.floats(0, 0.4),
)
def test_from_5_members_more_examples_members_events_or_effect_never_find_less(
    n, rate, k, relative, paired, run_sd
):
    design = Design(group_n=n, rate=rate, members=k, paired=paired, errors=Probit(run_sd=run_sd))
    power = promised_power(design, relative)
    assert 0 <= power <= 1
    better = [
        promised_power(replace(design, group_n=2 * n), relative),
        promised_power(replace(design, rate=1.4 * rate), relative),
        promised_power(design, 1.2 * relative),
    ]
    if k > 1:  # one member is another question: these two models, not all runs
        better.append(promised_power(replace(design, members=2 * k), relative))
    assert min(better) >= power - 1e-3
    stricter = replace(design, level=0.99), replace(design, limit=0.04)
    assert max(promised_power(other, relative) for other in stricter) <= power + 1e-3


def test_smallest_amplification_falls_with_examples_members_and_rate():
    design = Design(group_n=1_000, rate=0.03, members=6)
    found = forecast(design).value
    for more in ({"group_n": 1_500}, {"rate": 0.045}, {"members": 9}):
        assert forecast(replace(design, **more)).value < found
    assert forecast(replace(design, limit=0.2)).value > 0.2 + found
    assert forecast(design, power=0.9).value > found
    assert promised_power(design, found) == pytest.approx(0.8, abs=1e-6)


def test_where_nothing_rises_a_rise_is_found_about_as_often_as_the_level_allows():
    for design in (Design(group_n=2_700, rate=0.011, members=10), PAIRS):
        assert promised_power(design, 0.0) == pytest.approx(0.025, abs=0.008)
        assert promised_power(design, -0.5) < 0.001


def test_extreme_designs_have_a_power_and_no_warning():
    assert promised_power(Design(group_n=10, rate=1e-6, members=1), 1.0) < 1e-3
    alike = Probit(correlation=1, inheritance=1)
    copies = Design(group_n=500, rate=0.1, members=4, paired=True, errors=alike)
    assert combine(*expected_parts(copies, 0.0)).total == pytest.approx(0, abs=1e-12)
    assert promised_power(copies, 0.5) > 0.999
    hard = Design(group_n=10**9, rate=0.9, members=255, errors=Probit(difficulty_sd=20, run_sd=3))
    assert 0 < promised_power(hard, 0.01) < 1


DESIGNS = {
    "old men": {"group_n": 2_700, "rate": 0.011, "members": 10},
    "2 members": {"group_n": 400, "rate": 0.25, "members": 2},
    "3 members": {"group_n": 1_000, "rate": 0.05, "members": 3},
    "pairs, against a gate": {
        "group_n": 600, "rate": 0.06, "members": 8, "paired": True, "limit": 0.2, "level": 0.99,
    },
    "runs that differ much": {
        "group_n": 1_500, "rate": 0.04, "members": 5, "compressed_members": 12,
        "errors": Probit(run_sd=0.25),
    },
    "shipped": {"group_n": 3_000, "rate": 0.04, "members": 1, "paired": True},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_audits_find_the_smallest_amplification_as_often_as_promised(name):
    audits = 300
    design = Design(**DESIGNS[name])
    relative = forecast(design).value
    changes = [fpr_change(design, relative, seed) for seed in range(audits)]
    alpha = (1 - design.level) / 2
    share = np.mean([change.relative.p_above(design.limit) <= alpha for change in changes])
    # 99.7% of simulations with 80% lie within three errors of .023.
    assert abs(share - 0.8) <= 3 * math.sqrt(0.8 * 0.2 / audits), share


def test_a_gate_waits_for_enough_effective_events_and_the_promise_knows():
    free = Design(group_n=300, rate=0.017, members=10)
    gate = replace(free, min_events=15)
    assert promised_power(free, 2.0) > 0.97
    promised = promised_power(gate, 2.0)
    changes = [fpr_change(gate, 2.0, seed).relative for seed in range(300)]
    waits = np.array([change.events < gate.min_events for change in changes])
    detects = ~waits & np.array([change.low > 0 for change in changes])
    assert (waits | detects).sum() >= 0.97 * 300
    assert 0.2 < promised < 0.8
    assert promised == pytest.approx(detects.mean(), abs=0.1)


def test_no_increase_is_found_where_no_event_is_to_be_expected():
    rare = forecast(Design(group_n=170, rate=0.002, members=30))
    assert math.isnan(rare.value)
    assert rare.reason.startswith("no increase is found in 80% of audits, since only ")
    assert rare.reason.endswith(" have the 5 examples that must carry the rate")
    full = forecast(Design(group_n=20, rate=0.9, members=3))
    assert full.reason == "no increase is found in 80% of audits, not even up to a rate of 99.9%"


# --- refusals -------------------------------------------------------------------------------------

USUAL = {"group_n": 500, "rate": 0.05, "members": 5}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"group_n": 1}, "group_n must be at least 2 examples, got 1: a variance"),
        ({"rate": 0}, "rate must be a fraction in (0, 1), got 0: write 0.01 for 1%"),
        ({"rate": math.nan}, "rate must be a fraction in (0, 1), got nan"),
        ({"rate": 5}, "rate must be a fraction in (0, 1), got 5: write 0.01 for 1%"),
        ({"members": 0}, "members must be 1 to 255 in each population, got 0 and 0"),
        ({"compressed_members": 300}, "in each population, got 5 and 300: count trained models"),
        ({"compressed_members": 4, "paired": True}, "paired populations must have as many"),
        ({"level": 95}, "level must be a fraction in (0, 1), got 95: write 0.95 for 95%"),
        ({"limit": -0.1}, "limit must be a relative increase of at least 0, got -0.1"),
        ({"min_events": 2}, "min_events must be at least 5, got 2: below it a relative change"),
        ({"power": 0.01}, "power must be a fraction between 0.025 and 1, got 0.01"),
        ({"power": 80}, "power must be a fraction between 0.025 and 1, got 80: write 0.8"),
        ({"run_sd": -1}, "run_sd must be a standard deviation of at least 0, got -1"),
        ({"difficulty_sd": math.inf}, "difficulty_sd must be a standard deviation of at least 0"),
        ({"correlation": 1.5}, "correlation must lie in [0, 1], got 1.5"),
    ],
)
def test_a_design_that_cannot_be_is_refused_in_a_sentence(said, sentence):
    def ask():
        errors = {key: said[key] for key in said if key in vars(Probit())}
        asked = {key: said[key] for key in said if key not in (*errors, "power")}
        design = Design(**USUAL | asked, errors=Probit(**errors))
        return forecast(design, power=said.get("power", 0.8))

    with pytest.raises(DataError) as refusal:
        ask()
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: promised_power(Design(**USUAL), 19.0),
            "relative must leave the compressed rate in (0, 1), got 19, a rate of 1",
        ),
        (
            lambda: promised_power(Design(**USUAL), -1.0),
            "relative must leave the compressed rate in (0, 1), got -1, a rate of 0",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(DataError) as refusal:
        ask()
    assert sentence in str(refusal.value)
