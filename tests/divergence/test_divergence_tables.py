"""Over-index, flips, ledger and accuracy tables, against loops, the jackknife and simulation."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from scotoma.divergence import (
    by_distance,
    flip_ledger,
    flip_rate,
    over_index,
    score,
    top1_table,
)
from scotoma.divergence.agreement import weighted_rate
from scotoma.errors import DataError
from scotoma.numbers import Units


def test_over_index_is_the_ratio_of_shares_and_its_error_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    cie = rng.random(400) < 0.1
    old = rng.random(400) < np.where(cie, 0.4, 0.2)
    found = over_index(cie, {"old": old})[0]

    def ratio(keep):
        return old[keep & cie].mean() / old[keep].mean()

    everyone = np.full(400, True)
    assert found.ratio[0] == pytest.approx(ratio(everyone))
    assert (found.n, found.n_flagged) == (old.sum(), (old & cie).sum())
    logs = np.log([ratio(everyone & (np.arange(400) != x)) for x in range(400)])
    jackknife = np.sqrt(399 / 400 * ((logs - logs.mean()) ** 2).sum())
    assert found.change.se == pytest.approx(jackknife, rel=0.05)
    assert found.change.low < found.change.value < found.change.high


def test_over_index_of_rows_from_one_source_counts_the_source_once():
    rng = np.random.default_rng(0)
    cie, old = rng.random(300) < 0.2, rng.random(300) < 0.3
    once = over_index(cie, {"old": old})[0]
    clusters = np.repeat(np.arange(300), 2)
    twice = over_index(cie.repeat(2), {"old": old.repeat(2)}, clusters=clusters)[0]
    assert twice.change.se == pytest.approx(once.change.se)
    assert (twice.ratio[0], twice.change.n) == (pytest.approx(once.ratio[0]), 300)


def test_over_index_says_why_a_ratio_has_no_interval():
    cie = np.arange(100) < 10
    cases = {"rare": np.arange(100) % 50 == 1, "absent": cie & False, "late": np.arange(100) > 50}
    rare, absent, late = over_index(cie, cases)
    assert rare.change.reason == "relative change not estimable (1 effective event, 5 are needed)"
    assert rare.ratio[0] == pytest.approx(5)
    assert absent.change.reason == "undefined (no example with 'absent')"
    assert late.change.reason == "relative change not estimable (no CIE among 49 with 'late')"
    assert over_index(cie & False, cases)[0].change.reason == "undefined (no CIE)"
    with pytest.raises(DataError, match="attribute 'old' must be true or false, got values of"):
        over_index(cie, {"old": np.arange(100)})


def test_flip_rate_compares_partners():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (200, 4))
    compressed = np.where(rng.random((200, 4)) < 0.1, (dense + 1) % 3, dense)
    flips = flip_rate(dense, compressed)
    assert flips.value == (dense != compressed).mean()
    assert 0 < flips.low < flips.value < flips.high
    assert (flips.n, flips.members, flips.scale) == (200, 4, "logit")
    with pytest.raises(DataError, match="as many compressed as dense members, got 3 and 4: drop"):
        flip_rate(dense, compressed[:, :3])


def test_no_flips_are_bounded_by_the_rule_of_three():
    nothing = flip_rate(np.ones((150, 3), int), np.ones((150, 3), int))
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, pytest.approx(0.02))


def test_one_model_a_side_speaks_of_other_test_sets_only():
    one = flip_rate(np.zeros((40, 1), int), (np.arange(40) % 4 == 0)[:, None].astype(int))
    assert one.value == 0.25
    assert one.note == "one training run: says nothing about the next one"


@pytest.mark.parametrize("paired", [False, True])
def test_ledger_counts_pairs_of_members(paired):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 80, 60)
    draw = [np.where(rng.random((60, 4)) < 0.5, y[:, None], rng.integers(0, 80, (60, 4)) // 40)
            for _ in range(2)]  # fmt: skip
    dense, compressed = draw
    groups = np.array([np.full(60, True), y < 30])
    pairs = [(m, m) for m in range(4)] if paired else list(product(range(4), repeat=2))
    rows = flip_ledger(dense, compressed, y, groups, ["all", "low"], paired=paired)
    for row, group in zip(rows, groups, strict=True):
        kinds = Counter()
        for x in np.flatnonzero(group):
            for m, other in pairs:
                was, now = dense[x, m], compressed[x, other]
                if was != now:
                    kinds["right" if was == y[x] else "right!" if now == y[x] else "other"] += 1
        total = group.sum() * len(pairs)
        assert row.right_to_wrong.value == pytest.approx(kinds["right"] / total)
        assert row.wrong_to_right.value == pytest.approx(kinds["right!"] / total)
        assert row.wrong_to_other.value == pytest.approx(kinds["other"] / total)
        hits = [(side == y[:, None])[group].mean() for side in (dense, compressed)]
        net = row.wrong_to_right.value - row.right_to_wrong.value
        assert net == pytest.approx(hits[1] - hits[0])
        assert row.right_to_wrong.low < row.right_to_wrong.value < row.right_to_wrong.high
        assert row.n == group.sum()


@pytest.mark.parametrize(("n", "k", "runs"), [(300, 5, 0.3), (100, 10, 0.1)])
def test_ledger_errors_hold_over_examples_and_training_runs(n, k, runs):
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(200):
        difficulty = 1.5 * rng.standard_normal((n, 1)) - 1.5 + runs * rng.standard_normal((2, 1, k))
        sides = (difficulty + rng.standard_normal((2, n, k)) > 0).astype(int)
        row = flip_ledger(*sides, np.zeros(n, int), np.full((1, n), True), ["all"])[0]
        flips = row.right_to_wrong
        values.append(flips.value)
        errors.append(flips.se * flips.value * (1 - flips.value))  # from the logit to the rate
    # Standard error of a standard deviation over 200 audits: 5%. Examples alone give .44 in the
    # first design, members alone .70 in the second.
    assert 0.85 < np.mean(errors) / np.std(values) < 1.17


def test_flips_seen_from_the_other_population_are_those_back_with_the_same_intervals():
    rng = np.random.default_rng(11)
    y = rng.integers(0, 3, 300)
    dense, compressed = (
        np.where(rng.random((300, k)) < wrong, rng.integers(0, 3, (300, k)), y[:, None])
        for k, wrong in ((5, 0.15 * rng.random(5)), (7, 0.2 + 0.3 * rng.random(7)))
    )
    everyone = np.ones((1, 300), bool)
    (there,) = flip_ledger(dense, compressed, y, everyone, ["all"])
    (back,) = flip_ledger(compressed, dense, y, everyone, ["all"])
    for own, other in (
        (there.right_to_wrong, back.wrong_to_right),
        (there.wrong_to_right, back.right_to_wrong),
        (there.wrong_to_other, back.wrong_to_other),
        (there.changed, back.changed),
    ):
        ends = [[one.value, one.low, one.high, one.df] for one in (own, other)]
        np.testing.assert_allclose(*ends, rtol=1e-9)


def test_two_classes_have_no_other_wrong_label():
    rng = np.random.default_rng(0)
    dense, compressed = rng.integers(0, 2, (2, 300, 10))
    row = flip_ledger(dense, compressed, np.zeros(300, int), np.full((1, 300), True), ["all"])[0]
    assert (row.wrong_to_other.value, row.wrong_to_other.high) == (0, pytest.approx(0.01))


def test_ledger_of_an_empty_group_is_undefined():
    row = flip_ledger([[0]], [[1]], [0], [[False]], ["old men"])[0]
    assert row.right_to_wrong.reason == "undefined (no examples in group 'old men')"
    with pytest.raises(DataError, match=r"groups must have shape \(2, 1\), got \(1, 1\)"):
        flip_ledger([[0]], [[1]], [0], [[False]], ["a", "b"])


def test_top1_table_is_accuracy_averaged_over_members_and_over_ties():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 200)
    dense, compressed = (
        np.where(
            rng.random((200, 6)) < rng.random((200, 1)), y[:, None], rng.integers(0, 5, (200, 6))
        )
        for _ in range(2)
    )
    scores = score(dense, compressed, 5)
    table = top1_table(scores, dense, compressed, y)
    rows = {row.subset: row for row in table}
    assert list(rows) == ["all", "CIEs", "non-CIEs", "taxicab 90", "taxicab 95", "taxicab 99"]
    hit = compressed == y[:, None]
    assert rows["all"].compressed.value == pytest.approx(hit.mean())
    assert rows["CIEs"].compressed.value == pytest.approx(hit[scores.cie].mean())
    assert rows["CIEs"].n == scores.cie.sum()
    lists = [np.lexsort((rng.random(200), -scores.taxicab))[:20] for _ in range(400)]
    drawn = [hit[subset].mean() for subset in lists]
    assert rows["taxicab 90"].compressed.value == pytest.approx(np.mean(drawn), abs=0.01)
    assert rows["taxicab 90"].n == 20
    for row in table:
        assert row.dense.low < row.dense.value < row.dense.high


def test_the_error_of_a_weighted_rate_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    hits, weights = rng.random((200, 1)) < 0.3, rng.choice([0.0, 0.4, 1.0], 200)
    found = weighted_rate(hits, Units.of(200), weights)

    def logit(keep):
        rate = np.average(hits[keep, 0], weights=weights[keep])
        return np.log(rate / (1 - rate))

    at_risk = np.flatnonzero(weights)
    left_out = np.array([logit(np.setdiff1d(at_risk, x)) for x in at_risk])
    n = at_risk.size
    jackknife = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    assert found.se == pytest.approx(jackknife, rel=0.03)
    assert (found.n, found.value) == (n, pytest.approx(np.average(hits[:, 0], weights=weights)))


def test_top1_table_says_why_a_subset_is_empty():
    y = np.zeros(50, int)
    table = top1_table(score(y[:, None], y[:, None], 2), y[:, None], y[:, None], y)
    assert table[1].dense.reason == "undefined (no CIE)"
    assert table[3].dense.reason == "undefined (fewer than 10% of examples differ)"
    assert (table[0].dense.value, table[0].dense.low) == (1, pytest.approx(0.94))


def test_top1_table_of_other_rows_is_refused():
    ten = score(np.zeros((10, 4), int), np.ones((10, 4), int), 2)
    with pytest.raises(DataError, match="got 10 scores for 1 rows: score the same rows"):
        top1_table(ten, [[0]], [[0]], [0])
    with pytest.raises(DataError, match=r"labels must give one class id per row, got shape \(9,\)"):
        top1_table(ten, np.zeros((10, 4), int), np.zeros((10, 4), int), np.zeros(9, int))


def test_counts_by_distance_give_every_threshold_that_a_loop_over_examples_gives():
    rng = np.random.default_rng(1)
    labels, old = rng.integers(3, size=90), rng.random(90) < 0.4
    dense, compressed = rng.integers(3, size=(90, 5)), rng.integers(3, size=(90, 4))
    scores = score(dense, compressed, 3)
    found = by_distance(scores, dense, compressed, labels, {"old": old})
    assert len(found.distance) > 4
    for i, threshold in enumerate(found.distance):
        above = [x for x in range(90) if scores.taxicab[x] >= threshold]
        assert found.examples[i:].sum() == len(above)
        assert found.dense_right[i:].sum() == sum((dense[x] == labels[x]).sum() for x in above)
        assert found.compressed_right[i:].sum() == sum(
            (compressed[x] == labels[x]).sum() for x in above
        )
        assert found.groups[0].examples[i:].sum() == sum(old[x] for x in above)
