"""The four ways to search, each as a list of findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.hashing import hash_ids
from scotoma.inputs import Flags
from scotoma.slices.evidence.interface import Evidence
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.correction import Correction, adjust
from scotoma.slices.search.confirm import cross_screen
from scotoma.slices.search.greedy import Key, cover, keys_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.priority import prioritise
from scotoma.slices.search.sweep import Budget, Hits, minimal, sweep

Mode = Literal["cover", "batch", "iterative", "priority"]


@dataclass(frozen=True)
class Plan:
    """How to search.

    Attributes:
        mode: The strategy.
        max_cross: Largest number of predicates in a slice.
        alpha: Level at which a corrected p-value counts.
        correction: For the family of all candidates tested.
        confirm: In cover mode, whether each half confirms what the other found.
        candidates: In priority mode, nonempty candidates an iteration.
        iterations: In priority mode.
        budget: What a block may hold.
    """

    mode: Mode
    max_cross: int
    alpha: float
    correction: Correction
    confirm: bool
    candidates: int
    iterations: int
    budget: Budget


@dataclass(frozen=True)
class Look:
    """One look at a slice: by the search, or by the half of the examples that had no part in it.

    Attributes:
        p: The p-value, among the rows that no earlier slice explains.
        q: The same, corrected: for all candidates at the discovery, for the slices proposed
            (Holm, both halves) at the confirmation.
        size: Examples it rests on.
    """

    p: float
    q: float
    size: int


@dataclass(frozen=True)
class SliceFinding:
    """A slice that a search reports.

    Attributes:
        key: Its features and the code of each.
        p: The p-value that decided.
        q: The same, corrected.
        discovery: What the search saw.
        confirmation: What the other half says; None without confirmation.
        measured: The rows that its effect is measured on; None for all.
    """

    key: Key
    p: float
    q: float
    discovery: Look
    confirmation: Look | None = None
    measured: Rows | None = None


def search(
    encoded: Encoded, evidence: Evidence, plan: Plan, halves: tuple[Rows, Rows]
) -> tuple[list[SliceFinding], Hits]:
    """Search as planned.

    Args:
        encoded: The predicates of the evidence's rows.
        evidence: The outcome and its test.
        plan: How to search.
        halves: Two parts of the rows, for confirmation.

    Returns:
        The slices found, the most significant first, and the candidates that were kept.
    """
    if plan.mode == "cover":
        run = _confirmed if plan.confirm else _covered
        return run(encoded, evidence, plan, halves)
    if plan.mode == "batch":
        hits = sweep(encoded, evidence, plan.max_cross, plan.alpha, plan.budget)
    elif plan.mode == "iterative":
        hits = sweep(
            encoded, evidence, plan.max_cross, plan.alpha, plan.budget, lambda h: _found(h, plan)
        )
    else:
        hits = prioritise(
            encoded, evidence, plan.max_cross, plan.candidates, plan.iterations,
            lambda h: _found(h, plan), plan.budget,
        )  # fmt: skip
    return significant(encoded, hits, plan.correction, plan.alpha), hits


def split(ids: npt.NDArray[np.generic], seed: int) -> tuple[Rows, Rows]:
    """Two halves of the examples that depend on their ids alone; equal ids stay together.

    >>> first, second = split(np.arange(5), 0)
    >>> first.size, second.size
    (3, 2)
    """
    units, own = np.unique(ids, return_inverse=True)
    order = np.argsort(hash_ids(units, seed), kind="stable")
    first = np.zeros(units.size, np.bool_)
    first[order[: -(-order.size // 2)]] = True
    return np.flatnonzero(first[own]), np.flatnonzero(~first[own])


def _found(hits: Hits, plan: Plan) -> Flags:
    return adjust(hits.p, hits.tested, plan.correction) <= plan.alpha


def significant(
    encoded: Encoded, hits: Hits, correction: Correction, alpha: float
) -> list[SliceFinding]:
    """The significant candidates that lie below no other, the most significant first."""
    q = adjust(hits.p, hits.tested, correction)
    places = np.flatnonzero(q <= alpha)
    places = places[minimal(encoded, hits.take(places))]
    order = np.lexsort((hits.cell[places], hits.subset[places], hits.p[places]))
    chosen = hits.take(places[order])
    columns = (chosen.p, q[places[order]], chosen.size)
    seen = zip(keys_of(encoded, chosen), *(own.tolist() for own in columns), strict=True)
    return [SliceFinding(key, p, q, Look(p, q, size)) for key, p, q, size in seen]


def _covered(
    encoded: Encoded, evidence: Evidence, plan: Plan, halves: tuple[Rows, Rows]
) -> tuple[list[SliceFinding], Hits]:
    steps, hits = cover(encoded, evidence, plan.max_cross, plan.alpha, plan.correction, plan.budget)
    return [SliceFinding(s.key, s.p, s.q, Look(s.p, s.q, s.size)) for s in steps], hits


def _confirmed(
    encoded: Encoded, evidence: Evidence, plan: Plan, halves: tuple[Rows, Rows]
) -> tuple[list[SliceFinding], Hits]:
    confirmed, hits = cross_screen(
        encoded, evidence, halves, plan.max_cross, plan.alpha, plan.correction, plan.budget
    )
    findings = [
        SliceFinding(
            one.step.key,
            one.p,
            one.q,
            Look(one.step.p, one.step.q, one.step.size),
            Look(one.p, one.q, one.size),
            one.rows,
        )
        for one in confirmed
    ]
    return findings, hits
