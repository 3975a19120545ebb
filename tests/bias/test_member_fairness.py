"""Fairness of every member: beside fairlearn, and beside counts of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    demographic_parity_difference,
    demographic_parity_ratio,
    false_positive_rate_difference,
    true_positive_rate_difference,
)
from sklearn.metrics import confusion_matrix

from scotoma.bias.fairness import NAMES, fairness_metric
from scotoma.bias.member_fairness import member_fairness

N, MEMBERS, CLASSES = 600, 4, 5
RNG = np.random.default_rng(7)
LABELS = RNG.integers(0, CLASSES, N)
GROUP = RNG.integers(0, 3, N)
MASKS = np.arange(3)[:, None] == GROUP
PREDICTED = np.where(
    RNG.random((N, MEMBERS)) < 0.2, RNG.integers(0, CLASSES, (N, MEMBERS)), LABELS[:, None]
)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("DP", demographic_parity_difference),
        ("EOFP", false_positive_rate_difference),
        ("EOTP", true_positive_rate_difference),
    ],
)
def test_a_class_against_the_rest_is_as_fair_as_fairlearn_says(name, oracle):
    found = member_fairness(LABELS, PREDICTED, MASKS, n_classes=CLASSES, class_id=2)[name]
    wanted = [oracle(LABELS == 2, own == 2, sensitive_features=GROUP) for own in PREDICTED.T]
    assert found.values == pytest.approx(wanted)


def test_di_is_what_fairlearns_ratio_lacks_to_1():
    found = member_fairness(LABELS, PREDICTED, MASKS, n_classes=CLASSES, class_id=2)["DI"]
    ratio = [
        demographic_parity_ratio(LABELS == 2, own == 2, sensitive_features=GROUP)
        for own in PREDICTED.T
    ]
    assert found.values == pytest.approx(1 - np.array(ratio))


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_over_classes_is_that_of_scikit_learns_counts(name):
    tables = np.array(
        [[confusion_matrix(LABELS[m], own[m], labels=range(CLASSES)) for own in PREDICTED.T]
         for m in MASKS]
    )  # fmt: skip
    wanted = fairness_metric(name, tables)
    found = member_fairness(LABELS, PREDICTED, MASKS, n_classes=CLASSES)[name]
    np.testing.assert_allclose(found.values, wanted.overall)
    np.testing.assert_allclose(found.per_class, wanted.per_class)
    assert found.reason == ""


def test_what_is_undefined_for_a_class_says_why():
    kept = ~(MASKS[0] & (LABELS == 1))
    found = member_fairness(LABELS[kept], PREDICTED[kept], MASKS[:, kept], n_classes=CLASSES)
    assert np.isnan(found["EOTP"].values).all()
    assert found["EOTP"].reason == "undefined (no positives of class 1 in group 0)"
    assert not found["DP"].reason
