from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from scotoma.bias import amplification, changes, counts, gap, rates, tally
from scotoma.errors import DataError
from scotoma.uncertainty import merge

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
        assert ours[column].relative.value == pytest.approx(printed, abs=rounding), column
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


def test_counts_do_not_depend_on_how_many_rows_are_coded_at_a_time(monkeypatch):
    labels, dense, _, groups = random_audit(2)
    whole = counts(labels, dense, groups, 3)
    monkeypatch.setattr("scotoma.bias.counting.CELLS_AT_ONCE", 50)
    np.testing.assert_array_equal(counts(labels, dense, groups, 3), whole)


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
    assert repr(changes(merge(parts), NAMES, n_classes=3)) == repr(whole)


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
    merged = changes(merge(parts), NAMES, n_classes=3)
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
        return merge(
            [
                tally(labels[s], dense[s], compressed[s], np.ones((1, s.sum()), bool),
                      n_classes=2, positive=1, clusters=sources[s])
                for s in masks
            ]
        )  # fmt: skip

    row = np.arange(400)
    between, within = shards(row < 200, row >= 200), shards(row % 4 < 2, row % 4 >= 2)
    whole = amplification(labels, dense, compressed, names=["all"], clusters=sources, **said)[1]
    for moments, n in ((between, 100), (within, 200)):
        change = changes(moments, ["all"], n_classes=2, positive=1)[1]
        assert change.absolute.n == n
        assert change.absolute.value == pytest.approx(whole.absolute.value)
        cut = n == 200
        assert (change.absolute.se < 0.8 * whole.absolute.se) == cut


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), paired=st.booleans(), clustered=st.booleans())
def test_order_of_examples_members_and_groups_changes_nothing(seed, paired, clustered):
    labels, dense, compressed, groups = random_audit(seed, k_c=4)
    rng = np.random.default_rng(seed)
    rows, members = rng.permutation(300), rng.permutation(4)
    others = members if paired else rng.permutation(4)
    clusters = rng.integers(0, 120, 300)
    said = {"positive": 1, "n_classes": 3, "paired": paired}
    before = amplification(
        labels, dense, compressed, groups, NAMES, clusters=clusters if clustered else None, **said
    )
    after = amplification(
        labels[rows],
        dense[rows][:, members],
        compressed[rows][:, others],
        groups[::-1, rows],
        NAMES[::-1],
        clusters=1000 - clusters[rows] if clustered else None,
        **said,
    )
    moved = {(change.group, change.metric): change for change in after}
    for change in before:
        other = moved[change.group, change.metric]
        for a, b in ((change.relative, other.relative), (change.absolute, other.absolute)):
            np.testing.assert_allclose(
                [a.value, a.low, a.high], [b.value, b.low, b.high], rtol=1e-9
            )


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
    assert math.isnan(change.harm_p(relative=0.2))
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


def test_no_event_in_either_population_bounds_the_difference_by_three_over_n():
    change = audit_of(0, 0, 170, k=3)["fpr"]
    assert change.relative.reason == (
        "relative change not estimable (no false positive among 170 negatives)"
    )
    assert change.absolute.value == 0
    assert (change.absolute.low, change.absolute.high) == pytest.approx((-3 / 170, 3 / 170))
    assert (change.dense.value, change.dense.low) == (0, 0)
    assert change.dense.high == pytest.approx(3 / 170)
    assert math.isnan(change.harm_p(relative=0.2, absolute=0.005))


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
    ("events", "found"), [(1, "1 example"), (3, "3 examples"), (4, "4 examples")]
)
def test_change_carried_by_fewer_than_five_examples_is_not_estimable(events, found):
    change = audit_of(events, 9, 500)["error"]
    assert change.relative.reason == f"relative change not estimable (carried by {found})"
    assert math.isnan(change.relative.value)
    assert change.absolute.value == pytest.approx((9 - events) / 500)
    assert not math.isnan(change.absolute.low)
    assert change.absolute.note.startswith("few events")


def test_carriers_are_counted_whole_and_compared_as_they_are():
    # Four examples that both members fail and one that one fails: 9^2 / (4 2^2 + 1) = 4.76 < 5.
    dense = np.zeros((300, 2), int)
    dense[:4], dense[4, 0] = 1, 1
    said = {"positive": 1, "n_classes": 2}
    compressed = (np.arange(300) < 20).astype(int)[:, None]
    group = np.ones((1, 300), bool)
    error = amplification(np.zeros(300, int), dense, compressed, group, ["all"], **said)[0]
    assert error.events == pytest.approx(81 / 17)
    assert error.relative.reason == "relative change not estimable (carried by 4 examples)"


@pytest.mark.parametrize(("events", "few"), [(5, True), (9, True), (10, False)])
def test_change_carried_by_five_to_ten_examples_is_marked(events, few):
    change = audit_of(events, 30, 500, k=2)["error"]
    assert change.relative.value == pytest.approx(100 * (30 / events - 1))
    assert change.relative.note == ("few events" if few else "")
    assert change.relative.events == events


def test_one_example_at_risk_has_a_rate_and_no_interval():
    change = audit_of(1, 1, 1, k=3)["error"]
    assert change.dense.value == 1
    assert change.dense.reason == "interval not estimable (one example)"
    assert change.absolute.reason == "interval not estimable (one example)"


def test_relative_change_has_its_interval_on_the_log_scale_and_rates_on_the_logit_scale():
    change = audit_of(20, 34, 400)["error"]
    # psi is 1/p_c - 1/p_d on the 20, 1/p_c on 14 more and 0 elsewhere; its mean is 0.
    p_d, p_c = 20 / 400, 34 / 400
    squares = 20 * (1 / p_c - 1 / p_d) ** 2 + 14 / p_c**2
    assert change.relative.se == pytest.approx(math.sqrt(squares / (400 * 399)))
    low, middle, high = (
        math.log1p(value / 100)
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
    # 3/n of all examples may differ; of the tenth that is wrong that is ten times the share.
    assert many.relative.high == pytest.approx(100 * 10 * 3 / 20_000)
    assert many.clear_p(relative=0.2, absolute=0.005) < 1e-6
    # +20% of the tenth is 2 in 100: two thirds of the way to 3/n, where p is 0.05.
    assert few.clear_p(relative=0.2) == pytest.approx(0.05 ** (2 / 3))
    assert many.harm_p(relative=0.2) == 1


def test_harm_needs_both_limits_exceeded_and_clearance_only_one_kept():
    change = audit_of(50, 100, 1000)["error"]  # +100%, +5 points
    assert change.harm_p(relative=0.2, absolute=0.005) < 0.001
    assert change.harm_p(relative=0.2, absolute=0.06) > 0.5
    assert change.harm_p(relative=1.2, absolute=0.005) > 0.5
    assert change.harm_p(absolute=0.005) == pytest.approx(change.absolute.p_above(0.005))
    assert change.clear_p(relative=0.2, absolute=0.08) == pytest.approx(
        2 * change.absolute.p_below(0.08)
    )
    assert change.clear_p(absolute=0.08) == pytest.approx(change.absolute.p_below(0.08))
    assert change.clear_p(relative=0.2, absolute=0.005) == 1
    limit = change.relative.low / 100
    assert change.harm_p(relative=limit) == pytest.approx(0.025)
    with pytest.raises(DataError, match="must be relative, absolute or both, got neither"):
        change.harm_p()


def test_changes_and_gaps_survive_json():
    labels, dense, compressed, groups = random_audit(6)
    found = amplification(labels, dense, compressed, groups, NAMES, positive=1, n_classes=3)
    first = json.loads(json.dumps(found[0].as_dict(), allow_nan=False))
    assert first["relative"]["value"] == found[0].relative.value
    assert first["relative_variance"]["examples"] == found[0].relative_variance.examples
    between = gap(labels, dense, compressed, groups[1], groups[2], n_classes=3)
    assert json.loads(json.dumps(between.as_dict(), allow_nan=False))["group_b"] == "b"


def test_gap_is_the_difference_of_two_rises():
    labels, dense, compressed, groups = random_audit(7)
    said = {"positive": 1, "n_classes": 3}
    found = amplification(labels, dense, compressed, groups, NAMES, **said)
    rise = {(c.group, c.metric): c.absolute for c in found}
    for metric in ("error", "fpr", "fnr"):
        between = gap(labels, dense, compressed, groups[1], groups[2], metric=metric, **said)
        assert between.rise_a.value == pytest.approx(rise["few", metric].value)
        assert between.rise_b.high == pytest.approx(rise["many", metric].high)
        assert between.gap.value == pytest.approx(between.rise_b.value - between.rise_a.value)


def test_gap_of_disjoint_groups_of_single_models_adds_their_variances():
    labels, dense, compressed, _ = random_audit(8, n=600, k=1, k_c=1)
    a = np.arange(600) < 200
    between = gap(labels, dense, compressed, a, ~a, n_classes=3)
    change = (compressed != labels[:, None])[:, 0] * 1.0 - (dense != labels[:, None])[:, 0]
    expected = change[a].var() / 200 + change[~a].var() / 400
    assert between.gap.se**2 == pytest.approx(expected, rel=0.01)  # n - 1 stands for 599, not 199


def test_gap_between_a_group_and_itself_is_nothing():
    labels, dense, compressed, groups = random_audit(9)
    between = gap(labels, dense, compressed, groups[1], groups[1], n_classes=3)
    assert between.gap.value == 0
    size = groups[1].sum()
    assert between.gap.high == pytest.approx(6 / size)  # 3/n on either side


def test_gap_counts_what_shared_clusters_share():
    # Each source gives one row to either group, with nearly the same fate: the rises go together.
    rng = np.random.default_rng(10)
    hard = np.repeat(rng.normal(size=400), 2)[:, None]
    dense = (hard + 0.1 * rng.normal(size=(800, 5)) > 1).astype(int)
    compressed = (hard + 0.1 * rng.normal(size=(800, 5)) > 0.7).astype(int)
    a, source = np.arange(800) % 2 == 0, np.arange(800) // 2
    labels = np.zeros(800, int)
    joined = gap(labels, dense, compressed, a, ~a, n_classes=2, clusters=source).gap
    apart = gap(labels, dense, compressed, a, ~a, n_classes=2).gap
    assert joined.se < 0.7 * apart.se
    assert (joined.n, apart.n) == (400, 800)


def test_gap_of_pairs_leaves_out_what_the_pairs_share():
    # Runs favour one group or the other, and the compressed member keeps its run.
    rng = np.random.default_rng(14)
    a = np.arange(600) < 300
    latent = rng.normal(size=(600, 6)) + np.where(a[:, None], 1, -1) * rng.normal(size=6)
    predictions = np.zeros(600, int), (latent > 1).astype(int), (latent > 0.8).astype(int)
    paired = gap(*predictions, a, ~a, n_classes=2, paired=True).gap
    apart = gap(*predictions, a, ~a, n_classes=2).gap
    assert paired.value == apart.value
    assert paired.se < 0.5 * apart.se


def test_gap_without_negatives_is_undefined():
    labels, dense, compressed, groups = random_audit(11)
    between = gap(
        labels, dense, compressed, labels == 1, groups[0],
        names=("blond", "all"), metric="fpr", positive=1, n_classes=3,
    )  # fmt: skip
    assert math.isnan(between.gap.value)
    assert between.gap.reason == "undefined (no negatives in group 'blond')"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"names": ["a", "a", "b"]},
            "names must name each of 3 groups once, got 3 names, 2 of them different: "
            "pass one name a group",
        ),
        (
            {"positive": 3},
            "positive must be a class id from 0 to 2, got 3: name one of the classes, or None for "
            "every class against the rest",
        ),
        ({"level": 0.0}, "level must be a fraction in (0, 1), got 0.0: write 0.95 for 95%"),
        (
            {"groups": np.ones((3, 299), bool)},
            "groups must have shape (3, 300), got (3, 299): pass the rows of the predictions in "
            "their order",
        ),
    ],
)
def test_bad_input_gets_one_sentence(change, sentence):
    labels, dense, compressed, groups = random_audit(12)
    said = {"groups": groups, "names": NAMES, "n_classes": 3, **change}
    with pytest.raises(DataError) as caught:
        amplification(labels, dense, compressed, **said)
    assert str(caught.value) == sentence


def test_gap_offers_its_metrics():
    labels, dense, compressed, groups = random_audit(13)
    with pytest.raises(
        DataError, match="metric must be one of error, got 'fpr': pass the positive"
    ):
        gap(labels, dense, compressed, groups[1], groups[2], metric="fpr", n_classes=3)


@pytest.mark.parametrize("ids", [[1.0, float("nan")], [1, None], ["a", float("nan")]])
def test_a_row_without_a_source_is_refused_and_not_joined_to_others(ids: list[object]) -> None:
    clusters = np.array(ids, dtype=float if ids[0] == 1.0 and None not in ids else object)
    with pytest.raises(DataError, match="got 1 of 2 without one"):
        rates([0, 1], [[0], [1]], [[True, True]], ["all"], n_classes=2, clusters=clusters)


def test_no_group_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="at least one group, got none"):
        rates([0, 1], [[0], [1]], np.zeros((0, 2), bool), [], n_classes=2)
