"""Subsets that share a pass over the rows have the sums that each would have alone."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scotoma.slices.search.lattice import feature_subsets
from scotoma.slices.search.predicates import Encoded, Predicate
from scotoma.slices.search.sweep import Budget, families, joint_blocks
from tests.slices.searching import prepared


def encoded_of(codes: np.ndarray, sizes: list[int]) -> Encoded:
    predicates = tuple(
        tuple(Predicate(f"f{f}", f"f{f} = {v}", "value") for v in range(size))
        for f, size in enumerate(sizes)
    )
    return Encoded(codes.astype(np.uint8), predicates)


@given(st.integers(1, 14), st.integers(1, 4), st.sampled_from([1, 40, 10**6]))
def test_every_subset_is_a_margin_of_one_joint_table_or_stands_alone(features, cross, most):
    sizes = [2 + f % 4 for f in range(features)]
    joint, alone = families(sizes, feature_subsets(features, cross), most)
    margins = chain.from_iterable(combinations(one, cross) for one in joint)
    assert sorted([*margins, *alone]) == feature_subsets(features, cross)
    assert all(np.prod([sizes[f] for f in one]) <= most for one in joint)


def test_eight_features_have_the_steiner_quadruple_system_of_fourteen_blocks():
    joint, alone = families([2] * 8, feature_subsets(8, 3), 10**6)
    assert len(joint) == 14
    assert alone == []


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 5), min_size=4, max_size=7),
    st.integers(0, 400),
    st.sampled_from([0, 5, 390]),
    st.sampled_from([1, 60, 10**6]),
)
def test_margins_hold_the_sums_of_each_cells_own_rows(sizes, rows, some, most_cells):
    rng = np.random.default_rng(rows)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes])
    lanes = rng.integers(0, 9, (rows, 3)).astype(np.uint16)
    few = np.sort(rng.permutation(rows)[:some])
    joint, _ = families(sizes, feature_subsets(len(sizes), 3), 10**6)
    seen = 0
    for block in joint_blocks(encoded_of(codes, sizes), joint, most_cells=most_cells, most_keys=9):
        counts, sums = block.add(), block.add(None, lanes)
        few_counts, few_sums = block.add(few), block.add(few, lanes[few])
        where, own = block.locate(np.arange(block.number))
        for cell in range(block.number):
            features = block.subsets[where[cell]]
            values = np.unravel_index(own[cell], [sizes[f] for f in features])
            inside = np.all(codes[list(features)] == np.array(values)[:, None], axis=0)
            assert counts[cell] == inside.sum()
            assert few_counts[cell] == inside[few].sum()
            np.testing.assert_array_equal(sums[cell], lanes[inside].sum(0))
            np.testing.assert_array_equal(few_sums[cell], lanes[few][inside[few]].sum(0))
        seen += len(block.subsets)
    assert seen == 4 * len(joint)


@pytest.mark.parametrize("direction", ["higher", "lower", "both"])
@pytest.mark.parametrize("against", ["whole", "baseline"])
def test_replicates_that_are_not_drawn_and_shared_passes_change_no_slice(direction, against):
    rng = np.random.default_rng(5)
    sizes = [2, 3, 2, 4, 3]
    encoded = encoded_of(np.stack([rng.integers(0, size, 900) for size in sizes]), sizes)
    # Denominators that are often 0: some replicates of small slices have no metric.
    labels = rng.random(900) < 0.15
    model, other = (rng.random(900) < 0.3 for _ in range(2))
    evidence = prepared(
        model.astype(int), labels=labels.astype(int), metric="f1", protocol="published",
        baseline=other.astype(int) if against == "baseline" else None, direction=direction,
        bootstrap=12,
    )  # fmt: skip
    every = evidence.sweep(encoded, 1.0, Budget(cells=1))
    kept = evidence.sweep(encoded, 0.05, Budget())
    expected = every.take(every.p <= 0.05)
    assert kept.p.size > 5
    assert kept.tested == every.tested
    assert kept.subsets == every.subsets
    for column in ("subset", "cell", "size", "effect"):
        np.testing.assert_array_equal(getattr(kept, column), getattr(expected, column))
    np.testing.assert_allclose(kept.p, expected.p, rtol=1e-12)
