"""The gap between two groups: how much more the one rose than the other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scotoma.bias import amplification, gap
from scotoma.errors import DataError
from tests.bias.test_subgroup import NAMES, random_audit


def test_gap_is_the_difference_of_two_rises():
    labels, dense, compressed, groups = random_audit(7)
    said = {"positive": 1, "n_classes": 3}
    found = amplification(labels, dense, compressed, groups, NAMES, **said)
    rise = {(c.group, c.metric): c.absolute for c in found}
    for metric in ("error", "fpr", "fnr"):
        between = gap(labels, dense, compressed, groups[1], groups[2], metric=metric, **said)
        assert between["rise_a"].value == pytest.approx(rise["few", metric].value)
        assert between["rise_b"].high == pytest.approx(rise["many", metric].high)
        assert between["gap"].value == pytest.approx(
            between["rise_b"].value - between["rise_a"].value
        )


def test_gap_of_disjoint_groups_of_single_models_adds_their_variances():
    labels, dense, compressed, _ = random_audit(8, n=600, k=1, k_c=1)
    a = np.arange(600) < 200
    between = gap(labels, dense, compressed, a, ~a, n_classes=3)
    change = (compressed != labels[:, None])[:, 0] * 1.0 - (dense != labels[:, None])[:, 0]
    expected = change[a].var() / 200 + change[~a].var() / 400
    expected += 4 / 204**2 + 4 / 404**2  # a floor for each group; nearly all changes are by 1
    assert between["gap"].se ** 2 == pytest.approx(
        expected, rel=0.01
    )  # n - 1 stands for 599, not 199


def test_gap_between_a_group_and_itself_is_nothing():
    labels, dense, compressed, groups = random_audit(9)
    between = gap(labels, dense, compressed, groups[1], groups[1], n_classes=3)
    assert between["gap"].value == 0
    rise, size = between["rise_a"], groups[1].sum()
    wrong = (ids != labels[:, None] for ids in (dense, compressed))
    before, after = (events[groups[1]].mean(axis=1) for events in wrong)
    squares = (after - before - rise.value) ** 2
    m2 = (squares**2).sum() / squares.sum()
    assert squares.sum() ** 2 / (squares**2).sum() > 10
    assert between["gap"].se ** 2 == pytest.approx(
        2 * 4 * m2 / (size + 4) ** 2
    )  # either side's floor


def test_gap_counts_what_shared_clusters_share():
    # Each source gives one row to either group, with nearly the same fate: the rises go together.
    rng = np.random.default_rng(10)
    hard = np.repeat(rng.normal(size=400), 2)[:, None]
    dense = (hard + 0.1 * rng.normal(size=(800, 5)) > 1).astype(int)
    compressed = (hard + 0.1 * rng.normal(size=(800, 5)) > 0.7).astype(int)
    a, source = np.arange(800) % 2 == 0, np.arange(800) // 2
    labels = np.zeros(800, int)
    joined = gap(labels, dense, compressed, a, ~a, n_classes=2, clusters=source)["gap"]
    apart = gap(labels, dense, compressed, a, ~a, n_classes=2)["gap"]
    assert joined.se < 0.7 * apart.se
    assert (joined.n, apart.n) == (400, 800)


def test_gap_of_pairs_leaves_out_what_the_pairs_share():
    # Runs favour one group or the other, and the compressed member keeps its run.
    rng = np.random.default_rng(14)
    a = np.arange(600) < 300
    latent = rng.normal(size=(600, 6)) + np.where(a[:, None], 1, -1) * rng.normal(size=6)
    predictions = np.zeros(600, int), (latent > 1).astype(int), (latent > 0.8).astype(int)
    paired = gap(*predictions, a, ~a, n_classes=2, paired=True)["gap"]
    apart = gap(*predictions, a, ~a, n_classes=2)["gap"]
    assert paired.value == apart.value
    assert paired.se < 0.5 * apart.se


def test_gap_without_negatives_is_undefined():
    labels, dense, compressed, groups = random_audit(11)
    between = gap(
        labels, dense, compressed, labels == 1, groups[0],
        names=("blond", "all"), metric="fpr", positive=1, n_classes=3,
    )  # fmt: skip
    assert math.isnan(between["gap"].value)
    assert between["gap"].reason == "undefined (no negatives in group 'blond')"


def test_gap_offers_its_metrics():
    labels, dense, compressed, groups = random_audit(13)
    with pytest.raises(
        DataError, match="metric must be one of error, got 'fpr': pass the positive"
    ):
        gap(labels, dense, compressed, groups[1], groups[2], metric="fpr", n_classes=3)
