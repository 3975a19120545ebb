"""How is a table searched in each mode?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Flags, Floats
from scotoma.numbers.multiplicity import adjust
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging.evidence import Evidence, JudgedCells
from scotoma.slices.judging.tally import Cells, Rows
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.priority import Iteration, prioritise
from scotoma.slices.search.sweep import (
    Budget,
    Hits,
    Key,
    SliceFinding,
    SliceTestResult,
    conditions,
    flag_rows,
    join_hits,
    keys_of,
    minimal,
    sweep,
    unexplained,
)
from scotoma.slices.settings import SearchSettings

HARM = 0.8  # of a slice's harm: so much in fewer of its rows, and the slice is that part
SMALLER = 2 / 3
SCREEN = 5.0  # a half passes on what chance alone would offer at most so often
PASSED_ON = 20  # slices that a half passes on
MOST_SLICES = 100  # without halves

Proposals = tuple[tuple[Key, ...], tuple[Key, ...]]
PValues = list[tuple[float, int]]  # p-value and size of slices, each among the rows in none before


class Searched(NamedTuple):
    """What a search found, what it saw, and in priority mode what each iteration found."""

    findings: list[SliceFinding]
    hits: Hits
    iterations: tuple[Iteration, ...] = ()


@dataclass(frozen=True, eq=False)
class HalfTests:
    """What the examples say of the slices that each half proposes.

    Attributes:
        results: For each half, p-value and size of its proposals on the other half.
        inside: Flags the rows, or the sets of rows, that lie in one of the slices.
        rows: How many rows each flag stands for.
    """

    results: tuple[PValues, PValues]
    inside: Callable[[Key], Flags]
    rows: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchedTable(ABC):
    """A table whose candidates can be tested, wherever its rows are.

    Attributes:
        encoded: The predicates; on Beam without rows.
        asked: The settings of the search.
    """

    encoded: Encoded
    asked: SearchSettings

    @abstractmethod
    def look(self, half: int | None, without: tuple[Key, ...]) -> Hits:
        """Test all candidates of a half, or of all rows, among the rows in none of some slices."""

    @abstractmethod
    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""

    def search(self) -> Searched:
        """Search in the modes that test all candidates, cover and batch."""
        if self.asked.confirms:
            return self._cross_screen()
        if self.asked.mode == "cover":
            return Searched(*self._cover(None))
        hits = self.look(None, ())
        return Searched(self.significant(hits), hits)

    def significant(self, hits: Hits) -> list[SliceFinding]:
        """List the significant candidates that lie below no other, the most significant first."""
        q = adjust(hits.p, self.asked.correction, hits.tested)
        places = np.flatnonzero(q <= self.asked.alpha)
        places = places[minimal(self.encoded, hits.take(places))]
        order = np.lexsort((hits.cell[places], hits.subset[places], hits.p[places]))
        places = places[order]
        columns = (own[places].tolist() for own in (hits.p, q, hits.size))
        found = zip(keys_of(self.encoded, hits.take(places)), *columns, strict=True)
        return [SliceFinding(key, SliceTestResult(*result)) for key, *result in found]

    def _cross_screen(self) -> Searched:
        """Cover each half, test its slices on the other, and join those that are confirmed.

        A half only proposes: it passes on slices until chance alone would offer five as good. The
        other half, which had no part in the choice, decides, Holm over the few slices proposed,
        each half at alpha / 2. Searching with both halves in turn loses little against a search of
        all rows: a slice needs p = 1e-3 twice where that needs 1e-6 once.

        References:
            Zhao, Small and Rosenbaum (2018), JASA 113:1070-1084, cross-screening.
        """
        covers = [self._cover(half) for half in (0, 1)]
        first, second = (tuple(one.key for one in findings) for findings, _ in covers)
        tests = self.test_halves((first, second))
        confirmed: list[SliceFinding] = []
        for half, (findings, _) in enumerate(covers):
            results = tests.results[half]
            for place, q in holm_halves([p for p, _ in results], self.asked.alpha):
                p, size = results[place]
                result = SliceTestResult(p, q, size)
                confirmed.append(replace(findings[place], confirmation=result, half=1 - half))
        confirmed.sort(key=lambda one: (one.decision.q, one.decision.p))
        hits = join_hits([hits for _, hits in covers])
        return Searched(distinct_findings(confirmed, tests), hits)

    def _cover(self, half: int | None) -> tuple[list[SliceFinding], Hits]:
        """Find slices that explain the outcome one after the other.

        Every step searches all candidates among the rows that no earlier slice explains, takes the
        most significant (of equals the one with fewest predicates), narrows it to the part that
        holds its harm, and removes the rows of that. It stops where nothing is significant at the
        corrected level or, of a half, where chance alone would offer `SCREEN` slices as good: p
        times the candidates.
        """
        findings: list[SliceFinding] = []
        first: Hits | None = None
        while len(findings) < (MOST_SLICES if half is None else PASSED_ON):
            earlier = tuple(finding.key for finding in findings)
            hits = self.look(half, earlier)
            first = first or hits
            if hits.p.size == 0:
                break
            best = int(np.lexsort((hits.cell, hits.subset, -hits.size, hits.cross, hits.p))[0])
            q = adjust(hits.p, self.asked.correction, hits.tested)
            good = q <= self.asked.alpha if half is None else hits.p * hits.tested <= SCREEN
            if not good[best]:
                break
            best = narrowed(self.encoded, hits, best, good)
            result = SliceTestResult(float(hits.p[best]), float(q[best]), int(hits.size[best]))
            (key,) = keys_of(self.encoded, hits.take([best]))
            findings.append(SliceFinding(key, result, earlier=earlier))
        return findings, first or Hits()


@dataclass(frozen=True, eq=False, kw_only=True)
class TableInMemory(SearchedTable):
    """A table whose rows this machine holds.

    Attributes:
        evidence: The outcome of every row and its test.
        budget: What a block may hold.
        halves: Two parts of the rows, for confirmation.
    """

    evidence: Evidence
    budget: Budget
    halves: tuple[Rows, Rows]

    def search(self) -> Searched:
        """Search in any mode."""
        asked, iterations = self.asked, tuple[Iteration, ...]()

        def decide(hits: Hits) -> Flags:
            return adjust(hits.p, asked.correction, hits.tested) <= asked.alpha

        if asked.mode == "iterative":
            hits = sweep(
                self.encoded, self.evidence, asked.max_cross, asked.min_size, asked.alpha,
                self.budget, decide,
            )  # fmt: skip
        elif asked.mode == "priority":
            hits, iterations = prioritise(self.encoded, self.evidence, asked, decide, self.budget)
        else:
            return super().search()
        return Searched(self.significant(hits), hits, iterations)

    def look(self, half: int | None, without: tuple[Key, ...]) -> Hits:
        """Test all candidates, as `SearchedTable` says."""
        asked, least = self.asked, self.asked.min_size
        encoded, evidence = self.encoded, self.evidence
        if half is not None:
            (encoded, evidence), least = self._parts[half], half_size(least)
        if without:
            rows = unexplained(encoded, without)
            if rows.size == 0:
                return Hits()
            encoded, evidence = encoded.take(rows), evidence.take(rows)
        return sweep(encoded, evidence, asked.max_cross, least, asked.alpha, self.budget)

    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""
        first, second = (
            _conditional(*self._parts[1 - half], keys) for half, keys in enumerate(proposals)
        )
        rows = np.ones(self.evidence.rows)
        return HalfTests((first, second), partial(flag_rows, self.encoded), rows)

    @cached_property
    def _parts(self) -> list[tuple[Encoded, Evidence]]:
        return [(self.encoded.take(rows), self.evidence.take(rows)) for rows in self.halves]


def holm_halves(p: list[float], alpha: float) -> list[tuple[int, float]]:
    """List the proposals of a half that the other half confirms, and the q of each.

    >>> holm_halves([0.5, 0.001], 0.05)
    [(1, 0.004)]
    """
    q = np.minimum(2.0 * adjust(p, "holm"), 1.0).tolist()
    return [(place, own) for place, own in enumerate(q) if own <= alpha]


def half_size(min_size: int) -> int:
    """Give the smallest slice of a half of the examples.

    >>> half_size(31)
    16
    """
    return -(-min_size // 2)


def p_of_slice(judged: JudgedCells) -> float:
    """Give the p-value of cell 1; 1 where it was not tested.

    >>> p_of_slice(JudgedCells(np.array([9, 1]), np.array([0]), np.array([0.2]), np.array([0.3])))
    1.0
    """
    p = judged.p[judged.cell == 1]
    return float(p[0]) if p.size else 1.0


def distinct_findings(confirmed: list[SliceFinding], tests: HalfTests) -> list[SliceFinding]:
    """Keep the slices of which at least half the rows lie in none before them."""
    explained: Flags = np.zeros(tests.rows.size, np.bool_)
    kept: list[SliceFinding] = []
    for finding in confirmed:
        inside = tests.inside(finding.key)
        if tests.rows[inside & explained].sum() <= 0.5 * tests.rows[inside].sum():
            kept.append(finding)
            explained |= inside
    return kept


def narrowed(encoded: Encoded, hits: Hits, best: int, good: Flags) -> int:
    """Find the part of a candidate that holds its harm; itself where no part does.

    With few members a p-value rests on few degrees of freedom, and a large slice that owes its harm
    to a small one is often the more significant of the two. A candidate gives way to its most
    significant part that is good itself and holds most of the harm in fewer of the rows.
    """
    pairs, harm = conditions(encoded, hits), hits.effect * hits.size
    while True:
        own = pairs[best][pairs[best] >= 0]
        parts = good & (hits.size <= SMALLER * hits.size[best])
        parts &= harm * np.sign(harm[best]) >= HARM * abs(harm[best])
        parts &= np.isin(pairs, own).sum(1) == own.size
        parts &= hits.cross > own.size
        if not parts.any():
            return best
        best = int(np.flatnonzero(parts)[hits.p[parts].argmin()])


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


def _conditional(encoded: Encoded, evidence: Evidence, keys: tuple[Key, ...]) -> PValues:
    """Give p-value and size of each slice among the rows in none before it."""
    remaining = np.arange(evidence.rows)
    results: PValues = []
    for key in keys:
        inside = flag_rows(encoded, key)[remaining]
        cells = Cells(inside[None].astype(np.int32), 2)
        judged = evidence.take(remaining).judge(cells, 1, 1.0)
        results.append((p_of_slice(judged), int(np.count_nonzero(inside))))
        remaining = remaining[~inside]
    return results
