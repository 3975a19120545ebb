"""A slice compared with its baseline has the variance floor of a group of the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scotoma.numbers import ChangeEvidence, Tally, Words
from scotoma.numbers.clusters import cluster_sums
from scotoma.slices.judging.means import Means
from scotoma.slices.judging.rates import RateChanges
from tests.slices.searching import find_slices

N = 200


def populations(members: int, flips: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of both populations, shape (N, K), and the cluster of each row."""
    rng = np.random.default_rng(members)
    dense = rng.random((N, members)) < 0.1
    compressed = dense ^ (rng.random((N, members)) < flips)
    return dense.astype(float), compressed.astype(float), rng.integers(0, 60, N)


def as_group(dense: np.ndarray, compressed: np.ndarray, clusters: np.ndarray) -> ChangeEvidence:
    """The change of the same rows as that of a group."""
    events = (cluster_sums(own, clusters) for own in (dense, compressed))
    return ChangeEvidence.of_tally(
        Tally.of(*events, cluster_sums(np.ones(N), clusters), paired=True)
    )


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("members", [1, 5])
def test_where_nothing_flipped_a_slice_is_as_uncertain_as_a_group(members: int, joined: bool):
    dense, _, clusters = populations(members, 0.0)
    search = find_slices(
        pl.DataFrame({"x": np.arange(N) % 2}), dense.astype(bool), baseline=dense.astype(bool),
        paired=True, permutations=0, clusters=clusters if joined else None,
    )  # fmt: skip
    group = as_group(dense, dense, clusters if joined else np.arange(N))
    known = group.absolute((), Words("error", "examples", "all"))
    assert search.change.value == 0
    assert (search.change.low, search.change.high) == pytest.approx((known.low, known.high))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("flips", [0.005, 0.1])
def test_the_floor_is_that_of_a_group_with_the_same_flips(flips: float, joined: bool):
    dense, compressed, clusters = populations(5, flips)
    plain = Means(compressed, dense, "baseline", True, "higher", 2, clusters if joined else None)
    every = np.ones(N, bool)
    before, after = (replace(plain, flips=floored).effect(every, 0.95) for floored in (False, True))
    floor = as_group(dense, compressed, clusters if joined else np.arange(N)).difference.floor
    # Of clusters a slice adds up squares about 0, which are larger than those about the mean.
    most = 3.0 if joined else 1 + 1e-9
    assert floor * (1 - 1e-9) <= after.se**2 - before.se**2 <= floor * most
    assert after.df > before.df


def test_the_change_of_one_model_is_that_of_a_group():
    dense, compressed, _ = populations(1, 0.02)
    change = (compressed - dense)[:, 0].astype(np.int8)
    seen = RateChanges(change, "higher", 1).effect(np.ones(N, bool), 0.95)
    known = as_group(dense, compressed, np.arange(N)).absolute((), Words("error", "", ""))
    assert (seen.value, seen.low, seen.high) == pytest.approx((known.value, known.low, known.high))
