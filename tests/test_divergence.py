"""Scores, rankings and tables, against the papers' formulas written out as loops."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.divergence import (
    CieCount,
    Scores,
    flip_ledger,
    flip_rate,
    hash_ids,
    over_index,
    percentile_weights,
    rank_subset,
    score,
    scoring,
    threshold,
    top1_table,
)
from scotoma.divergence.units import weighted_rate
from scotoma.errors import DataError

ROW_FIELDS = [
    "dense_modal",
    "compressed_modal",
    "dense_votes",
    "compressed_votes",
    "dense_tied",
    "compressed_tied",
    "cie",
    "cie_certain",
    "taxicab",
    "jaccard",
]


@st.composite
def two_populations(draw, equal=False):
    """Small populations over few classes, or over more than are counted class by class."""
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    other = k if equal else draw(st.integers(1, 5))
    n_classes = draw(st.sampled_from([2, 3, 65, 1000]))
    labels = draw(st.lists(st.integers(0, n_classes - 1), min_size=2, max_size=3, unique=True))
    rows = st.lists(st.sampled_from(labels), min_size=k + other, max_size=k + other)
    ids = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    return ids[:, :k], ids[:, k:], n_classes


def twin(dense, compressed):
    """Hooker et al. 2020, section 3 and Appendix A.1, one example after another."""
    result = []
    for row, other in zip(dense.tolist(), compressed.tolist(), strict=True):
        K = len(row)
        b = Counter(row)
        v = {i: Fraction(count * K, len(other)) for i, count in Counter(other).items()}
        labels = sorted(set(b) | set(v))
        tops = [[i for i in labels if side.get(i, 0) == max(side.values())] for side in (b, v)]
        d_T = sum(abs(b.get(i, 0) - v.get(i, 0)) for i in labels)
        d_J = 1 - Fraction(
            sum(min(b.get(i, 0), v.get(i, 0)) for i in labels),
            sum(max(b.get(i, 0), v.get(i, 0)) for i in labels),
        )
        resolutions = {i != j for i, j in product(*tops)}
        result.append((tops[0][0], tops[1][0], *(len(top) > 1 for top in tops), d_T, d_J,
                       resolutions))  # fmt: skip
    return result


@given(two_populations())
def test_scores_are_the_papers_formulas(case):
    dense, compressed, n_classes = case
    scores = score(dense, compressed, n_classes)
    expected = twin(dense, compressed)
    assert scores.dense_modal.tolist() == [row[0] for row in expected]
    assert scores.compressed_modal.tolist() == [row[1] for row in expected]
    assert scores.dense_tied.tolist() == [row[2] for row in expected]
    assert scores.compressed_tied.tolist() == [row[3] for row in expected]
    assert scores.cie.tolist() == [row[0] != row[1] for row in expected]
    np.testing.assert_allclose(scores.taxicab, [float(row[4]) for row in expected], rtol=1e-15)
    np.testing.assert_allclose(scores.jaccard, [float(row[5]) for row in expected], atol=1e-15)
    assert scores.dense_votes.tolist() == [max(Counter(row).values()) for row in dense.tolist()]
    count = scores.cie_count
    assert count.low == sum(row[6] == {True} for row in expected)
    assert count.high == sum(True in row[6] for row in expected)
    assert count.ties == sum(row[2] or row[3] for row in expected)
    assert count.low <= count.count <= count.high


@given(two_populations(equal=True))
def test_taxicab_and_jaccard_rank_alike_for_equal_populations(case):
    dense, compressed, n_classes = case
    taxicab = score(dense, compressed, n_classes).taxicab
    jaccard = [row[5] for row in twin(dense, compressed)]  # the definition, not the identity
    order = np.unique(taxicab, return_inverse=True)[1].tolist()
    assert order == [sorted(set(jaccard)).index(value) for value in jaccard]
    assert ((taxicab == 0) == (np.array(jaccard) == 0)).all()


@given(two_populations(), st.randoms(use_true_random=False))
def test_order_of_examples_and_members_changes_nothing(case, random):
    dense, compressed, n_classes = case
    rows = random.sample(range(len(dense)), len(dense))
    left = random.sample(range(dense.shape[1]), dense.shape[1])
    right = random.sample(range(compressed.shape[1]), compressed.shape[1])
    scores = score(dense, compressed, n_classes)
    again = score(dense[rows][:, left], compressed[rows][:, right], n_classes)
    for name in ROW_FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(scores, name)[rows])


@given(two_populations(), st.randoms(use_true_random=False))
def test_other_class_ids_leave_the_distances(case, random):
    dense, compressed, n_classes = case
    ids = np.array(random.sample(range(n_classes), n_classes))
    scores, again = (score(ids[dense], ids[compressed], n_classes),
                     score(dense, compressed, n_classes))  # fmt: skip
    np.testing.assert_array_equal(scores.taxicab, again.taxicab)
    np.testing.assert_array_equal(scores.cie_certain, again.cie_certain)


@pytest.mark.parametrize("n_classes", [7, 300])
def test_chunks_of_rows_give_the_scores_of_the_whole(n_classes, monkeypatch):
    rng = np.random.default_rng(3)
    dense, compressed = rng.integers(0, n_classes, (2, 50, 6)) // rng.integers(1, 9, (50, 1))
    whole = score(dense, compressed, n_classes, seed=5)
    monkeypatch.setattr(scoring, "CELLS", 100)  # several chunks inside the function, too
    parts = [score(dense[a:b], compressed[a:b], n_classes, seed=5) for a, b in ((0, 1), (1, 50))]
    joined = Scores.concatenate(parts)
    for name in ROW_FIELDS:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    assert (joined.n, joined.seed, joined.dense_members) == (50, 5, 6)


def test_chunks_of_other_populations_are_refused():
    parts = [score([[0, 1]], [[0, 0]], 2), score([[0]], [[0]], 2)]
    with pytest.raises(DataError, match=r"parts must share one setting of \(dense_members, "):
        Scores.concatenate(parts)
    with pytest.raises(DataError, match="got no parts"):
        Scores.concatenate([])


def test_a_thousand_classes_need_no_table_of_examples_by_classes():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 1000, (50_000, 30), dtype=np.int16)
    tracemalloc.start()
    score(dense, dense[::-1], 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # counts of 50,000 examples by 1,000 classes are 50 MB at one byte each


def test_a_count_is_printed_with_its_range_over_tie_resolutions():
    assert str(CieCount(count=555, low=521, high=603, ties=82)) == "555 (521 to 603, 82 ties)"
    assert str(CieCount(count=5057, low=5057, high=5057, ties=0)) == "5,057"


def test_odd_populations_have_no_ties_in_two_classes():
    rng = np.random.default_rng(1)
    dense, compressed = rng.integers(0, 2, (2, 500, 7))
    assert score(dense, compressed, 2).cie_count.ties == 0


BAD_INPUT = {
    "ragged": ([[0, 1], [0]], [[0], [1]], 2, "dense must be an examples by members table of class "
               "ids, got rows of different lengths: give every example one prediction a member"),
    "floats": ([[0.5]], [[0]], 2, "dense must be an examples by members table of class ids, got "
               "values of type float64: convert scores to integer class ids, for example with "
               "argmax"),
    "negative": ([[0]], [[-1]], 2, "compressed must hold class ids from 0 upwards, got -1: number "
                 "the classes from 0"),
    "too large": ([[0]], [[2]], 2, "compressed must hold class ids from 0 to 1, got 2: number the "
                  "classes from 0, or correct n_classes"),
    "rows": ([[0], [1]], [[0]], 2, "dense and compressed must predict the same examples, got 2 "
             "and 1 rows: score both on one test set"),
    "empty": (np.empty((0, 3), int), [[0]], 2, r"dense must be a table of at least one example by "
              r"at least one member, got shape \(0, 3\): pass one row an example and one column a "
              "member"),
    "one column": ([0, 1], [[0]], 2, r"dense must be a table .* got shape \(2,\): .*"),
    "one class": ([[0]], [[0]], 1, "n_classes must be at least 2, got 1: count the label's values"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_refused_in_one_sentence(name):
    dense, compressed, n_classes, sentence = BAD_INPUT[name]
    with pytest.raises(DataError, match=f"^{sentence}$"):
        score(dense, compressed, n_classes)


# Ten examples of four members a side. Distances 8, 6, 4, 4, 4, 2, 2, 0, 0, 0.
CHANGED = [4, 3, 2, 2, 2, 1, 1, 0, 0, 0]
TEN = score(np.zeros((10, 4), int), (np.arange(4) < np.array(CHANGED)[:, None]) * 1, 2)


@pytest.mark.parametrize(
    ("percentile", "value", "wanted", "above", "tied"),
    [(90, 8, 1, 0, 1), (70, 4, 3, 2, 3), (60, 4, 4, 2, 3), (50, 4, 5, 2, 3), (40, 2, 6, 5, 2)],
)
def test_threshold_counts_who_is_above_and_who_is_tied(percentile, value, wanted, above, tied):
    at = threshold(TEN, percentile)
    assert (at.value, at.wanted, at.above, at.tied) == (value, wanted, above, tied)
    weights = percentile_weights(TEN, percentile)
    assert weights.sum() == pytest.approx(wanted)
    assert set(weights[TEN.taxicab > value]) <= {1.0}
    assert weights[TEN.taxicab == value] == pytest.approx((wanted - above) / tied)


def test_a_percentile_is_rounded_to_whole_examples():
    many = score(np.zeros((19_962, 1), int), np.ones((19_962, 1), int), 2)
    assert [threshold(many, p).wanted for p in (90, 95, 99)] == [1996, 998, 200]


def test_no_threshold_where_examples_without_difference_would_belong_to_the_subset():
    at = threshold(TEN, 25)
    assert at.reason == "fewer than 75% of examples differ"
    assert np.isnan(at.value)
    assert np.isnan(percentile_weights(TEN, 25)).all()
    assert sorted(rank_subset(TEN, np.arange(10), 25)) == list(range(7))


def test_a_percentile_is_a_percentage():
    with pytest.raises(DataError, match="percentile must lie between 0 and 100, got 100: write 90"):
        threshold(TEN, 100)


def test_weights_are_the_mean_of_lists_over_seeds():
    ids = [f"example {i}" for i in range(10)]
    lists = [rank_subset(TEN, ids, 60, seed) for seed in range(600)]
    share = np.bincount(np.concatenate(lists), minlength=10) / 600
    # Standard error of a share of 2/3 over 600 seeds: .019.
    np.testing.assert_allclose(share, percentile_weights(TEN, 60), atol=0.06)


@pytest.mark.parametrize("ids", [[f"image/{i}.png" for i in range(10)], list(range(90, 100))])
def test_lists_do_not_depend_on_the_order_of_rows(ids):
    ids = np.array(ids)
    rows = np.array([3, 9, 4, 0, 7, 2, 1, 8, 6, 5])
    ranked = ids[rank_subset(TEN, ids, 50)]
    shuffled = score(np.zeros((10, 4), int), (np.arange(4) < np.array(CHANGED)[rows, None]) * 1, 2)
    assert ids[rows][rank_subset(shuffled, ids[rows], 50)].tolist() == ranked.tolist()
    assert ranked[:2].tolist() == ids[:2].tolist()


def test_the_seed_of_the_scores_breaks_ties_unless_another_is_given():
    zeros, ones = np.zeros((40, 1), int), np.ones((40, 1), int)
    first, second = score(zeros, ones, 2, seed=1), score(zeros, ones, 2, seed=2)
    ids = np.arange(40)
    assert rank_subset(first, ids, 50).tolist() != rank_subset(second, ids, 50).tolist()
    assert rank_subset(first, ids, 50, 2).tolist() == rank_subset(second, ids, 50).tolist()


def test_hashes_are_those_of_splitmix64():
    def mix(x):
        z = (x + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    assert mix(0) == 0xE220A8397B1DCDAF  # first number of SplitMix64 seeded with 0
    assert hash_ids([5, 2**40], 3).tolist() == [mix(5 ^ mix(3)), mix(2**40 ^ mix(3))]
    assert hash_ids(["é1", "x"], 3).tolist() == [mix(mix(mix(3) ^ 233) ^ 49), mix(mix(3) ^ 120)]


def test_ids_that_repeat_or_fit_no_row_are_refused():
    with pytest.raises(DataError, match="example_ids must be unique, got 'a' 9 times: give"):
        rank_subset(TEN, ["a"] * 9 + ["b"], 50)
    with pytest.raises(DataError, match=r"got shape \(9,\) for 10 rows"):
        rank_subset(TEN, ["a"] * 9, 50)
    with pytest.raises(DataError, match="integers or strings, got values of type float64"):
        rank_subset(TEN, np.arange(10) / 2, 50)


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
    assert rare.change.reason == "relative change not estimable (carried by 1 example)"
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
        assert row.net == pytest.approx(hits[1] - hits[0])
        assert row.right_to_wrong.low < row.right_to_wrong.value < row.right_to_wrong.high
        assert row.n == group.sum()


@pytest.mark.parametrize(("n", "k", "runs"), [(300, 4, 0.3), (100, 10, 0.1)])
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


def test_two_classes_have_no_other_wrong_label():
    rng = np.random.default_rng(0)
    dense, compressed = rng.integers(0, 2, (2, 300, 10))
    row = flip_ledger(dense, compressed, np.zeros(300, int), np.full((1, 300), True), ["all"])[0]
    assert (row.wrong_to_other.value, row.wrong_to_other.high) == (0, pytest.approx(0.01))


def test_ledger_of_an_empty_group_is_undefined():
    row = flip_ledger([[0]], [[1]], [0], [[False]], ["old men"])[0]
    assert row.right_to_wrong.reason == "undefined (no examples in group 'old men')"
    assert np.isnan(row.net)
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
    top5 = rng.random((200, 6)) < 0.9
    table = top1_table(scores, dense, compressed, y, compressed_top5=top5)
    rows = {row.subset: row for row in table}
    assert list(rows) == ["all", "CIEs", "non-CIEs", "taxicab 90", "taxicab 95", "taxicab 99"]
    hit = compressed == y[:, None]
    assert rows["all"].compressed.value == pytest.approx(hit.mean())
    assert rows["CIEs"].compressed.value == pytest.approx(hit[scores.cie].mean())
    assert rows["CIEs"].n == scores.cie.sum()
    assert rows["non-CIEs"].compressed_top5.value == pytest.approx(top5[~scores.cie].mean())
    assert rows["all"].dense_top5 is None
    lists = [rank_subset(scores, np.arange(200), 90, seed) for seed in range(400)]
    drawn = [hit[rows_].mean() for rows_ in lists]
    assert rows["taxicab 90"].compressed.value == pytest.approx(np.mean(drawn), abs=0.01)
    assert rows["taxicab 90"].n == 20
    for row in table:
        assert row.dense.low < row.dense.value < row.dense.high


def test_the_error_of_a_weighted_rate_is_that_of_the_jackknife():
    rng = np.random.default_rng(0)
    hits, weights = rng.random((200, 1)) < 0.3, rng.choice([0.0, 0.4, 1.0], 200)
    found = weighted_rate(hits, None, weights)

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
    with pytest.raises(DataError, match="got 10 scores for 1 rows: score the same rows"):
        top1_table(TEN, [[0]], [[0]], [0])
    with pytest.raises(DataError, match=r"labels must give one class id a row, got shape \(9,\)"):
        top1_table(TEN, np.zeros((10, 4), int), np.zeros((10, 4), int), np.zeros(9, int))
