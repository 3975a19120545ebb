"""Which slices to visit first where the space is too large to exhaust?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import prod

import numpy as np

from scotoma.numbers.inputs import Flags, Floats
from scotoma.slices.judging.evidence import Evidence
from scotoma.slices.search.lattice import Subset, below, blocks, feature_subsets, shape_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Budget, Decide, Hits, flag, join_hits, minimal, visit
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
