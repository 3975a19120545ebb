"""Scores and rankings, against the papers' formulas written out as loops."""

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
    agreement,
    percentile_weights,
    score,
    threshold,
)
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


@pytest.mark.parametrize("n_classes", [7, 300])
def test_chunks_of_rows_give_the_scores_of_the_whole(n_classes, monkeypatch):
    rng = np.random.default_rng(3)
    dense, compressed = rng.integers(0, n_classes, (2, 50, 6)) // rng.integers(1, 9, (50, 1))
    whole = score(dense, compressed, n_classes, seed=5)
    monkeypatch.setattr(agreement, "CELLS", 100)  # several chunks inside the function, too
    parts = [score(dense[a:b], compressed[a:b], n_classes, seed=5) for a, b in ((0, 1), (1, 50))]
    for name in ROW_FIELDS:
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))


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
               "ids, got rows of different lengths: give every example one prediction per member"),
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
              r"at least one member, got shape \(0, 3\): pass one row per example and one column "
              "per member"),
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


def test_a_percentile_is_a_percentage():
    with pytest.raises(DataError, match="percentile must lie between 0 and 100, got 100: write 90"):
        threshold(TEN, 100)


def test_a_threshold_states_the_seed_that_breaks_its_ties():
    assert threshold(score([[0]] * 4, [[1]] * 4, 2, seed=5), 50).seed == 5
