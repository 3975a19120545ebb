"""What is said of a change that few examples carry, or none."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from scotoma.bias import amplification, rates
from tests.bias.test_subgroup import random_audit


def audit_of(dense_wrong, compressed_wrong, n, *, label=0, k=1, **said):
    """One group whose first examples are wrong, by every member alike: error, FPR, FNR."""
    row = np.arange(n)[:, None] * np.ones((1, k), int)
    dense, compressed = (
        np.where(row < wrong, 1 - label, label) for wrong in (dense_wrong, compressed_wrong)
    )
    labels, groups = np.full(n, label), np.ones((1, n), bool)
    found = amplification(
        labels, dense, compressed, groups, ["male & old"], positive=1, n_classes=2, **said
    )
    return {change.metric: change for change in found}


def test_rate_without_denominator_is_undefined_and_not_zero():
    change = audit_of(20, 30, 170, label=1)["fpr"]
    for estimate in (change.dense, change.compressed, change.relative, change.absolute):
        assert math.isnan(estimate.value)
        assert estimate.reason == "undefined (no negatives in group 'male & old')"
    assert math.isnan(change.relative.p_above(0.2))
    fnr = audit_of(20, 30, 170)["fnr"]
    assert fnr.absolute.reason == "undefined (no positives in group 'male & old')"


def test_empty_group_is_undefined():
    labels, dense, compressed, _ = random_audit(5)
    none = np.zeros((1, 300), bool)
    for change in amplification(labels, dense, compressed, none, ["men"], n_classes=3):
        assert math.isnan(change.absolute.value)
        assert change.absolute.reason.startswith("undefined (no examples")
    clusters = np.arange(300) // 3
    found = rates(labels, dense, none, ["men"], n_classes=3, clusters=clusters)
    assert found[0].rate.reason == "undefined (no examples in group 'men')"
    assert found[2].rate.reason == "undefined (no examples outside class 1 in group 'men')"
    assert found[6].rate.reason == "undefined (no examples of class 2 in group 'men')"


@pytest.mark.parametrize(("dense", "compressed"), [(0, 12), (12, 0)])
def test_no_event_in_one_population_leaves_the_absolute_difference(dense, compressed):
    change = audit_of(dense, compressed, 170)["fpr"]
    assert math.isnan(change.relative.value)
    assert change.relative.reason == (
        "relative change not estimable (no false positive among 170 negatives)"
    )
    assert change.absolute.value == pytest.approx((compressed - dense) / 170)
    assert change.absolute.low < change.absolute.value < change.absolute.high
    assert change.events == 0


def test_no_event_in_either_population_leaves_the_floor_of_the_difference():
    change = audit_of(0, 0, 170, k=3)["fpr"]
    assert change.relative.reason == (
        "relative change not estimable (no false positive among 170 negatives)"
    )
    assert change.absolute.value == 0
    half = 1.959964 * 2 / 174  # four flips among n + 4
    assert (change.absolute.low, change.absolute.high) == pytest.approx((-half, half))
    assert (change.dense.value, change.dense.low) == (0, 0)
    assert change.dense.high == pytest.approx(3 / 170)
    assert math.isnan(change.relative.p_above(0.2))


def test_classes_name_themselves_where_nothing_happened():
    labels = np.repeat([0, 1, 2], 40)
    predicted = labels[:, None].copy()
    predicted[:6] = 1
    found = amplification(
        labels, predicted, predicted, np.ones((1, 120), bool), ["all"], n_classes=3
    )
    reasons = {(c.metric, c.class_id): c.relative.reason for c in found}
    assert reasons["fpr", 2] == (
        "relative change not estimable (no false positive of class 2 among 80 examples outside "
        "class 2)"
    )
    assert reasons["fnr", 1] == (
        "relative change not estimable (no false negative of class 1 among 40 examples of class 1)"
    )
    assert reasons["fpr", 1] == ""


@pytest.mark.parametrize(
    ("events", "words"),
    [(1, "1 effective event"), (3, "3 effective events"), (4, "4 effective events")],
)
def test_a_change_of_fewer_than_five_effective_events_is_not_estimable(events, words):
    change = audit_of(events, 9, 500)["error"]
    assert change.relative.reason == f"relative change not estimable ({words}, 5 are needed)"
    assert math.isnan(change.relative.value)
    assert change.absolute.value == pytest.approx((9 - events) / 500)
    assert not math.isnan(change.absolute.low)
    assert change.absolute.note.startswith("few events")


def test_effective_events_are_counted_whole_and_compared_as_they_are():
    # Four examples that both members fail and one that one fails: 9^2 / (4 2^2 + 1) = 4.76 < 5.
    dense = np.zeros((300, 2), int)
    dense[:4], dense[4, 0] = 1, 1
    said = {"positive": 1, "n_classes": 2}
    compressed = (np.arange(300) < 20).astype(int)[:, None]
    group = np.ones((1, 300), bool)
    error = amplification(np.zeros(300, int), dense, compressed, group, ["all"], **said)[0]
    assert error.events == pytest.approx(81 / 17)
    reason = "relative change not estimable (4 effective events, 5 are needed)"
    assert error.relative.reason == reason


@pytest.mark.parametrize(("events", "few"), [(5, True), (9, True), (10, False)])
def test_change_carried_by_five_to_ten_examples_is_marked(events, few):
    change = audit_of(events, 30, 500, k=5)["error"]
    assert change.relative.value == pytest.approx(30 / events - 1)
    assert change.relative.note == ("few events" if few else "")
    assert change.relative.events == events


def test_the_rate_of_one_example_may_be_anything_and_its_change_has_no_interval():
    change = audit_of(1, 1, 1, k=3)["error"]
    assert change.dense.value == 1
    assert (change.dense.low, change.dense.high, change.dense.reason) == (0, 1, "")
    assert change.absolute.reason == "interval not estimable (one example)"


def test_relative_change_has_its_interval_on_the_log_scale_and_rates_on_the_logit_scale():
    change = audit_of(20, 34, 400)["error"]
    # psi is 1/p_c - 1/p_d on the 20, 1/p_c on 14 more and 0 elsewhere; its mean is 0.
    p_d, p_c = 20 / 400, 34 / 400
    squares = 20 * (1 / p_c - 1 / p_d) ** 2 + 14 / p_c**2
    fourths = 20 * (1 / p_c - 1 / p_d) ** 4 + 14 / p_c**4
    floor = 4 * fourths / squares / 404**2
    assert change.relative.se == pytest.approx(math.sqrt(squares / (400 * 399) + floor))
    low, middle, high = (
        math.log1p(value)
        for value in (change.relative.low, change.relative.value, change.relative.high)
    )
    assert middle == pytest.approx(math.log(34 / 20))
    assert high - middle == pytest.approx(middle - low)
    logit = [math.log(p / (1 - p)) for p in (change.dense.low, p_d, change.dense.high)]
    assert logit[2] - logit[1] == pytest.approx(logit[1] - logit[0])
    assert change.dense.se == pytest.approx(1 / math.sqrt(399 * p_d * (1 - p_d)))


def test_shipped_models_say_that_they_are_one_run():
    change = audit_of(12, 30, 500, paired=True)["error"]
    for estimate in (change.relative, change.absolute, change.dense):
        assert estimate.note == "one training run: says nothing about the next one"
        assert estimate.members == 1


def test_compressed_models_that_predict_the_same_are_cleared_by_the_number_of_examples():
    few, many = (audit_of(n // 10, n // 10, n, k=3, paired=True)["error"] for n in (100, 20_000))
    assert many.relative.value == 0
    # Four flips among n + 4; of the tenth that is wrong they are ten times the share.
    assert math.log1p(many.relative.high) == pytest.approx(1.959964 * 10 * 2 / 20_004)
    assert max(many.relative.p_below(0.2), many.absolute.p_below(0.005)) < 1e-6
    assert few.relative.p_below(0.2) == pytest.approx(
        NormalDist().cdf(-math.log(1.2) / (10 * 2 / 104))
    )
    assert many.relative.p_above(0.2) > 0.999
