"""Slices one at a time: the most significant, then the most significant of what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from scotoma.inputs import Flags
from scotoma.slices.evidence.interface import Evidence
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.search.lattice import Subset, shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Budget, Hits, sweep

HARM = 0.8  # of a slice's harm: so much in fewer of its rows, and the slice is that part
SMALLER = 2 / 3


@dataclass(frozen=True)
class GreedyStep:
    """A slice that a cover found.

    Attributes:
        key: Its features and the code of each: what names a slice.
        p: Its p-value among the rows that no earlier slice explained.
        q: The same corrected for all candidates of the step.
        size: Its rows among those.
        effect: Its metric there minus what it is compared with.
        tested: Candidates of the step.
    """

    key: Key
    p: float
    q: float
    size: int
    effect: float
    tested: int


Key = tuple[Subset, tuple[int, ...]]


def key_of(encoded: Encoded, hits: Hits, place: int) -> Key:
    """Features and codes of a candidate."""
    subset = hits.subsets[int(hits.subset[place])]
    codes = np.unravel_index(int(hits.cell[place]), shape_of(encoded, subset))
    return subset, tuple(int(code) for code in codes)


def keys_of(encoded: Encoded, hits: Hits) -> list[Key]:
    """Features and codes of all candidates, in their order."""
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
    """Which examples lie in a slice, shape (N,).

    >>> from scotoma.slices.search.predicates import encode
    >>> rows_of(encode({"a": ["x", "x", "y"], "b": [1, 2, 3]}), ((0, 1), (0, 1)))
    array([False,  True, False])
    """
    inside = np.ones(encoded.codes.shape[1], np.bool_)
    for feature, code in zip(*key, strict=True):
        inside &= encoded.codes[feature] == code
    return inside


def unexplained(encoded: Encoded, slices: tuple[Key, ...]) -> Rows:
    """The rows that lie in none of some slices, ascending."""
    rows = np.ones(encoded.codes.shape[1], np.bool_)
    for key in slices:
        rows &= ~rows_of(encoded, key)
    return np.flatnonzero(rows)


def cover(
    encoded: Encoded,
    evidence: Evidence,
    max_cross: int,
    alpha: float,
    correction: Correction,
    budget: Budget,
    *,
    screen: float | None = None,
    most_slices: int = 100,
) -> tuple[list[GreedyStep], Hits]:
    """Find slices that explain the outcome one after the other.

    Every step searches all candidates among the rows that the slices before it left, takes the
    most significant (of equals the one with fewest predicates), narrows it to the part that holds
    its harm, and removes the rows of that. It stops where nothing is significant at the corrected
    level or, given a `screen`, where chance alone would offer that many slices as good: p times the
    candidates.

    Returns:
        The slices in the order of their finding, and the candidates of the first step.
    """
    look = partial(_look, encoded, evidence, max_cross, alpha, budget)
    return repeat_search(look, encoded, alpha, correction, screen=screen, most_slices=most_slices)


def narrowed(encoded: Encoded, hits: Hits, best: int, good: Flags) -> int:
    """The part of a candidate that holds its harm; itself where no part does.

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


def _look(
    encoded: Encoded,
    evidence: Evidence,
    max_cross: int,
    keep: float,
    budget: Budget,
    slices: tuple[Key, ...],
) -> Hits:
    rows = unexplained(encoded, slices)
    if rows.size == 0:
        return Hits()
    return sweep(encoded.take(rows), evidence.take(rows), max_cross, keep, budget)


def repeat_search(
    look: Callable[[tuple[Key, ...]], Hits],
    encoded: Encoded,
    alpha: float,
    correction: Correction,
    *,
    screen: float | None = None,
    most_slices: int = 100,
) -> tuple[list[GreedyStep], Hits]:
    """Search, take the best slice and search again without its rows, as `cover` does.

    Args:
        look: Searches all candidates among the rows in none of some slices.
        encoded: The predicates; its rows are not looked at.
        alpha: Level at which a corrected p-value counts.
        correction: For all candidates of a step.
        screen: Stop where chance alone would offer that many slices as good; None for alpha.
        most_slices: Stop after so many.
    """
    steps: list[GreedyStep] = []
    first: Hits | None = None
    while len(steps) < most_slices:
        hits = look(tuple(step.key for step in steps))
        first = first or hits
        if hits.p.size == 0:
            break
        best = int(np.lexsort((hits.cell, hits.subset, -hits.size, hits.cross, hits.p))[0])
        q_all = adjust(hits.p, hits.tested, correction)
        q = float(q_all[best])
        if q > alpha if screen is None else hits.p[best] * hits.tested > screen:
            break
        good = q_all <= alpha if screen is None else hits.p * hits.tested <= screen
        best = narrowed(encoded, hits, best, good)
        q = float(q_all[best])
        key = key_of(encoded, hits, best)
        size, effect = int(hits.size[best]), float(hits.effect[best])
        steps.append(GreedyStep(key, float(hits.p[best]), q, size, effect, hits.tested))
    return steps, first or Hits()
