"""Slices one at a time: the most significant, then the most significant of what it leaves.

With confirmation each half of the examples tests the slices that the other half proposes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from scotoma.numbers.inputs import Flags, Floats
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.judging.evidence import JudgedCells
from scotoma.slices.search.findings import Key, SliceFinding, SliceTestResult, key_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits, join_hits

HARM = 0.8  # of a slice's harm: so much in fewer of its rows, and the slice is that part
SMALLER = 2 / 3
SCREEN = 5.0  # a half passes on what chance alone would offer at most so often
MOST = 20  # slices that a half passes on

Proposals = tuple[tuple[Key, ...], tuple[Key, ...]]


@dataclass(frozen=True, eq=False)
class HalfTests:
    """What the examples say of the slices that each half proposes.

    Attributes:
        results: For each half, p-value and size of its proposals on the other half, each among the
            rows in none before it.
        inside: Flags the rows, or the sets of rows, that lie in one of the slices.
        rows: How many rows each flag stands for.
    """

    results: tuple[list[tuple[float, int]], list[tuple[float, int]]]
    inside: Callable[[Key], Flags]
    rows: Floats


class SearchedTable(Protocol):
    """A table whose candidates can be tested, wherever its rows are."""

    def look(self, half: int | None, without: tuple[Key, ...]) -> Hits:
        """Test all candidates of a half, or of all rows, among the rows in none of some slices."""

    def test_halves(self, proposals: Proposals) -> HalfTests:
        """Test the proposals of each half on the other one."""


def cross_screen(
    table: SearchedTable, encoded: Encoded, alpha: float, correction: Correction
) -> tuple[list[SliceFinding], Hits]:
    """Cover each half, test its slices on the other, and join those that are confirmed.

    A half only proposes: it passes on slices until chance alone would offer five as good. The other
    half, which had no part in the choice, decides, Holm over the few slices proposed, each half at
    alpha / 2. Searching with both halves in turn loses little against a search of all rows: a
    slice needs p = 1e-3 twice where that needs 1e-6 once.

    References:
        Zhao, Small and Rosenbaum (2018), JASA 113:1070-1084, cross-screening.
    """
    covers = [
        cover(
            partial(table.look, half), encoded, alpha, correction, screen=SCREEN, most_slices=MOST
        )
        for half in (0, 1)
    ]
    first, second = (tuple(one.key for one in findings) for findings, _ in covers)
    tests = table.test_halves((first, second))
    confirmed: list[SliceFinding] = []
    for half, (findings, _) in enumerate(covers):
        results = tests.results[half]
        for place, q in holm_halves([p for p, _ in results], alpha):
            p, size = results[place]
            result = SliceTestResult(p, q, size)
            confirmed.append(replace(findings[place], confirmation=result, half=1 - half))
    confirmed.sort(key=lambda one: (one.decision.q, one.decision.p))
    return distinct_findings(confirmed, tests), join_hits([hits for _, hits in covers])


def holm_halves(p: list[float], alpha: float) -> list[tuple[int, float]]:
    """List the proposals of a half that the other half confirms, and the q of each.

    >>> holm_halves([0.5, 0.001], 0.05)
    [(1, 0.004)]
    """
    q = np.minimum(2.0 * adjust(p, len(p), "holm"), 1.0).tolist()
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
    harm = hits.effect * hits.size
    while True:
        subset, codes = key_of(encoded, hits, best)
        parts = good & (hits.size <= SMALLER * hits.size[best])
        parts &= harm * np.sign(harm[best]) >= HARM * abs(harm[best])
        places = [
            place
            for place in np.flatnonzero(parts)[np.argsort(hits.p[parts], kind="stable")].tolist()
            if _lies_in(key_of(encoded, hits, place), (subset, codes))
        ]
        if not places:
            return best
        best = places[0]


def _lies_in(part: Key, whole: Key) -> bool:
    return set(zip(*whole, strict=True)) < set(zip(*part, strict=True))


def cover(
    look: Callable[[tuple[Key, ...]], Hits],
    encoded: Encoded,
    alpha: float,
    correction: Correction,
    *,
    screen: float | None = None,
    most_slices: int = 100,
) -> tuple[list[SliceFinding], Hits]:
    """Find slices that explain the outcome one after the other.

    Every step searches all candidates among the rows that no earlier slice explains, takes the
    most significant (of equals the one with fewest predicates), narrows it to the part that holds
    its harm, and removes the rows of that. It stops where nothing is significant at the corrected
    level or, with a `screen`, where chance alone would offer that many slices as good: p times the
    candidates.
    """
    findings: list[SliceFinding] = []
    first: Hits | None = None
    while len(findings) < most_slices:
        earlier = tuple(finding.key for finding in findings)
        hits = look(earlier)
        first = first or hits
        if hits.p.size == 0:
            break
        best = int(np.lexsort((hits.cell, hits.subset, -hits.size, hits.cross, hits.p))[0])
        q = adjust(hits.p, hits.tested, correction)
        good = q <= alpha if screen is None else hits.p * hits.tested <= screen
        if not good[best]:
            break
        best = narrowed(encoded, hits, best, good)
        result = SliceTestResult(float(hits.p[best]), float(q[best]), int(hits.size[best]))
        findings.append(SliceFinding(key_of(encoded, hits, best), result, earlier=earlier))
    return findings, first or Hits()
