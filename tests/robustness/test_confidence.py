"""Confidence against simulated truth, direct formulas and the slow curve."""

from __future__ import annotations

import numpy as np
import pytest

from scotoma.robustness.confidence import (
    Confident,
    abstention,
    abstention_threshold,
    area_under_risk,
    calibration_excess,
    confidence_gap,
)


def drawn(rng: np.random.Generator, n: int, members: int = 4, bias: float = 0.0) -> Confident:
    """Models that are right as often as they say, less `bias`."""
    hard = rng.normal(size=(1, n, 1))
    sure = 1 / (1 + np.exp(-(1.5 + hard + 0.5 * rng.normal(size=(1, n, members)))))
    return Confident(sure, rng.random((1, n, members)) < sure - bias)


def test_a_calibrated_model_has_no_excess_at_any_size() -> None:
    rng = np.random.default_rng(0)
    for n in (500, 2_000):
        audits = [drawn(rng, n) for _ in range(40)]
        excess = [calibration_excess(own).value for own in audits]
        assert np.mean(excess) == pytest.approx(0, abs=0.003)
        plain = [_calibration_error(own) for own in audits]
        assert np.mean(plain) > 0.015  # what is subtracted is not small


def _calibration_error(own: Confident) -> float:
    """ECE in 15 bins of equal mass, of each member, written down plainly."""
    errors = []
    for member in range(own.members):
        order = np.argsort(own.confidence[0, :, member], kind="stable")
        parts = np.array_split(order, 15)
        errors.append(
            sum(
                len(part)
                / len(order)
                * abs(own.confidence[0, part, member].mean() - own.right[0, part, member].mean())
                for part in parts
            )
        )
    return float(np.mean(errors))


def test_too_sure_models_have_a_gap_that_is_held() -> None:
    rng = np.random.default_rng(1)
    held, differ = 0, 0
    for _ in range(150):
        own, other = drawn(rng, 400, bias=0.1), drawn(rng, 400)
        gap = confidence_gap(own)
        held += gap.low <= 0.1 <= gap.high
        both = confidence_gap(own, other)
        differ += both.low <= 0.1 <= both.high
        assert both.value == pytest.approx(gap.value - confidence_gap(other).value)
    assert held >= 0.88 * 150
    assert differ >= 0.88 * 150


def test_models_that_abstain_answer_what_they_are_sure_of() -> None:
    own = drawn(np.random.default_rng(2), 3_000)
    threshold = abstention_threshold(own.confidence, 0.8)
    both = abstention(own, threshold)
    answered = own.confidence >= threshold
    assert both.coverage.value == pytest.approx(answered.mean())
    assert both.coverage.value == pytest.approx(0.8, abs=0.001)
    assert both.selective_error.value == pytest.approx(1 - own.right[answered].mean())
    assert both.selective_error.low < both.selective_error.value < both.selective_error.high
    assert abstention(own, 1.1).selective_error.reason == "undefined (nothing is answered)"


def test_the_area_under_risk_is_that_of_the_curve() -> None:
    own = drawn(np.random.default_rng(3), 4_000, members=2)
    areas = []
    for member in range(2):
        order = np.argsort(-own.confidence[0, :, member], kind="stable")
        wrong = ~own.right[0, order, member]
        areas.append((np.cumsum(wrong) / np.arange(1, len(wrong) + 1)).mean())
    assert area_under_risk(own).value == pytest.approx(np.mean(areas), abs=0.002)


@pytest.mark.parametrize("measure", [calibration_excess, area_under_risk])
def test_blocks_left_out_give_the_spread_over_audits(measure) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(4)
    found = [measure(drawn(rng, 600, bias=0.08)) for _ in range(120)]
    spread = np.std([one.value for one in found])
    assert np.mean([one.se for one in found]) == pytest.approx(spread, rel=0.25)


def test_clusters_are_left_out_together() -> None:
    own = drawn(np.random.default_rng(5), 300)
    twice = Confident(np.repeat(own.confidence, 2, 1), np.repeat(own.right, 2, 1))
    ids = np.repeat(np.arange(300), 2)
    for measure in (confidence_gap, area_under_risk):
        one, other = measure(own), measure(twice, clusters=ids)  # type: ignore[operator]
        assert other.value == pytest.approx(one.value, abs=0.002)
        assert other.se == pytest.approx(one.se, rel=0.05)
        assert other.n == 300
