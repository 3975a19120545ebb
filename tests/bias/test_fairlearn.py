"""Fairlearn as an oracle, wherever it has the metric."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
    false_negative_rate,
    false_positive_rate,
    selection_rate,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from scotoma.bias import counts, rates
from scotoma.bias.clarify import metric as clarify_metric
from scotoma.bias.fairness import fairness_metric

pytestmark = pytest.mark.slow


def audit(seed: int, n: int = 400, members: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions of several members and a group of three values, all unbalanced."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    labels = (rng.random(n) < 0.2 + 0.2 * group).astype(int)
    wrong = rng.random((n, members)) < (0.1 + 0.1 * group)[:, None]
    return labels, np.where(wrong, 1 - labels[:, None], labels[:, None]), group


def test_rates_of_every_group_are_fairlearns_averaged_over_members():
    labels, predicted, group = audit(1)
    names = ["a", "b", "c"]
    found = rates(labels, predicted, group == np.arange(3)[:, None], names, positive=1, n_classes=2)
    ours = {(row.group, row.metric): row.rate for row in found}
    frames = [
        MetricFrame(
            metrics={
                "fpr": false_positive_rate,
                "fnr": false_negative_rate,
                "error": lambda y_true, y_pred: 1 - accuracy_score(y_true, y_pred),
                "n": lambda y_true, y_pred: len(y_true),
            },
            y_true=labels,
            y_pred=member,
            sensitive_features=np.array(names)[group],
        ).by_group
        for member in predicted.T
    ]
    for name in names:
        for rate in ("fpr", "fnr", "error"):
            expected = np.mean([frame.loc[name, rate] for frame in frames])
            assert ours[name, rate].value == pytest.approx(expected), (name, rate)
        assert ours[name, "error"].n == frames[0].loc[name, "n"]


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_group_metrics_are_fairlearns(seed):
    labels, predicted, group = audit(seed, n=120, members=1)
    p = predicted[:, 0]
    table = counts(labels, predicted, group == np.arange(3)[:, None], 2)[:, 0]
    assume((table.sum(axis=2) > 0).all())
    assume(p.any())
    known = {"y_true": labels, "y_pred": p, "sensitive_features": group}
    expected = {
        "DP": demographic_parity_difference(**known),
        "DI": 1 - demographic_parity_ratio(**known),
        "EOTP": equal_opportunity_difference(**known),
    }
    for name, value in expected.items():
        assert fairness_metric(name, table).per_class[1] == pytest.approx(value), name
    larger = max(fairness_metric(name, table).per_class[1] for name in ("EOFP", "EOTP"))
    assert larger == pytest.approx(equalized_odds_difference(**known))


@pytest.mark.parametrize("seed", range(5))
def test_signed_clarify_metrics_are_differences_of_fairlearns_rates(seed):
    labels, predicted, group = audit(seed)
    p, d = predicted[:, 0], group == 2

    def by_facet(rate):
        frame = MetricFrame(metrics=rate, y_true=labels, y_pred=p, sensitive_features=d).by_group
        return frame[False], frame[True]

    known = {"d": d, "y": labels == 1, "p": p == 1}
    a, of_d = by_facet(selection_rate)
    assert clarify_metric("DPPL", **known) == pytest.approx(a - of_d)
    assert clarify_metric("DI", **known) == pytest.approx(of_d / a)
    a, of_d = by_facet(accuracy_score)
    assert clarify_metric("AD", **known) == pytest.approx(a - of_d)
    a, of_d = by_facet(false_negative_rate)  # recall = 1 - FNR
    assert clarify_metric("RD", **known) == pytest.approx(of_d - a)
    a, of_d = by_facet(false_positive_rate)  # specificity = 1 - FPR
    assert clarify_metric("SD", **known) == pytest.approx(a - of_d)
