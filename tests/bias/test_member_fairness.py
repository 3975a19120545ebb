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

from scotoma.bias.clarify.estimates import member_metrics
from scotoma.bias.fairness import NAMES, fairness_metric
from scotoma.bias.member_fairness import MOST_GROUPS, member_fairness

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


def test_very_many_groups_have_values_and_no_standard_error():
    rng = np.random.default_rng(0)
    n = 60 * MOST_GROUPS
    labels, predicted = rng.integers(2, size=n), rng.integers(2, size=(n, 2))
    for groups in (MOST_GROUPS, MOST_GROUPS + 1):
        masks = np.arange(n) % groups == np.arange(groups)[:, None]
        found = member_fairness(labels, predicted, masks, n_classes=2, class_id=1)["DP"]
        assert np.isfinite(found.values).all()
        assert (found.se > 0).all() == (groups == MOST_GROUPS)


def test_standard_errors_are_those_of_drawing_the_examples_again():
    """Against 100 test sets of 1,500 examples, for one class and away from 0."""
    rng = np.random.default_rng(3)
    drawn: dict[str, list[tuple[float, float]]] = {}
    for _ in range(100):
        d = rng.random(1_500) < 0.3
        y = rng.random(1_500) < np.where(d, 0.3, 0.5)
        p = rng.random((1_500, 1)) < np.where(y, 0.9 - 0.3 * d, 0.1 + 0.1 * d)[:, None]
        study = member_fairness(y * 1, p * 1, [d, ~d], n_classes=2, class_id=1)
        clarify = member_metrics(d=d, y=y, p=p, only=["DI", "RD", "TE", "GE", "DAR"])
        rows = {name: (one.values[0], one.se[0]) for name, one in study.items()}
        rows |= {f"clarify.{name}": (v[0], se[0]) for name, (v, se) in clarify.items()}
        for name, (value, se) in rows.items():
            drawn.setdefault(name, []).append((np.log(value) if "y.DI" in name else value, se))
    for name, pairs in drawn.items():
        values, errors = np.array(pairs).T
        if name == "BA":  # near 0, where an absolute value varies less than what it is of
            assert errors.mean() > values.std()
        else:
            assert errors.mean() == pytest.approx(values.std(), rel=0.25), name


def test_rows_of_a_cluster_count_as_one_that_stands_for_all_of_them():
    once = member_fairness(LABELS, PREDICTED, MASKS, n_classes=CLASSES, class_id=2)
    twice, same = (np.repeat(array, 2, axis=0) for array in (LABELS, PREDICTED))
    masks, clusters = np.repeat(MASKS, 2, axis=1), np.repeat(np.arange(N), 2)
    again = member_fairness(
        twice, same, masks, n_classes=CLASSES, class_id=2, clusters=clusters
    )  # fmt: skip
    for name in NAMES:
        assert again[name].se == pytest.approx(once[name].se, rel=0.05)
