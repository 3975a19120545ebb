"""How is a table searched in each mode?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from heapq import heappop, heappush
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Flags, Floats
from scotoma.numbers.multiplicity import adjust
from scotoma.slices.hashing import Hashes, hash_ids
from scotoma.slices.judging.evidence import Evidence, JudgedCells
from scotoma.slices.judging.tally import Cells, Rows
from scotoma.slices.search.lattice import Subset, below, blocks, feature_subsets, shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import (
    Budget,
    Decide,
    Hits,
    Key,
    SliceFinding,
    SliceTestResult,
    conditions,
    flag,
    flag_rows,
    join_hits,
    keys_of,
    minimal,
    sweep,
    unexplained,
    visit,
)
from scotoma.slices.settings import Order, SearchSettings

Scores = Callable[[Hits], Floats]

SHARE = 0.12  # of the batch strategy's space, a candidate budget of Liu et al. 2022, section 5
WITHOUT_BATCH = 2500  # the budget there where that space is too large


@dataclass(frozen=True)
class Iteration:
    """One iteration of the priority strategy.

    Attributes:
        candidates: Slices that it proposed.
        expected: How many of them it expected to hold a row.
        nonempty: How many of them did.
        significant: Significant slices found so far that lie below no other.
    """

    candidates: int
    expected: float
    nonempty: int
    significant: int


@dataclass
class _State:
    """What Algorithm 2 carries from one iteration to the next.

    Attributes:
        blocked: Cells that are significant, too small or below such a cell.
        seen: Cells that have been candidates.
        queue: Nonsignificant slices as (score, order of arrival, subset, cell): smallest first.
        counted: Candidates and nonempty candidates so far by cross size.
    """

    blocked: dict[Subset, Flags] = field(default_factory=dict)
    seen: dict[Subset, Flags] = field(default_factory=dict)
    queue: list[tuple[float, int, Subset, int]] = field(default_factory=list)
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    arrived: int = 0


def nonempty_rate(counted: dict[int, tuple[int, int]], cross: int) -> float:
    """Estimate the share of the candidates of a cross size that hold a row.

    Args:
        counted: Candidates and nonempty candidates seen, by cross size.
        cross: The cross size; unseen, it takes the rate of the size below.

    References:
        Liu et al. 2022, section 4, priority strategy.

    >>> nonempty_rate({1: (10, 10), 2: (40, 20)}, 3)
    0.5
    """
    while cross > 0:
        candidates, nonempty = counted.get(cross, (0, 0))
        if candidates:
            return nonempty / candidates
        cross -= 1
    return 1.0


def scores_of(order: Order, seed: int) -> Scores:
    """Choose the scores of nonsignificant slices; those of the smallest are divided first.

    >>> scores_of("p-value", 0)(Hits(p=np.array([0.2])))
    array([0.2])
    """
    rng = np.random.default_rng([seed % 2**63, 3])
    scores: dict[Order, Scores] = {
        "p-value": lambda hits: hits.p,
        "breadth-first": lambda hits: hits.cross.astype(np.float64),
        "random": lambda hits: rng.random(hits.p.size),
    }
    return scores[order]


def prioritise(
    encoded: Encoded,
    evidence: Evidence,
    asked: SearchSettings,
    decide: Decide,
    budget: Budget,
) -> tuple[Hits, tuple[Iteration, ...]]:
    """Visit the children of the slices with the smallest scores.

    References:
        Liu et al. 2022, section 4 and Algorithm 2.
    """
    state, tested, past = _State(), list[Hits](), list[Iteration]()
    scores = scores_of(asked.order, asked.seed)
    for iteration in range(asked.iterations):
        if iteration == 0:
            chosen = {
                subset: np.ones(shape_of(encoded, subset), np.bool_)
                for subset in feature_subsets(len(encoded.predicates), 1)
            }
            expected = float(encoded.sizes.sum())
        else:
            chosen, expected = _subdivide(encoded, state, asked)
        if not chosen:
            break
        new = _evaluate(encoded, evidence, chosen, state, budget, asked.min_size)
        tested.append(new)
        so_far = join_hits(tested)
        every = decide(so_far)
        significant = every[so_far.p.size - new.p.size :]
        flag(state.blocked, new.take(significant))
        others = new.take(~significant)
        _enqueue(state, others, scores(others), asked.max_cross)
        found = int(np.count_nonzero(minimal(encoded, so_far.take(every))))
        past.append(Iteration(new.proposed, float(expected), new.nonempty, found))
    return join_hits(tested), tuple(past)


def _subdivide(
    encoded: Encoded, state: _State, asked: SearchSettings
) -> tuple[dict[Subset, Flags], float]:
    """Pop base slices and add a predicate to each, until enough candidates are expected."""
    chosen: dict[Subset, Flags] = {}
    free: dict[Subset, Flags] = {}  # cells that may become candidates, as of this iteration
    expected = 0.0
    while expected < (asked.budget or 0) and state.queue:
        _, _, base, cell = heappop(state.queue)
        codes = np.unravel_index(cell, shape_of(encoded, base))
        rate = nonempty_rate(state.counted, len(base) + 1)
        for feature in range(len(encoded.predicates)):
            if feature in base or len(base) >= asked.max_cross:
                continue
            child = tuple(sorted((*base, feature)))
            if child not in free:
                shape = shape_of(encoded, child)
                barred = below(encoded, child, state.blocked)
                old = state.seen.setdefault(child, np.zeros(prod(shape), np.bool_))
                free[child] = ~(barred | old).reshape(shape)
            place = tuple(slice(None) if f == feature else int(codes[base.index(f)]) for f in child)
            new = free[child][place]
            if new.any():
                cells = chosen.setdefault(child, np.zeros(free[child].shape, np.bool_))
                cells[place] |= new
                expected += rate * np.count_nonzero(new)
                free[child][place] = False
    return {subset: cells.ravel() for subset, cells in sorted(chosen.items())}, expected


def _evaluate(
    encoded: Encoded,
    evidence: Evidence,
    chosen: dict[Subset, Flags],
    state: _State,
    budget: Budget,
    least: int,
) -> Hits:
    """Test the chosen cells; those that hold too few rows are blocked."""
    parts: list[Hits] = []
    for cross in sorted({len(subset) for subset in chosen}):
        subsets = [subset for subset in chosen if len(subset) == cross]
        before, nonempty = state.counted.get(cross, (0, 0))
        for block in blocks(encoded, subsets, most_cells=budget.cells, most_keys=budget.keys):
            hits, small = visit(encoded, evidence, block, least, 1.0, {}, chosen)
            parts.append(hits)
            nonempty += hits.nonempty
            for subset in block.subsets:
                before += int(np.count_nonzero(chosen[subset]))
                state.seen.setdefault(subset, np.zeros(chosen[subset].shape, np.bool_))
                state.seen[subset] |= chosen[subset]
                shut = state.blocked.setdefault(subset, np.zeros(chosen[subset].shape, np.bool_))
                shut |= small[subset] & chosen[subset]
        state.counted[cross] = (before, nonempty)
    return join_hits(parts)


def _enqueue(state: _State, hits: Hits, scores: Floats, max_cross: int) -> None:
    for place in np.flatnonzero(hits.cross < max_cross).tolist():
        subset = hits.subsets[int(hits.subset[place])]
        entry = (float(scores[place]), state.arrived, subset, int(hits.cell[place]))
        heappush(state.queue, entry)
        state.arrived += 1


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
    hashes = hash_ids(ids, seed)
    second = hashes > middle_of(hashes)
    return np.flatnonzero(~second), np.flatnonzero(second)


def middle_of(hashes: Hashes) -> int:
    """Give the largest hash in the first half of the different ones; 0 without any.

    >>> middle_of(np.array([7, 3, 9, 3], np.uint64))
    7
    """
    each = np.unique(hashes)
    return int(each[(each.size - 1) // 2]) if each.size else 0


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
