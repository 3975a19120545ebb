"""Each half of the examples confirms what the other half found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.inputs import Flags
from scotoma.slices.evidence.interface import Evidence
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.search.greedy import GreedyStep, Key, cover, rows_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Budget, Hits, join_hits

SCREEN = 5.0  # a half passes on what chance alone would offer at most so often
MOST = 20  # slices that a half passes on


@dataclass(frozen=True)
class Confirmed:
    """A slice that one half found and the other confirmed.

    Attributes:
        step: The finding, on the first half.
        p: Its p-value on the other half, among the rows that no slice before it explains.
        q: The same, Holm-adjusted over all that its half found, times two halves.
        size: Those rows.
        rows: All rows of the confirming half.
    """

    step: GreedyStep
    p: float
    q: float
    size: int
    rows: Rows


def cross_screen(
    encoded: Encoded,
    evidence: Evidence,
    halves: tuple[Rows, Rows],
    max_cross: int,
    alpha: float,
    correction: Correction,
    budget: Budget,
) -> tuple[list[Confirmed], Hits]:
    """Cover each half, test what it found on the other, and join what holds.

    A half only proposes: it passes on slices until chance alone would offer five as good. The other
    half, which had no part in the choice, decides, Holm over the few slices proposed, each half at
    alpha / 2. Searching with both halves in turn loses little against a search of all rows: a
    slice needs p = 1e-3 twice where that needs 1e-6 once.

    Args:
        encoded: The predicates of the evidence's rows.
        evidence: The outcome and its test.
        halves: Two parts of the rows.
        max_cross: Largest number of predicates in a slice.
        alpha: Chance of any false slice.
        correction: How the discovery's q is corrected, for display.
        budget: What a block may hold.

    Returns:
        The slices in the order of their q, without those of whose rows more than half lie in slices
        before them; and the candidates of both halves' first steps.

    References:
        Zhao, Small and Rosenbaum (2018), JASA 113:1070-1084, cross-screening.
    """
    confirmed: list[Confirmed] = []
    firsts: list[Hits] = []
    for here, there in (halves, halves[::-1]):
        least = -(-evidence.least // 2)  # half of a slice of the smallest size
        steps, first = cover(
            encoded.take(here), evidence.take(here).at_least(least), max_cross, alpha, correction,
            budget, screen=SCREEN, most_slices=MOST,
        )  # fmt: skip
        firsts.append(first)
        keys = [step.key for step in steps]
        p, sizes = conditional(encoded.take(there), evidence.take(there), keys)
        confirmed += [
            Confirmed(steps[place], p[place], q, sizes[place], there)
            for place, q in holm_halves(p, alpha)
        ]
    confirmed.sort(key=lambda one: (one.q, one.p))
    return distinct(encoded, confirmed), join_hits(firsts)


def holm_halves(p: list[float], alpha: float) -> list[tuple[int, float]]:
    """Which of a half's proposals the other half confirms, and the q of each.

    Args:
        p: P-values of all of them on the other half.
        alpha: Chance of any false slice, both halves together.

    >>> holm_halves([0.5, 0.001], 0.05)
    [(1, 0.004)]
    """
    q = np.minimum(2.0 * adjust(p, len(p), "holm"), 1.0).tolist()
    return [(place, own) for place, own in enumerate(q) if own <= alpha]


def conditional(
    encoded: Encoded, evidence: Evidence, keys: list[Key]
) -> tuple[list[float], list[int]]:
    """P-value (1 where it has none) and size of each slice among the rows in none before it."""
    remaining = np.arange(evidence.rows)
    p: list[float] = []
    sizes: list[int] = []
    for key in keys:
        inside = rows_of(encoded, key)[remaining]
        judged = evidence.take(remaining).at_least(1).judge(inside[None].astype(np.int32), 2, 1.0)
        own = judged.p[judged.cell == 1]
        p.append(float(own[0]) if own.size else 1.0)
        sizes.append(int(np.count_nonzero(inside)))
        remaining = remaining[~inside]
    return p, sizes


def distinct(encoded: Encoded, confirmed: list[Confirmed]) -> list[Confirmed]:
    """The slices of which at least half the rows lie in none before them."""
    explained: Flags = np.zeros(encoded.codes.shape[1], np.bool_)
    kept: list[Confirmed] = []
    for one in confirmed:
        inside = rows_of(encoded, one.step.key)
        if np.count_nonzero(inside & explained) <= 0.5 * np.count_nonzero(inside):
            kept.append(one)
            explained |= inside
    return kept
