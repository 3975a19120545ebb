"""Strategies against their algorithms written out slowly, in the paper's notation."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scotoma.slices.hashing import poisson_weights
from scotoma.slices.judging.bootstrap import BootstrapLane, row_draws
from scotoma.slices.judging.tally import Cells
from scotoma.slices.outcomes import SLICE_METRICS, Scored, prepare_outcome
from scotoma.slices.search.lattice import blocks, candidate_count, feature_subsets
from scotoma.slices.search.predicates import Encoded, Predicate
from scotoma.slices.search.strategies import TableInMemory, nonempty_rate
from scotoma.slices.search.sweep import Budget, Hits
from scotoma.slices.settings import SearchSettings
from tests.slices.searching import prepared


def encoded_of(codes: np.ndarray) -> Encoded:
    """Codes, shape (F, N), as an encoded table."""
    predicates = tuple(
        tuple(Predicate(f"f{f}", f"f{f} = {v}", "value") for v in range(int(own.max()) + 1))
        for f, own in enumerate(codes)
    )
    return Encoded(codes.astype(np.uint8), predicates)


def table(seed: int, rows: int = 160, features: int = 4) -> tuple[Encoded, np.ndarray]:
    """A small table, and an outcome that is worse on two of its slices."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, 2 + f % 3, rows) for f in range(features)])
    bad = (codes[0] == 1) & (codes[1] == 2) | (codes[2] == 3)
    return encoded_of(codes), rng.random(rows) < np.where(bad, 0.6, 0.2)


# --- the twin: Liu et al. 2022, sections 2 to 4 and Appendix A.1 ----------------------------------


class Twin:
    """Slices as sets of singleton predicates P, their examples S_P by a plain scan."""

    def __init__(self, encoded: Encoded, errors: np.ndarray, B: int, seed: int) -> None:
        self.codes, self.errors = encoded.codes, errors
        N = errors.size
        self.weights = [np.ones(N), *poisson_weights(np.arange(N), B, seed).T.astype(float)]
        self.P_singleton = [
            (f, v) for f, own in enumerate(encoded.predicates) for v in range(len(own))
        ]
        self.known: dict[frozenset, tuple[int, float]] = {}

    def test(self, P: frozenset) -> tuple[int, float]:
        """|S_P| and the p-value of delta psi, MetricComputingAndHypothesisTest of one slice."""
        if P not in self.known:
            S_P = np.all([self.codes[f] == v for f, v in P], axis=0)
            delta = []
            for w in self.weights:
                if (w * S_P).sum() > 0:
                    psi = (w * S_P * self.errors).sum() / (w * S_P).sum()
                    delta.append(psi - (w * self.errors).sum() / w.sum())
            p = 1.0
            if len(delta) > 2 and delta[0] != 0:
                spread = np.std(delta[1:], ddof=1)
                t = delta[0] / spread if spread > 0 else np.inf * np.sign(delta[0])
                p = float(stats.t.sf(t, len(delta) - 2))
            self.known[P] = (int(S_P.sum()), p)
        return self.known[P]

    def extend(self, P: frozenset, found: set, small: set) -> list[frozenset]:
        """Children of P that are subsets of no slice in the sets S and E."""
        features = {f for f, _ in P}
        children = [P | {one} for one in self.P_singleton if one[0] not in features]
        return [
            child
            for child in children
            if not any(frozenset(sub) in found | small for n in range(1, len(child) + 1)
                       for sub in combinations(child, n))
        ]  # fmt: skip

    def iterative(self, L: int, N_min: int, alpha: float) -> tuple[set, int]:
        """Algorithm 1, and the number of slices computed."""
        S, E, computed = set(), set(), 0
        N_prev = {frozenset()}
        self.proposed = 0
        for _ in range(L):
            C = {child for P in N_prev for child in self.extend(P, S, E)}
            N_prev = set()
            self.proposed += len(C)
            for P in C:
                size, p = self.test(P)
                computed += size > 0
                (E if size < N_min else S if p <= alpha else N_prev).add(P)
        return S, computed

    def batch(self, L: int, N_min: int, alpha: float) -> set:
        """All candidates; of the significant those that lie below no other."""
        S = set()
        for n in range(1, L + 1):
            for P in map(frozenset, combinations(self.P_singleton, n)):
                if len({f for f, _ in P}) == n and self.test(P)[0] >= N_min:
                    S |= {P} if self.test(P)[1] <= alpha else set()
        return {P for P in S if not any(Q < P for Q in S)}

    def priority(
        self,
        L: int,
        N_min: int,
        alpha: float,
        I: int,  # noqa: E741
        K: int,
        score=lambda p, P: p,
    ) -> set:
        """Algorithm 2; slices of equal score leave the queue in the order of their arrival."""
        S, E, Q, done = set(), set(), [], set()
        seen = dict.fromkeys(range(1, L + 1), (0, 0))
        for i in range(I):
            if i == 0:
                C = [frozenset({P}) for P in self.P_singleton]
            else:
                C, k = [], 0.0
                while k < K and Q:
                    P = Q.pop(0)[2]
                    if len(P) == L:
                        continue
                    for child in self.extend(P, S, E):
                        if child not in done and child not in C:
                            C.append(child)
                            rates = [seen[n] for n in range(len(child), 0, -1) if seen[n][0]]
                            k += rates[0][1] / rates[0][0]
            done |= set(C)
            for P in sorted(C, key=order):
                size, p = self.test(P)
                seen[len(P)] = (seen[len(P)][0] + 1, seen[len(P)][1] + (size > 0))
                if size < N_min:
                    E.add(P)
                elif p <= alpha:
                    S.add(P)
                else:
                    Q.append((score(p, P), len(done) * 1000 + len(Q), P))
            Q.sort(key=lambda entry: (entry[0], entry[1]))
        return {P for P in S if not any(other < P for other in S)}


def order(P: frozenset) -> tuple:
    """The order in which slices of one iteration are tested: size, features, values."""
    features = tuple(sorted(f for f, _ in P))
    return len(P), features, tuple(v for _, v in sorted(P))


def ours(encoded, searched, mode, alpha, correction="none", K=40, iterations=3, **asked):
    settings = SearchSettings(
        mode=mode, alpha=alpha, correction=correction, confirm=False, iterations=iterations,
        min_size=searched.least, budget=K, **asked,
    )  # fmt: skip
    rows = searched.evidence.rows
    halves = (np.arange(0, rows, 2), np.arange(1, rows, 2))
    table = TableInMemory(
        encoded=encoded, asked=settings, evidence=searched.evidence, budget=Budget(cells=64),
        halves=halves,
    )  # fmt: skip
    findings, hits, _ = table.search()
    return {frozenset(zip(*one.key, strict=True)) for one in findings}, hits


def published(errors, B, seed, least, ids=None):
    return prepared(
        errors.astype(float), ids, protocol="published", bootstrap=B, seed=seed, min_size=least
    )


def rates(errors, least):
    return prepared(errors.astype(float), min_size=least)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("N_min", [1, 12])
def test_strategies_find_what_the_papers_algorithms_find(seed, N_min):
    encoded, errors = table(seed)
    twin = Twin(encoded, errors, B=20, seed=seed)
    evidence = published(errors, 20, seed, N_min)
    S, computed = twin.iterative(3, N_min, 0.01)
    found, hits = ours(encoded, evidence, "iterative", 0.01)
    assert found == S
    assert (hits.nonempty, hits.proposed) == (computed, twin.proposed)
    assert S
    assert ours(encoded, evidence, "batch", 0.01)[0] == twin.batch(3, N_min, 0.01) == S
    for K, I in ((5, 2), (30, 3)):  # noqa: E741
        expected = twin.priority(3, N_min, 0.01, I, K)
        assert ours(encoded, evidence, "priority", 0.01, K=K, iterations=I)[0] == expected
        broad = twin.priority(3, N_min, 0.01, I, K, score=lambda p, P: len(P))
        plan = {"K": K, "iterations": I, "order": "breadth-first"}
        assert ours(encoded, evidence, "priority", 0.01, **plan)[0] == broad
        plan |= {"order": "random", "K": 10**6, "iterations": 3}
        assert ours(encoded, evidence, "priority", 0.01, **plan)[0] == S  # with nothing left out


@pytest.mark.parametrize("K", [30, 60, 120])
def test_priority_counts_candidates_by_the_rate_at_which_they_hold_a_row(K):
    rng = np.random.default_rng(K)
    codes = np.stack([rng.integers(0, size, 70) for size in (3, 9, 6, 4)])
    encoded, errors = encoded_of(codes), rng.random(70) < 0.3
    twin = Twin(encoded, errors, B=10, seed=0)
    found, hits = ours(encoded, published(errors, 10, 0, 1), "priority", 0.01, K=K, iterations=4)
    assert found == twin.priority(3, 1, 0.01, 4, K)
    assert hits.nonempty == sum(size > 0 for P, (size, _) in twin.known.items())
    everything = ours(encoded, published(errors, 10, 0, 1), "iterative", 0.01)[1]
    assert hits.nonempty < everything.nonempty


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 5, 20]), st.sampled_from([0.01, 0.05, 0.3]))
def test_iterative_finds_exactly_batchs_minimal_slices_under_shared_weights(seed, least, alpha):
    encoded, errors = table(seed, rows=120)
    evidence = published(errors, 10, seed, least)
    batch, every = ours(encoded, evidence, "batch", alpha)
    iterative, pruned = ours(encoded, evidence, "iterative", alpha)
    assert iterative == batch
    assert pruned.nonempty <= every.nonempty
    exhaustive, _ = ours(encoded, evidence, "priority", alpha, K=10**6, iterations=3)
    assert exhaustive == batch


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 80),
    st.sampled_from([1, 7, 1 << 14]),
)
def test_sizes_over_a_level_sum_to_rows_times_feature_subsets(sizes, rows, most_cells):
    rng = np.random.default_rng(rows)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes])
    encoded = encoded_of(codes)
    F = len(sizes)
    for level in range(1, min(F, 3) + 1):
        total = occupied = 0
        for block in blocks(encoded, feature_subsets(F, level), most_cells=most_cells):
            own = block.add()
            total += own.sum()
            occupied += np.count_nonzero(own)
        assert total == rows * comb(F, level)
        distinct = [
            len(set(zip(*codes[list(s)], strict=True))) for s in combinations(range(F), level)
        ]
        assert occupied == sum(distinct)


@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 3, 40, 1 << 14]),
    st.integers(1, 10**4),
    st.integers(1, 3),
)
def test_neither_blocks_threads_nor_the_order_of_rows_change_what_is_found(
    seed, cells, keys, threads
):
    encoded, errors = table(seed)
    shuffle = np.random.default_rng(seed).permutation(errors.size)
    whole = published(errors, 5, 0, 1).sweep(encoded, 1.0, Budget())
    shuffled = published(errors[shuffle], 5, 0, 1, ids=shuffle)
    parts = shuffled.sweep(encoded.take(shuffle), 1.0, Budget(cells, keys, threads))
    assert slices_of(whole) == slices_of(parts)


def slices_of(hits: Hits) -> set:
    return {
        (hits.subsets[s], int(cell), int(size), float(effect), round(float(p), 12))
        for s, cell, size, effect, p in zip(
            hits.subset, hits.cell, hits.size, hits.effect, hits.p, strict=True
        )
    }


def test_cells_far_beyond_the_rows_are_not_numbered_and_lose_nothing():
    rng = np.random.default_rng(0)
    codes = np.concatenate([rng.integers(0, 60, (3, 200)), np.full((3, 1), 59)], axis=1)
    encoded, errors = encoded_of(codes), rng.random(201) < 0.3
    hits = rates(errors, 1).sweep(encoded, 1.0, Budget())
    expected = sum(
        len(set(zip(*codes[list(s)], strict=True)))
        for n in (1, 2, 3)
        for s in combinations(range(3), n)
    )
    assert hits.nonempty == expected
    (block,) = blocks(encoded, [(0, 1, 2)])
    assert block.number <= 201 < 60**3
    _, cell = block.locate(block.keys[0].astype(np.intp))
    np.testing.assert_array_equal(cell, (codes[0] * 60 + codes[1]) * 60 + codes[2])
    batch, _ = ours(encoded, rates(errors, 1), "batch", 0.05)
    iterative, _ = ours(encoded, rates(errors, 1), "iterative", 0.05)
    assert batch == iterative


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 60), st.integers(1, 4))
def test_candidates_count_cells_or_rows_of_every_feature_subset(sizes, rows, max_cross):
    codes = np.stack([np.arange(rows) % size for size in sizes])
    encoded = encoded_of(codes)
    sizes = encoded.sizes
    expected = sum(
        min(int(np.prod(sizes[list(subset)])), rows)
        for level in range(1, max_cross + 1)
        for subset in combinations(range(len(sizes)), level)
    )
    assert candidate_count(encoded, max_cross) == expected


def test_a_level_not_yet_seen_takes_the_rate_of_the_one_below():
    assert nonempty_rate({1: (10, 10), 2: (40, 10)}, 2) == 0.25
    assert nonempty_rate({1: (10, 9)}, 3) == 0.9
    assert nonempty_rate({}, 2) == 1.0


def test_cover_takes_the_plainest_of_equal_slices_and_explains_its_rows_away():
    # Feature 1 says the same as feature 0; what is wrong with 2 = 1 is all within 0 = 1.
    codes = np.array([[0] * 300 + [1] * 100, [0] * 300 + [1] * 100, [0, 1] * 150 + [1] * 100])
    errors = np.array([row % 11 == 0 for row in range(300)] + [1] * 50 + [0] * 50, bool)
    findings, _ = ours(encoded_of(codes), rates(errors, 30), "cover", 0.05, "bh")
    assert findings == {frozenset({(0, 1)})}
    both, _ = ours(encoded_of(codes), rates(errors, 30), "batch", 0.05, "bh")
    assert frozenset({(1, 1)}) in both
    assert len(both) > 1


@pytest.mark.parametrize("B", [2, 20])
def test_sums_of_replicates_are_exact_whatever_their_type(B):
    rng = np.random.default_rng(B)
    for rows in (50, 70_000):  # 16-bit sums, 32-bit sums
        weights = poisson_weights(np.arange(rows), B, 1)
        above, below = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
        keys = rng.integers(0, 3, rows)[None]
        outcome = prepare_outcome(SLICE_METRICS["mean"], above, None, None, rows)
        ratio = Scored(above[:, None].astype(float), below[:, None].astype(float))
        lane = BootstrapLane("higher", (np.ones((1, B + 1), int),))
        parts = lane.adds(
            replace(outcome.having([ratio]), weights=row_draws(np.arange(rows), B, 1))
        )
        _, u, v = (Cells(keys, 3).add(*part) for part in parts)
        w = np.concatenate([np.ones((rows, 1), int), weights], axis=1).astype(int)
        for cell, draw in product(range(3), range(B + 1)):
            own = keys[0] == cell
            assert u[cell, draw] == (w[own, draw] * above[own]).sum()
            assert v[cell, draw] == (w[own, draw] * below[own]).sum()
