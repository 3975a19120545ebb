"""Which rows techniques show: counts of cells, ratios of groups, and the same rows for one seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scotoma.mitigation.learning.samplers import (
    balanced_batch,
    balanced_draw,
    cell_sizes,
    ratio_subset,
    repeated_rows,
    rows_with_repeats,
    size_matched_subset,
    subsampled_rows,
)

seeds = st.integers(0, 2**32 - 1)


def skewed(seed: int, examples: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(examples) % 3)
    groups = (rng.random(examples) < np.array([0.05, 0.5, 0.9])[labels]).astype(np.int64)
    return labels, groups


def test_the_rows_of_cifar10s_are_those_of_the_study() -> None:
    """10 classes of 5,000, 95 to 5: 95,000 rows, the rare cells 19 times."""
    labels = np.repeat(np.arange(10), 5000)
    groups = np.tile(np.repeat([0, 1], [4750, 250]), 10)
    rows = repeated_rows(labels, groups)
    assert len(rows) == 95_000
    assert set(np.bincount(rows)[groups == 1]) == {19}
    assert set(np.bincount(rows)[groups == 0]) == {1}


@given(seeds)
def test_every_row_is_repeated_as_its_cell_is_rare(seed: int) -> None:
    labels, groups = skewed(seed)
    counts, times = cell_sizes(labels, groups, (2, 3)), np.bincount(repeated_rows(labels, groups))
    for row, count in enumerate(times):
        largest = max(counts[0, labels[row]], counts[1, labels[row]])
        assert count == largest // counts[groups[row], labels[row]]


def test_balanced_data_are_left_as_they_are() -> None:
    labels, groups = np.repeat([0, 1], 10), np.tile([0, 1], 10)
    assert repeated_rows(labels, groups).tolist() == [*range(20)]
    assert subsampled_rows(labels, groups, 3).tolist() == [*range(20)]


@given(seeds)
@example(471)  # nobody in one cell
def test_subsamples_have_cells_of_one_size_and_differ_by_seed(seed: int) -> None:
    labels, groups = skewed(seed)
    counts = cell_sizes(labels, groups, (2, 3))
    rows = subsampled_rows(labels, groups, seed)
    smallest = counts[counts > 0].min()  # a cell that nobody is in stays empty
    drawn = cell_sizes(labels[rows], groups[rows], (2, 3))
    np.testing.assert_array_equal(drawn, np.where(counts > 0, smallest, 0))
    assert len(set(rows.tolist())) == len(rows)
    np.testing.assert_array_equal(rows, subsampled_rows(labels, groups, seed))
    assert not np.array_equal(rows, subsampled_rows(labels, groups, seed + 1))


def test_cells_are_drawn_alike_however_rare() -> None:
    labels, groups = skewed(0)
    cells = np.unique(groups * 3 + labels, return_inverse=True)[1]
    rows = np.concatenate([balanced_draw(cells, 7, step, 64) for step in range(500)])
    share = np.bincount(cells[rows]) / len(rows)
    assert share == pytest.approx(1 / 6, abs=5 * np.sqrt(5 / 36 / len(rows)))
    again = balanced_draw(cells, 7, 3, 64)
    np.testing.assert_array_equal(rows[3 * 64 : 4 * 64], again)


def test_errors_are_repeated() -> None:
    assert rows_with_repeats(np.array([False, True, False]), 4).tolist() == [0, 1, 1, 1, 1, 2]


def test_a_batch_of_two_groups_is_skipped_where_one_is_short() -> None:
    groups, drawn = np.array([0, 0, 1, 1, 1]), np.array([4, 1, 2, 0, 3])
    assert balanced_batch(groups, drawn, 2).tolist() == [1, 0, 4, 2]
    assert balanced_batch(groups, drawn, 3) is None


@given(seeds, st.sampled_from([1.0, 2.0, 3.0]))
def test_a_subset_holds_every_ratio_and_a_looser_one_keeps_more(seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, 120)
    labels = (rng.random((120, 5)) < np.array([0.2, 0.6])[groups][:, None]).astype(int)
    rows = ratio_subset(labels, groups, ratio)
    for label in range(5):
        held = labels[rows, label] == 1
        zero, one = (int((groups[rows][held] == code).sum()) for code in (0, 1))
        assert max(zero, one) <= ratio * min(zero, one)
    assert len(rows) <= len(ratio_subset(labels, groups, ratio + 1))


def test_a_balanced_label_costs_no_row() -> None:
    groups, labels = np.array([0, 1, 0, 1]), np.array([[1], [1], [0], [0]])
    assert ratio_subset(labels, groups, 1.0).tolist() == [0, 1, 2, 3]


def test_a_control_has_the_size_and_its_own_seed() -> None:
    rows = size_matched_subset(100, 27, 5)
    assert len(set(rows.tolist())) == 27
    assert rows.tolist() != size_matched_subset(100, 27, 6).tolist()
