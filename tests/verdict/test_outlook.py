"""What would settle an UNSURE: the forecast beside draws of what would happen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from scotoma.audit.gate import Forecast, Margins
from scotoma.numbers import Estimate, Variance
from scotoma.verdict.deciding import MOST_MODELS, outlook
from scotoma.verdict.evidence import Rise
from scotoma.verdict.gate_test import GateTest, rise_test

N = 400


def question(
    rise: float,
    *,
    examples: float = 1e-5,
    members: float = 4e-5,
    df: float = 8.0,
    k: int = 5,
    dense: float = 0.1,
    relative: float | None = None,
    clearing: float = 0.02,
    limit: float = 0.005,
) -> GateTest:
    """A rise of one group's error with these parts of its variance, and no residual."""
    variance = Variance(examples + members, examples, members, 0.0, df, 0.0)
    scaled = variance.scaled(1 / dense)
    rests = {"n": N, "members": k, "events": 30.0}
    change = Rise(
        dense=Estimate.on_scale(dense, 0.1, 9.0, scale="logit", **rests),
        compressed=Estimate.on_scale(dense + rise, 0.1, 9.0, scale="logit", **rests),
        relative=Estimate.on_scale(rise / dense, math.sqrt(scaled.total), df, scale="log", **rests),
        absolute=Estimate.on_scale(rise, math.sqrt(variance.total), df, **rests),
        relative_variance=scaled,
        absolute_variance=variance,
    )
    margins = Margins(relative=relative, absolute=limit, clearing=clearing)
    return rise_test("r", "error", "error male", change, margins, group="sex=male")


def forecast(asked: GateTest, together: int = 1) -> Forecast:
    known = outlook(asked, alpha=0.05, multiplier=1.0, together=together)
    assert known is not None
    return known


def test_more_models_settle_it_as_often_as_draws_say() -> None:
    """Members are drawn, the present five among them; the test set stays."""
    known = forecast(question(0.004, members=6e-5, df=10.8))
    assert (known.leaning, known.by, known.now) == ("PASS", "models", 5)
    rng = np.random.default_rng(0)
    shrinking = 5 * 6e-5  # variance of one member

    def passes(models: float) -> float:
        k = int(models)
        sd = np.sqrt(shrinking * stats.chi2.ppf((np.arange(400) + 0.5) / 400, 4) ** -1 * 4)
        centre = rng.normal(0.004, sd / np.sqrt(5), (50, 400))
        mean = (5 * 0.004 + (k - 5) * rng.normal(centre, sd / np.sqrt(k - 5))) / k
        half = 1.96 * np.sqrt(1e-5 + sd**2 / k)
        return float((mean + half <= 0.02).mean())

    assert passes(known.high) == pytest.approx(0.8, abs=0.08)
    assert passes(known.low) == pytest.approx(0.5, abs=0.12)
    assert known.low <= known.high <= MOST_MODELS


def test_what_lies_near_the_margin_may_end_either_way_and_gets_no_forecast() -> None:
    near = forecast(question(0.0195))
    assert near.by is None
    assert near.high is None
    assert near.passing_margin == pytest.approx(0.0195 + stats.t.ppf(0.975, 8) * math.sqrt(5e-5))


def test_a_margin_that_the_estimate_exceeds_helps_nothing() -> None:
    """+43% is beyond +20%, so that only the absolute margin can be kept."""
    alone, both = question(0.012, dense=0.028), question(0.012, dense=0.028, relative=0.2)
    assert forecast(both) == forecast(alone)


def test_a_margin_of_two_standard_errors_shrinks_as_the_examples_grow() -> None:
    wide = question(0.008, members=0.0, examples=5e-5, k=1)
    fixed = question(0.008, members=0.0, examples=5e-5, k=1, limit=0.02)
    assert forecast(fixed).by == "examples"
    assert forecast(wide).by is None  # at 4 times as many its margin is 1 point


def test_harm_beyond_the_margin_leans_to_fail() -> None:
    known = forecast(question(0.03, members=2e-4))
    assert (known.leaning, known.by) == ("FAIL", "models")


def test_more_tests_that_must_all_pass_take_more_models() -> None:
    easy = question(0.003, examples=1e-6, members=5e-5)
    assert forecast(easy, together=3).high > forecast(easy).high


@given(
    rise=st.floats(-0.1, 0.1),
    examples=st.floats(0, 1e-3),
    members=st.floats(0, 1e-3),
    df=st.floats(0.1, 1e12),
    k=st.integers(1, 60),
)
@example(rise=-0.09999999999999999, examples=0.0, members=0.0, df=1.0, k=1)  # a rate of 1e-17
def test_no_forecast_asks_for_more_models_than_a_population_has(
    rise: float, examples: float, members: float, df: float, k: int
) -> None:
    known = outlook(
        question(rise, examples=examples + 1e-9, members=members if k >= 5 else 0.0, df=df, k=k),
        alpha=0.05,
        multiplier=3.0,
        together=2,
    )
    assert known is None or known.by != "models" or known.now < known.low <= known.high <= 255
