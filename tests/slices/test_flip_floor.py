"""A slice compared with its baseline has the variance floor of a group of the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from scotoma.numbers import ChangeEvidence, Estimate, Tally, Words
from scotoma.numbers.clusters import cluster_sums
from scotoma.slices.judging.evidence import estimate_change
from scotoma.slices.outcomes import SLICE_METRICS, prepare_outcome
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
        Tally.of(*events, cluster_sums(np.ones(len(dense)), clusters), paired=True)
    )


def only(group: ChangeEvidence) -> Estimate:
    columns = group.columns(lambda place: Words("error", "examples", "all"))
    return columns["absolute"].estimates()[0]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("members", [1, 5])
def test_where_nothing_flipped_a_slice_is_as_uncertain_as_a_group(members: int, joined: bool):
    dense, _, clusters = populations(members, 0.0)
    search = find_slices(
        pl.DataFrame({"x": np.arange(N) % 2}), dense.astype(bool), baseline=dense.astype(bool),
        paired=True, permutations=0, clusters=clusters if joined else None,
    )  # fmt: skip
    group = as_group(dense, dense, clusters if joined else np.arange(N))
    known = only(group)
    assert search.change.value == 0
    assert (search.change.low, search.change.high) == pytest.approx((known.low, known.high))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("flips", [0.005, 0.1])
@pytest.mark.parametrize("members", [1, 5])
def test_the_change_of_a_slice_and_of_all_is_that_of_a_group(flips, joined, members):
    dense, compressed, clusters = populations(members, flips)
    inside = np.arange(N) % 3 > 0
    own = clusters if joined else np.arange(N)
    outcome = prepare_outcome(SLICE_METRICS["error"], compressed, dense, None, N, paired=True)
    outcome = replace(outcome, clusters=own if joined else None)
    for rows in (np.ones(N, bool), inside):
        seen = estimate_change(outcome.take(rows), 0.95)
        group = as_group(
            dense[rows], compressed[rows], np.unique(own[rows], return_inverse=True)[1]
        )
        known = only(group)
        for name in ("value", "low", "high", "n", "events", "se", "df", "note"):
            assert getattr(seen, name) == pytest.approx(getattr(known, name)), name
