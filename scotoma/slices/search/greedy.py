"""Slices one at a time: the most significant, then the most significant of what it leaves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scotoma.inputs import Flags
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.search.findings import Key, SliceFinding, SliceTestResult
from scotoma.slices.search.lattice import shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits

HARM = 0.8  # of a slice's harm: so much in fewer of its rows, and the slice is that part
SMALLER = 2 / 3


def key_of(encoded: Encoded, hits: Hits, place: int) -> Key:
    """Give the features and codes of a candidate."""
    subset = hits.subsets[int(hits.subset[place])]
    codes = np.unravel_index(int(hits.cell[place]), shape_of(encoded, subset))
    return subset, tuple(int(code) for code in codes)


def keys_of(encoded: Encoded, hits: Hits) -> list[Key]:
    """Give the features and codes of all candidates, in their order."""
    keys: dict[int, Key] = {}
    for cross in np.unique(hits.cross).tolist():
        places = np.flatnonzero(hits.cross == cross)
        subsets = [hits.subsets[place] for place in hits.subset[places].tolist()]
        cell, sizes = hits.cell[places], encoded.sizes[np.array(subsets)]
        codes = np.empty((places.size, cross), np.int64)
        for feature in reversed(range(cross)):
            cell, codes[:, feature] = np.divmod(cell, sizes[:, feature])
        own = zip(subsets, map(tuple, codes.tolist()), strict=True)
        keys |= zip(places.tolist(), own, strict=True)
    return [keys[place] for place in range(hits.p.size)]


def rows_of(encoded: Encoded, key: Key) -> Flags:
    """Flag the examples that lie in a slice, shape (N,).

    >>> from scotoma.slices.search.predicates import encode
    >>> rows_of(encode({"a": ["x", "x", "y"], "b": [1, 2, 3]}), ((0, 1), (0, 1)))
    array([False,  True, False])
    """
    inside = np.ones(encoded.codes.shape[1], np.bool_)
    for feature, code in zip(*key, strict=True):
        inside &= encoded.codes[feature] == code
    return inside


def unexplained(encoded: Encoded, slices: tuple[Key, ...]) -> Rows:
    """List the rows that lie in none of some slices, ascending."""
    rows = np.ones(encoded.codes.shape[1], np.bool_)
    for key in slices:
        rows &= ~rows_of(encoded, key)
    return np.flatnonzero(rows)


def narrowed(encoded: Encoded, hits: Hits, best: int, good: Flags) -> int:
    """Find the part of a candidate that holds its harm; itself where no part does.

    With few members a p-value rests on few degrees of freedom, and a large slice that owes its harm
    to a small one is often the more significant of the two. A candidate gives way to its most
    significant part that is good itself and holds most of the harm in fewer of the rows.

    Args:
        encoded: The predicates.
        hits: The candidates.
        best: Place of the candidate.
        good: Which of them could be reported.
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

    Args:
        look: Searches all candidates among the rows in none of some slices.
        encoded: The predicates; its rows are not looked at.
        alpha: Level at which a corrected p-value counts.
        correction: For all candidates of a step.
        screen: Stop where chance alone would offer that many slices as good; None for alpha.
        most_slices: Stop after so many.

    Returns:
        The slices in the order in which they were taken, and the candidates of the first step.
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
