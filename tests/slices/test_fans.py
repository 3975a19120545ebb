"""Compiled code against plain scans of the rows, and against the search without it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.slices import fans as compiling
from scotoma.slices import kernel
from scotoma.slices.evidence import Evidence
from scotoma.slices.fans import Fan, compiled, fans
from scotoma.slices.lattice import feature_subsets
from scotoma.slices.predicates import Encoded, Predicate
from scotoma.slices.replicates import Ratio, Replicates
from scotoma.slices.search import COLUMNS, Budget, Hits, sweep
from scotoma.slices.tally import PANEL, Cells
from scotoma.slices.weights import poisson_weights


def encoded_of(codes: np.ndarray, sizes: list[int]) -> Encoded:
    predicates = tuple(
        tuple(Predicate(f"f{f}", f"f{f} = {v}", "value") for v in range(size))
        for f, size in enumerate(sizes)
    )
    return Encoded(codes.astype(np.uint8), predicates)


def cut(sizes: list[int], rows: int, cross: int, most_cells: int) -> tuple[np.ndarray, list[Fan]]:
    rng = np.random.default_rng(rows)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes])
    subsets = feature_subsets(len(sizes), cross)
    return codes, list(fans(encoded_of(codes, sizes), subsets, kernel, most_cells=most_cells))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=6),
    st.integers(1, 2),
    st.integers(0, 300),
    st.sampled_from([0, 5, 290]),
    st.sampled_from([1, 60, 10**6]),
    st.sampled_from([np.uint16, np.int64]),
    st.sampled_from([1, 2]),
)
def test_fans_hold_the_sums_of_each_cells_own_rows_and_every_subset_once(
    sizes, cross, rows, some, most_cells, kind, panels
):
    codes, cuts = cut(sizes, rows, cross, most_cells)
    rng = np.random.default_rng(1)
    lanes = rng.integers(0, 99, (rows, PANEL * panels)).astype(kind)
    few = np.sort(rng.permutation(rows)[:some])
    for fan in cuts:
        where, own = fan.locate(np.arange(fan.cells))
        counts, sums = fan.count(), fan.tally(lanes)
        few_counts, few_sums = fan.count(few), fan.tally(lanes[few], few)
        assert sums.dtype == few_sums.dtype == kind
        for g, features in enumerate(fan.subsets):
            mine = np.flatnonzero(where == g)
            shape = [sizes[f] for f in features]
            np.testing.assert_array_equal(own[mine], np.arange(np.prod(shape)))
            keys = np.ravel_multi_index(tuple(codes[list(features)]), shape)[None]
            plain = Cells(keys, mine.size)
            np.testing.assert_array_equal(counts[mine], plain.count())
            np.testing.assert_array_equal(few_counts[mine], plain.count(few))
            np.testing.assert_array_equal(sums[mine], plain.tally(lanes))
            np.testing.assert_array_equal(few_sums[mine], plain.tally(lanes[few], few))
    seen = sorted(subset for fan in cuts for subset in fan.subsets)
    assert seen == feature_subsets(len(sizes), cross)


def test_flags_come_back_from_a_fan_as_they_went_in():
    sizes = [3, 2, 4, 5]
    _, (first, *_) = cut(sizes, 50, 2, 10**6)
    assert first.subsets == ((0, 1), (0, 2), (0, 3))
    rng = np.random.default_rng(0)
    flags = [rng.random(3 * size) < 0.5 for size in sizes[1:]]
    numbered = first.together(flags)
    for there, back in zip(flags, first.apart(numbered), strict=True):
        np.testing.assert_array_equal(back, there)
    where, own = first.locate(np.flatnonzero(numbered))
    for g, there in enumerate(flags):
        np.testing.assert_array_equal(own[where == g], np.flatnonzero(there))


def evidences() -> dict[str, tuple[Encoded, Evidence]]:
    """An evidence of each kind that compiled code serves, on features of 2 to 40 predicates."""
    rng = np.random.default_rng(5)
    sizes = [2, 3, 40, 4, 12, 3]
    codes = np.stack([rng.integers(0, size, 900) for size in sizes])
    weights = poisson_weights(np.arange(900), 12, 0)
    # Denominators that are often 0: some replicates of small slices have no metric.
    error, other = (rng.random(900) < np.where(codes[1] == 2, 0.5, 0.2) for _ in range(2))
    at_risk = rng.random(900) < 0.3
    model, baseline = (Ratio.of(one & at_risk, at_risk, weights) for one in (error, other))
    every = Ratio.of(error, np.ones(900, np.int64), weights)
    kinds: dict[str, Evidence] = {
        "weighted rates": Replicates(every, None, "higher", 1),
        "fewer": Replicates(model, None, "lower", 1),
        "both": Replicates(model, None, "both", 20, fewest=9.0),
        "higher than the baseline": Replicates(model, baseline, "higher", 1),
        "lower than the baseline": Replicates(model, baseline, "lower", 1),
    }
    return {name: (encoded_of(codes, sizes), one) for name, one in kinds.items()}


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("kind", evidences())
def test_compiled_code_finds_the_same_to_the_last_bit(monkeypatch, kind, pruned):
    encoded, evidence = evidences()[kind]

    def search(threads: int, cells: int = 1 << 14) -> Hits:
        decide = (lambda hits: hits.p <= 0.01) if pruned else None
        return sweep(encoded, evidence, 3, 0.05, Budget(cells=cells, threads=threads), decide)

    expected = search(1)
    monkeypatch.setattr(compiling, "PAYS", 0)
    for found in (search(1), search(2), search(1, cells=50)):
        assert found.p.size > 5
        assert (found.nonempty, found.tested) == (expected.nonempty, expected.tested)
        assert found.subsets == expected.subsets
        for column in COLUMNS:
            np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))


def test_small_searches_and_those_without_numba_are_not_compiled(monkeypatch):
    assert compiled(47_655, 45_825) is kernel
    assert compiled(3_918, 469) is None
    monkeypatch.delitem(sys.modules, "scotoma.slices.kernel")
    monkeypatch.delattr("scotoma.slices.kernel")
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiled(47_655, 45_825) is None


def test_where_compiled_code_cannot_be_kept_it_is_compiled_anew(monkeypatch):
    asked = []

    def njit(**options):
        asked.append(options)
        if "cache" in options:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda loop: loop

    monkeypatch.setattr(kernel, "njit", njit)
    assert kernel._compiled(len) is len
    assert ["cache" in options for options in asked] == [True, False]
