"""Does each half of the examples confirm what the other half found?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from scotoma.inputs import Flags, Floats
from scotoma.slices.beam.judge import SumsTest
from scotoma.slices.beam.part import PartRows, Query, Sums
from scotoma.slices.judging.correction import Correction
from scotoma.slices.search.confirm import MOST, SCREEN, holm_halves
from scotoma.slices.search.greedy import Key, repeat_search, rows_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.strategies import Look, SliceFinding
from scotoma.slices.search.sweep import Hits, join_hits

Proposals = tuple[tuple[Key, ...], tuple[Key, ...]]
OVERLAPS = 2  # number of the sums that say which slices share rows


@dataclass(frozen=True)
class ConfirmedSums:
    """A slice that one half found and the other confirmed.

    Attributes:
        finding: The slice.
        half: The half that confirmed it, 0 or 1.
        bit: Its place among the proposals of both halves.
    """

    finding: SliceFinding
    half: int
    bit: int


def add_up_proposals(
    table: pl.DataFrame, query: Query, proposed: Proposals
) -> Iterator[tuple[int, Sums]]:
    """What one part of a table adds to the judgement of both halves' proposals.

    Args:
        table: Some of the rows, with the columns asked for.
        query: What is asked of every part.
        proposed: The slices that each half found, in the order of their finding.

    Yields:
        0 and 1: of the rows of the other half, the sums by the first of the half's slices that
        they lie in, past the last for none. 2: rows by the slices of both halves that they lie in,
        a bit a slice.
    """
    for half, keys in enumerate(proposed):
        part = PartRows.of(table, replace(query, half=1 - half))
        if part is None:
            continue
        inside = _inside(part.encoded, keys)
        none = np.ones((1, part.rows), np.bool_)
        first = np.concatenate([inside, none]).argmax(0)[None]
        lanes = part.sums(first, len(keys) + 1)
        occupied = np.flatnonzero(lanes[:, 0])
        yield half, Sums(occupied, lanes[occupied])
    everyone = PartRows.of(table, query)
    if everyone is not None:
        inside = _inside(everyone.encoded, (*proposed[0], *proposed[1]))
        masks = (inside * (1 << np.arange(len(inside)))[:, None]).sum(0)
        mask, rows = np.unique(masks, return_counts=True)
        yield OVERLAPS, Sums(mask, rows[:, None].astype(np.float64))


def cross_screen_parts(
    look: Callable[[int, tuple[Key, ...]], Hits],
    gather: Callable[[Proposals], dict[int, Sums]],
    encoded: Encoded,
    test: SumsTest,
    alpha: float,
    correction: Correction,
) -> tuple[list[ConfirmedSums], Hits]:
    """Search each half and test what it found on the other, as `cross_screen` does.

    Args:
        look: Searches all candidates of a half among the rows in none of some slices.
        gather: Adds up what `add_up_proposals` says of every part.
        encoded: The predicates; its rows are not looked at.
        test: The test of all examples.
        alpha: Chance of any false slice.
        correction: How the discovery's q is corrected.
    """
    searches = [
        repeat_search(
            partial(look, half), encoded, alpha, correction, screen=SCREEN, most_slices=MOST
        )
        for half in (0, 1)
    ]
    first, second = (tuple(step.key for step in steps) for steps, _ in searches)
    sums = gather((first, second)) if first or second else {}
    confirmed: list[ConfirmedSums] = []
    for half, (steps, _) in enumerate(searches):
        if not steps or half not in sums:
            continue
        p, sizes = _conditional(sums[half], len(steps), replace(test, least=1, keep=1.0))
        for place, q in holm_halves(p, alpha):
            step = steps[place]
            discovery = Look(step.p, step.q, step.size)
            own = Look(p[place], q, sizes[place])
            finding = SliceFinding(step.key, p[place], q, discovery, own)
            confirmed.append(ConfirmedSums(finding, 1 - half, place + half * len(first)))
    confirmed.sort(key=lambda one: (one.finding.q, one.finding.p))
    firsts = join_hits([hits for _, hits in searches])
    return _distinct(confirmed, sums.get(OVERLAPS)), firsts


def _inside(encoded: Encoded, keys: tuple[Key, ...]) -> Flags:
    """Which rows lie in each slice, shape (M, N)."""
    rows = encoded.codes.shape[1]
    return np.array([rows_of(encoded, key) for key in keys], np.bool_).reshape(len(keys), rows)


def _conditional(first: Sums, steps: int, test: SumsTest) -> tuple[list[float], list[int]]:
    """P-value (1 where it has none) and size of each slice among the rows in none before it."""
    remaining: Floats = first.lanes.sum(0)
    p, sizes = list[float](), list[int]()
    for step in range(steps):
        inside = first.lanes[first.cell == step].sum(0)
        both = Sums(np.arange(2), np.stack([remaining - inside, inside]))
        judged = test.judge(both, Sums(np.zeros(1, np.int64), remaining[None]))
        own = judged.p[judged.cell == 1]
        p.append(float(own[0]) if own.size else 1.0)
        sizes.append(int(inside[0]))
        remaining = remaining - inside
    return p, sizes


def _distinct(confirmed: list[ConfirmedSums], overlaps: Sums | None) -> list[ConfirmedSums]:
    """The slices of which at least half the rows lie in none before them."""
    if overlaps is None:
        return []
    rows, explained = overlaps.lanes[:, 0], np.zeros(overlaps.cell.size, np.bool_)
    distinct = []
    for one in confirmed:
        inside = (overlaps.cell >> one.bit & 1).astype(np.bool_)
        if rows[inside & explained].sum() <= 0.5 * rows[inside].sum():
            distinct.append(one)
            explained |= inside
    return distinct
