"""Labels that exported models change."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from scotoma.datasets import AuditedExamples
from scotoma.divergence.parity import label_parity
from scotoma.errors import DataError
from scotoma.steps.measures.gallery import PAIRS, gallery_pairs


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


# --- the pairs of the gallery ---------------------------------------------------------------------


N = 60
IDS = [f"e{row:02d}" for row in range(N)]


def scores() -> pl.DataFrame:
    """40 CIEs of two classes, and 20 others, all but one of the first class."""
    return pl.DataFrame(
        {
            "example_id": IDS,
            "variant": ["int8"] * N,
            "cie": [row < 40 for row in range(N)],
            "taxicab": [float(row % 7) for row in range(N)],
            "dense_modal": ["a"] * N,
            "dense_votes": [3] * N,
            "compressed_modal": ["b"] * N,
            "compressed_votes": [2] * N,
        }
    )


def examples() -> AuditedExamples:
    """Examples with an attribute that is called as a score is."""
    labels = [["a", "b"][row % 2 if row < 42 else 0] for row in range(N)]
    table = pl.DataFrame({"example_id": IDS, "label": labels, "cie": ["old", "young"] * (N // 2)})
    return AuditedExamples(table, ("a", "b"), ("cie",), ())


def test_the_most_divergent_cies_come_first_each_with_a_partner_of_its_class() -> None:
    assert gallery_pairs(scores(), examples(), 0) == gallery_pairs(scores(), examples(), 0, PAIRS)
    assert len(gallery_pairs(scores(), examples(), 0, None)) == 40
    pairs = gallery_pairs(scores(), examples(), 0, 15)
    assert len(pairs) == 15
    distances = [pair["cie"]["taxicab"] for pair in pairs]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] > 3
    partners = [pair["non_cie"] for pair in pairs if pair["non_cie"]]
    assert len({partner["example_id"] for partner in partners}) == len(partners)
    assert all(p["cie"]["label"] == p["non_cie"]["label"] for p in pairs if p["non_cie"])
    without = [pair["cie"]["label"] for pair in pairs if pair["non_cie"] is None]
    assert set(without) == {"b"}  # class b has one example that is no CIE


def test_an_attribute_that_is_called_as_a_score_keeps_its_values() -> None:
    for pair in gallery_pairs(scores(), examples(), 0):
        row = IDS.index(pair["cie"]["example_id"])
        assert pair["cie"]["attributes"] == {"cie": ["old", "young"][row % 2]}


def test_the_order_of_rows_decides_nothing() -> None:
    assert gallery_pairs(scores().reverse(), examples(), 0) == gallery_pairs(
        scores(), examples(), 0
    )
