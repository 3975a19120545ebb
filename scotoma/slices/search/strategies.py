"""How is a table searched in each mode?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Flags
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging.choose import Judge
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.judging.tally import Cells, Rows
from scotoma.slices.search.cover import (
    HalfTests,
    Proposals,
    SearchedTable,
    cover,
    cross_screen,
    half_size,
    p_of_slice,
)
from scotoma.slices.search.findings import (
    Key,
    SliceFinding,
    SliceTestResult,
    flag_rows,
    keys_of,
    unexplained,
)
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.priority import Iteration, prioritise
from scotoma.slices.search.sweep import Budget, Hits, minimal, sweep
from scotoma.slices.settings import SearchSettings


@dataclass(frozen=True)
class SearchPlan:
    """How to search.

    Attributes:
        asked: The settings of the search.
        candidates: In priority mode, nonempty candidates an iteration.
        budget: What a block may hold.
    """

    asked: SearchSettings
    candidates: int
    budget: Budget


@dataclass(frozen=True, eq=False)
class TableInMemory:
    """A table whose rows this machine holds.

    Attributes:
        encoded: The predicates of the evidence's rows.
        evidence: The outcome and its test.
        plan: How to search.
        halves: Two parts of the rows, for confirmation.
    """

    encoded: Encoded
    evidence: Judge
    plan: SearchPlan
    halves: tuple[Rows, Rows]

    def look(self, half: int | None, without: tuple[Key, ...]) -> Hits:
        """Test all candidates, as `SearchedTable` says."""
        asked, least = self.plan.asked, self.plan.asked.min_size
        encoded, evidence = self.encoded, self.evidence
        if half is not None:
            (encoded, evidence), least = self._parts[half], half_size(least)
        if without:
            rows = unexplained(encoded, without)
            if rows.size == 0:
                return Hits()
            encoded, evidence = encoded.take(rows), evidence.take(rows)
        return sweep(encoded, evidence, asked.max_cross, least, asked.alpha, self.plan.budget)

    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""
        first, second = (
            _conditional(*self._parts[1 - half], keys) for half, keys in enumerate(proposals)
        )
        rows = np.ones(self.evidence.rows)
        return HalfTests((first, second), partial(flag_rows, self.encoded), rows)

    @cached_property
    def _parts(self) -> list[tuple[Encoded, Judge]]:
        return [(self.encoded.take(rows), self.evidence.take(rows)) for rows in self.halves]


def search_in_memory(
    encoded: Encoded, evidence: Judge, plan: SearchPlan, halves: tuple[Rows, Rows]
) -> tuple[list[SliceFinding], Hits, tuple[Iteration, ...]]:
    """Search a table in memory as planned."""
    asked, iterations = plan.asked, tuple[Iteration, ...]()

    def decide(hits: Hits) -> Flags:
        return adjust(hits.p, hits.tested, asked.correction) <= asked.alpha

    if asked.mode == "iterative":
        hits = sweep(
            encoded, evidence, asked.max_cross, asked.min_size, asked.alpha, plan.budget, decide
        )
    elif asked.mode == "priority":
        hits, iterations = prioritise(
            encoded,
            evidence,
            asked,
            plan.candidates,
            decide,
            plan.budget,
        )
    else:
        table = TableInMemory(encoded, evidence, plan, halves)
        return *search_table(table, encoded, asked), ()
    return significant(encoded, hits, asked.correction, asked.alpha), hits, iterations


def search_table(
    table: SearchedTable, encoded: Encoded, asked: SearchSettings
) -> tuple[list[SliceFinding], Hits]:
    """Search a table in the modes that test all candidates, cover and batch."""
    if asked.confirms:
        return cross_screen(table, encoded, asked.alpha, asked.correction)
    if asked.mode == "cover":
        return cover(partial(table.look, None), encoded, asked.alpha, asked.correction)
    hits = table.look(None, ())
    return significant(encoded, hits, asked.correction, asked.alpha), hits


def split(ids: npt.NDArray[np.generic], seed: int) -> tuple[Rows, Rows]:
    """Split the examples into halves that depend on their ids alone; equal ids stay together.

    >>> first, second = split(np.arange(5), 0)
    >>> first.size, second.size
    (3, 2)
    """
    names, own = np.unique(ids, return_inverse=True)
    order = np.argsort(hash_ids(names, seed), kind="stable")
    first = np.zeros(names.size, np.bool_)
    first[order[: -(-order.size // 2)]] = True
    return np.flatnonzero(first[own]), np.flatnonzero(~first[own])


def significant(
    encoded: Encoded, hits: Hits, correction: Correction, alpha: float
) -> list[SliceFinding]:
    """List the significant candidates that lie below no other, the most significant first."""
    q = adjust(hits.p, hits.tested, correction)
    places = np.flatnonzero(q <= alpha)
    places = places[minimal(encoded, hits.take(places))]
    order = np.lexsort((hits.cell[places], hits.subset[places], hits.p[places]))
    chosen = hits.take(places[order])
    columns = (chosen.p, q[places[order]], chosen.size)
    results = zip(keys_of(encoded, chosen), *(own.tolist() for own in columns), strict=True)
    return [SliceFinding(key, SliceTestResult(*result)) for key, *result in results]


def _conditional(
    encoded: Encoded, evidence: Judge, keys: tuple[Key, ...]
) -> list[tuple[float, int]]:
    """Give p-value and size of each slice among the rows in none before it."""
    remaining = np.arange(evidence.rows)
    results: list[tuple[float, int]] = []
    for key in keys:
        inside = flag_rows(encoded, key)[remaining]
        cells = Cells(inside[None].astype(np.int32), 2)
        judged = evidence.take(remaining).judge(cells, 1, 1.0)
        results.append((p_of_slice(judged), int(np.count_nonzero(inside))))
        remaining = remaining[~inside]
    return results
