from __future__ import annotations

import json
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from scotoma.bias import amplification, counts, gap, group_changes, rates, tally
from scotoma.document.jsonable import jsonable
from scotoma.errors import DataError

# Hooker et al. (2020), Characterising Bias in Compressed Models, per cent: table 5 (baseline and
# 95% sparsity) and table 3 (normalised difference at 95% sparsity). The columns FY and FO of both
# tables repeat Y and O and are left out.
COLUMNS = ["aggregate", "M", "F", "Y", "O", "MY", "MO"]
TABLE_5 = {
    "error": (
        [5.30, 2.37, 7.15, 5.17, 5.73, 2.28, 2.50],
        [6.61, 2.95, 8.92, 6.23, 7.78, 2.47, 3.73],
    ),
    "fpr": (
        [2.73, 0.93, 4.12, 2.59, 3.18, 0.81, 1.12],
        [3.08, 1.39, 4.39, 2.67, 4.32, 0.86, 2.25],
    ),
    "fnr": (
        [22.03, 62.65, 19.09, 21.35, 24.47, 60.45, 66.87],
        [29.57, 67.92, 26.78, 28.57, 33.13, 66.02, 71.53],
    ),
}
TABLE_3 = {
    "error": [24.63, 24.49, 24.67, 20.64, 35.84, 7.96, 49.12],
    "fpr": [12.72, 49.54, 6.32, 3.35, 36.02, 5.37, 101.88],
    "fnr": [34.22, 8.41, 40.30, 33.83, 35.39, 9.21, 6.98],
}


@pytest.mark.parametrize("metric", ["error", "fpr", "fnr"])
def test_relative_change_of_table_5_prints_table_3_within_rounding(metric):
    # 10,000 examples a group hold every rate of table 5 exactly: 0.93% is 93 examples.
    size, label = 10_000, int(metric == "fnr")
    wrong = np.rint(np.array(TABLE_5[metric]) * 100).astype(int)
    member = np.arange(size) < wrong[..., None]
    dense, compressed = np.where(member, 1 - label, label).reshape(2, -1, 1)
    groups = np.repeat(np.eye(len(COLUMNS), dtype=bool), size, axis=1)
    labels = np.full(groups.shape[1], label)
    found = amplification(labels, dense, compressed, groups, COLUMNS, positive=1, n_classes=2)
    ours = {change.group: change for change in found if change.metric == metric}
    for column, p_d, p_c, printed in zip(COLUMNS, *TABLE_5[metric], TABLE_3[metric], strict=True):
        # Both rates are rounded to 0.005: that moves 100 (p_c/p_d - 1) by up to this much.
        rounding = 100 * (0.005 / p_d + p_c * 0.005 / p_d**2) + 0.005
        assert 100 * ours[column].relative.value == pytest.approx(printed, abs=rounding), column
        assert ours[column].absolute.value == pytest.approx((p_c - p_d) / 100, abs=1e-12)


def random_audit(seed, n=300, k=4, k_c=3, classes=3):
    """Labels, predictions of both populations and overlapping groups, all different."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    hard = rng.random((n, 1))
    dense = np.where(
        rng.random((n, k)) * hard > 0.3, rng.integers(0, classes, (n, k)), labels[:, None]
    )
    compressed = np.where(
        rng.random((n, k_c)) * hard > 0.2, rng.integers(0, classes, (n, k_c)), labels[:, None]
    )
    groups = np.stack([np.ones(n, bool), rng.random(n) < 0.3, rng.random(n) < 0.6])
    return labels, dense, compressed, groups


NAMES = ["all", "few", "many"]


def test_counts_are_sklearns_confusion_matrices():
    labels, dense, _, groups = random_audit(1)
    ours = counts(labels, dense.astype(np.int16), groups, 3)
    assert ours.dtype == np.int64
    for g, mask in enumerate(groups):
        for m in range(dense.shape[1]):
            oracle = confusion_matrix(labels[mask], dense[mask, m], labels=[0, 1, 2])
            np.testing.assert_array_equal(ours[g, m], oracle)


@pytest.mark.parametrize("positive", [None, 1])
@pytest.mark.parametrize("clustered", [False, True])
def test_rates_are_those_of_the_counts(positive, clustered):
    labels, dense, _, groups = random_audit(3)
    clusters = np.arange(len(labels)) // 2 if clustered else None
    table = counts(labels, dense, groups, 3).mean(1)  # every member has the same denominators
    for rate in rates(
        labels, dense, groups, NAMES, positive=positive, n_classes=3, clusters=clusters
    ):
        cells = table[NAMES.index(rate.group)]
        c = positive if rate.class_id is None else rate.class_id
        if rate.metric == "error" and positive is None:
            expected = 1 - np.trace(cells) / cells.sum()
        else:
            false_positive = cells[:, c].sum() - cells[c, c]
            false_negative = cells[c].sum() - cells[c, c]
            expected = {
                "error": (false_positive + false_negative) / cells.sum(),
                "fpr": false_positive / (cells.sum() - cells[c].sum()),
                "fnr": false_negative / cells[c].sum(),
            }[rate.metric]
        assert rate.rate.value == pytest.approx(expected, rel=1e-12)
        assert 0 < rate.rate.low < expected < rate.rate.high < 1


@pytest.mark.parametrize("positive", [None, 2])
@pytest.mark.parametrize("paired", [False, True])
def test_additive_route_gives_the_intervals_of_the_rows(positive, paired):
    labels, dense, compressed, groups = random_audit(4, k_c=4)
    said = {"positive": positive, "n_classes": 3, "paired": paired}
    whole = amplification(labels, dense, compressed, groups, NAMES, **said)
    own = np.random.default_rng(0).permutation(300)  # every row a cluster of its own
    rows = amplification(labels, dense, compressed, groups, NAMES, clusters=own, **said)
    for a, b in zip(whole, rows, strict=True):
        assert (a.group, a.metric, a.class_id) == (b.group, b.metric, b.class_id)
        for name in ("dense", "compressed", "relative", "absolute"):
            x, y = getattr(a, name), getattr(b, name)
            np.testing.assert_allclose(
                [x.value, x.low, x.high, x.n, x.events, x.df],
                [y.value, y.low, y.high, y.n, y.events, y.df],
                rtol=1e-10,
            )


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), cut=st.integers(1, 299), paired=st.booleans())
def test_shards_are_merged_into_the_same_table(seed, cut, paired):
    labels, dense, compressed, groups = random_audit(seed, k_c=4)
    parts = [
        tally(labels[s], dense[s], compressed[s], groups[:, s], n_classes=3, paired=paired)
        for s in (slice(cut, None), slice(cut))
    ]
    whole = amplification(labels, dense, compressed, groups, NAMES, n_classes=3, paired=paired)
    assert repr(group_changes(reduce(add, parts), NAMES, n_classes=3)) == repr(whole)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), cut=st.integers(1, 99), paired=st.booleans())
def test_shards_of_whole_sources_are_merged_into_the_same_table(seed, cut, paired):
    labels, dense, compressed, groups = random_audit(seed, k_c=4)
    sources = np.sort(np.random.default_rng(seed).integers(0, 100, 300))
    said = {"n_classes": 3, "paired": paired}
    parts = [
        tally(labels[s], dense[s], compressed[s], groups[:, s], clusters=sources[s], **said)
        for s in (sources >= cut, sources < cut)
        if s.any()
    ]
    whole = amplification(labels, dense, compressed, groups, NAMES, clusters=sources, **said)
    merged = group_changes(reduce(add, parts), NAMES, n_classes=3)
    for a, b in zip(merged, whole, strict=True):
        for name in ("dense", "compressed", "absolute", "relative"):
            one, other = getattr(a, name), getattr(b, name)
            assert (one.n, one.reason, one.note) == (other.n, other.reason, other.note)
            np.testing.assert_allclose(
                [one.value, one.low, one.high, one.df, one.events],
                [other.value, other.low, other.high, other.df, other.events],
                rtol=1e-8,
            )


def test_a_source_that_is_cut_counts_once_in_each_shard():
    labels, sources = np.zeros(400, int), np.arange(400) // 4
    fate = np.random.default_rng(1).random(100)[sources, None]
    dense = (fate < [0.1, 0.12, 0.14]).astype(int)
    compressed = (fate < [0.2, 0.25, 0.22]).astype(int)
    said = {"groups": np.ones((1, 400), bool), "n_classes": 2, "positive": 1}

    def shards(*masks):
        return reduce(
            add,
            [
                tally(labels[s], dense[s], compressed[s], np.ones((1, s.sum()), bool),
                      n_classes=2, positive=1, clusters=sources[s])
                for s in masks
            ],
        )  # fmt: skip

    row = np.arange(400)
    between, within = shards(row < 200, row >= 200), shards(row % 4 < 2, row % 4 >= 2)
    whole = amplification(labels, dense, compressed, names=["all"], clusters=sources, **said)[1]
    for moments, n in ((between, 100), (within, 200)):
        change = group_changes(moments, ["all"], n_classes=2, positive=1)[1]
        assert change.absolute.n == n
        assert change.absolute.value == pytest.approx(whole.absolute.value)
        cut = n == 200
        assert (change.absolute.se < 0.8 * whole.absolute.se) == cut


def test_changes_and_gaps_survive_json():
    labels, dense, compressed, groups = random_audit(6)
    found = amplification(labels, dense, compressed, groups, NAMES, positive=1, n_classes=3)
    first = json.loads(json.dumps(jsonable(found[0]), allow_nan=False))
    assert first["relative"]["value"] == found[0].relative.value
    assert first["relative_variance"]["examples"] == found[0].relative_variance.examples
    between = gap(labels, dense, compressed, groups[1], groups[2], n_classes=3)
    read = json.loads(json.dumps(jsonable(between), allow_nan=False))
    assert read["gap"]["value"] == between["gap"].value


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"names": ["a", "a", "b"]},
            "names must name each of 3 groups once, got 3 names, 2 of them different: "
            "pass one name per group",
        ),
        (
            {"positive": 3},
            "positive must be a class id from 0 to 2, got 3: name one of the classes, or None for "
            "every class against the rest",
        ),
        ({"level": 0.0}, "level must be a fraction in (0, 1), got 0.0: write 0.95 for 95%"),
        (
            {"groups": np.ones((3, 299), bool)},
            "groups must have shape (3, 300), got (3, 299): pass one row per prediction, in the "
            "same order",
        ),
    ],
)
def test_bad_input_gets_one_sentence(change, sentence):
    labels, dense, compressed, groups = random_audit(12)
    said = {"groups": groups, "names": NAMES, "n_classes": 3, **change}
    with pytest.raises(DataError) as caught:
        amplification(labels, dense, compressed, **said)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("ids", [[1.0, float("nan")], [1, None], ["a", float("nan")]])
def test_a_row_without_a_cluster_is_refused_and_not_joined_to_others(ids: list[object]) -> None:
    clusters = np.array(ids, dtype=float if ids[0] == 1.0 and None not in ids else object)
    with pytest.raises(DataError, match="got 1 of 2 rows without one"):
        rates([0, 1], [[0], [1]], [[True, True]], ["all"], n_classes=2, clusters=clusters)


def test_no_group_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="at least one group, got none"):
        rates([0, 1], [[0], [1]], np.zeros((0, 2), bool), [], n_classes=2)
