"""Labels that exported models change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from scotoma.divergence.parity import label_parity
from scotoma.errors import DataError


def labels(n: int, differ: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a network, and of a model that changes the first `differ`."""
    network = np.arange(n) % 3
    return network, np.where(np.arange(n) < differ, (network + 1) % 3, network)


@pytest.mark.parametrize(("n", "differ"), [(300, 0), (300, 7), (20, 20), (1798, 1)])
def test_the_interval_is_clopper_and_pearsons(n: int, differ: int) -> None:
    (row,) = label_parity(*labels(n, differ), [[True] * n], ["all"])
    expected = binomtest(differ, n).proportion_ci(0.95, method="exact")
    assert (row.n, row.differ, row.value) == (n, differ, differ / n)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high))


def test_groups_are_compared_apart_and_an_empty_one_says_so() -> None:
    masks = np.stack([np.ones(100, bool), np.arange(100) < 10, np.zeros(100, bool)])
    everyone, first, nobody = label_parity(*labels(100, 5), masks, ["all", "first", "nobody"])
    assert (everyone.value, first.value) == (0.05, 0.5)
    assert (nobody.n, nobody.differ) == (0, 0)
    assert np.isnan([nobody.value, nobody.low, nobody.high]).all()
    assert nobody.reason == "undefined (no examples in group 'nobody')"


def test_rows_of_one_cluster_count_once() -> None:
    network, exported = labels(100, 5)
    (alone,) = label_parity(network, exported, [[True] * 100], ["all"])
    (doubled,) = label_parity(
        np.repeat(network, 4), np.repeat(exported, 4), [[True] * 400], ["all"],
        clusters=np.repeat(np.arange(100), 4),
    )  # fmt: skip
    assert (doubled.n, doubled.differ, doubled.value) == (100, 20, alone.value)
    assert doubled.low == pytest.approx(alone.low, rel=0.05)
    assert doubled.high == pytest.approx(alone.high, rel=0.05)


def test_one_large_cluster_is_no_large_sample() -> None:
    clusters = np.r_[np.zeros(50, int), np.arange(1, 51)]
    (row,) = label_parity(*labels(100, 50), [[True] * 100], ["all"], clusters=clusters)
    assert (row.n, row.value) == (51, 0.5)
    assert row.low < 0.1 < 0.9 < row.high


def test_a_label_more_that_differs_never_lowers_the_upper_bound() -> None:
    clusters = np.repeat(np.arange(300), 2)
    bounds = [
        label_parity(*labels(600, differ), [[True] * 600], ["all"], clusters=clusters)[0].high
        for differ in range(6)
    ]
    assert bounds == sorted(bounds)


def test_the_interval_of_clusters_covers_the_truth() -> None:
    rng, covered, rounds = np.random.default_rng(0), 0, 400
    for _ in range(rounds):
        rates = rng.beta(0.2, 1.8, 60)  # of clusters: 0.1 on average
        differ = (rng.random((60, 5)) < rates[:, None]).ravel()
        (row,) = label_parity(
            np.zeros(300, int), differ.astype(int), [[True] * 300], ["all"],
            clusters=np.repeat(np.arange(60), 5),
        )  # fmt: skip
        covered += row.low <= 0.1 <= row.high
    assert covered / rounds >= 0.93


def test_labels_of_other_examples_are_refused() -> None:
    with pytest.raises(DataError, match="same examples"):
        label_parity([0, 1], [0, 1, 1], [[True, True]], ["all"])
