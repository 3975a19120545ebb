"""Does each half of the examples confirm the slices that the other half proposes?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from scotoma.numbers.inputs import Flags, Floats
from scotoma.slices.beam.part import PartRows, Query, Sums
from scotoma.slices.judging.evidence import Lane
from scotoma.slices.judging.tally import Cells
from scotoma.slices.search.cover import HalfTests, Proposals, p_of_slice
from scotoma.slices.search.findings import Key, flag_rows
from scotoma.slices.search.predicates import Encoded

OVERLAPS = 2  # number of the sums that say which slices share rows


def add_up_proposals(
    table: pl.DataFrame, query: Query, proposals: Proposals
) -> Iterator[tuple[int, Sums]]:
    """Add up over one part of a table what tests the proposals of both halves."""
    for half, keys in enumerate(proposals):
        part = PartRows.of(table, replace(query, half=1 - half))
        if part is None:
            continue
        inside = _inside(part.encoded, keys)
        none = np.ones((1, part.ids.size), np.bool_)
        first = np.concatenate([inside, none]).argmax(0)[None]
        lanes = part.sums(Cells(first, len(keys) + 1))
        occupied = np.flatnonzero(lanes[:, 0])
        yield half, Sums(occupied, lanes[occupied])
    everyone = PartRows.of(table, query)
    if everyone is not None:
        inside = _inside(everyone.encoded, (*proposals[0], *proposals[1]))
        masks = (inside * (1 << np.arange(len(inside)))[:, None]).sum(0)
        mask, rows = np.unique(masks, return_counts=True)
        yield OVERLAPS, Sums(mask, rows[:, None].astype(np.float64))


def tests_of_sums(sums: dict[int, Sums], proposals: Proposals, lane: Lane) -> HalfTests:
    """Test the proposals of each half on the other one."""
    first, second = (
        _conditional(sums[half], len(keys), lane) if keys and half in sums else []
        for half, keys in enumerate(proposals)
    )
    keys = [*proposals[0], *proposals[1]]
    overlaps = sums.get(OVERLAPS, Sums(np.empty(0, np.int64), np.empty((0, 1))))

    def inside(key: Key) -> Flags:
        return (overlaps.cell >> keys.index(key) & 1).astype(np.bool_)

    return HalfTests((first, second), inside, overlaps.lanes[:, 0])


def _inside(encoded: Encoded, keys: tuple[Key, ...]) -> Flags:
    """Flag the rows that lie in each slice, shape (M, N)."""
    rows = encoded.codes.shape[1]
    return np.array([flag_rows(encoded, key) for key in keys], np.bool_).reshape(len(keys), rows)


def _conditional(first: Sums, count: int, lane: Lane) -> list[tuple[float, int]]:
    """Give p-value and size of each of some slices among the rows in none before it."""
    remaining: Floats = first.lanes.sum(0)
    results: list[tuple[float, int]] = []
    for place in range(count):
        inside = first.lanes[first.cell == place].sum(0)
        both = Sums(np.arange(2), np.stack([remaining - inside, inside]))
        whole = Sums(np.zeros(1, np.int64), remaining[None])
        judged = lane.judge(both.split(lane), whole.split(lane), 1, 1.0)
        results.append((p_of_slice(judged), int(inside[0])))
        remaining = remaining - inside
    return results
