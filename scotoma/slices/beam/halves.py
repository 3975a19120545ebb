"""Each half of the examples confirms what the other found, where the examples lie in shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from scotoma.slices.beam.judge import SumsTest
from scotoma.slices.beam.part import Counted, Ints, Question, Sums
from scotoma.slices.judging.correction import Correction
from scotoma.slices.search.confirm import MOST, SCREEN, held
from scotoma.slices.search.greedy import Key, Step, rows_of, uncover
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Hits, join

Proposals = tuple[tuple[Key, ...], tuple[Key, ...]]
OVERLAPS = 4  # number of the sums that say which slices share rows


@dataclass(frozen=True, eq=False)
class Held:
    """A slice that one half found and the other confirmed.

    Attributes:
        step: The finding, on the first half.
        p: Its p-value on the other half, among the rows that no slice before it explains.
        q: The same, Holm-adjusted over all that its half found, times two halves.
        sums: Of all its rows in the confirming half, one row.
        whole: Of that half.
    """

    step: Step
    p: float
    q: float
    sums: Sums
    whole: Sums

    @property
    def key(self) -> Key:
        """Its features and the code of each."""
        return self.step.key


def add_up_proposals(
    table: pl.DataFrame, asked: Question, proposed: Proposals
) -> Iterator[tuple[int, Sums]]:
    """What one part of a table adds to the judgement of both halves' proposals.

    Args:
        table: Some of the rows, with the columns asked for.
        asked: What is asked of every part.
        proposed: The slices that each half found, in the order of their finding.

    Yields:
        0 and 1: of the rows of the other half, the sums by the first of the half's slices that
        they lie in, past the last for none. 2 and 3: the sums outside and inside each slice there.
        4: rows by the slices of both halves that they lie in, a bit a slice.
    """
    for place, keys in enumerate(proposed):
        counted = Counted.of(table, replace(asked, half=1 - place), ())
        if counted is None:
            continue
        inside = _inside(counted.encoded, keys)
        none = np.ones((1, inside.shape[1]), np.bool_)
        first = np.concatenate([inside, none]).argmax(0)[None]
        yield place, _sums(counted.lanes(first, len(keys) + 1))
        if keys:
            each = inside + 2 * np.arange(len(keys))[:, None]
            yield 2 + place, _sums(counted.lanes(each, 2 * len(keys)))
    everyone = Counted.of(table, asked, ())
    if everyone is not None:
        inside = _inside(everyone.encoded, (*proposed[0], *proposed[1]))
        masks = (inside * (1 << np.arange(len(inside)))[:, None]).sum(0)
        mask, rows = np.unique(masks, return_counts=True)
        yield OVERLAPS, Sums(mask, rows[:, None])


def cross_screen(
    look: Callable[[int, tuple[Key, ...]], Hits],
    gather: Callable[[Proposals], dict[int, Sums]],
    encoded: Encoded,
    test: SumsTest,
    alpha: float,
    correction: Correction,
) -> tuple[list[Held], Hits]:
    """`scotoma.slices.search.confirm.cross_screen`, whoever searches and adds up.

    Args:
        look: Searches all candidates of a half among the rows in none of some slices.
        gather: Adds up what `add_up_proposals` says of every part.
        encoded: The predicates; its rows are not looked at.
        test: The test of all examples.
        alpha: Chance of any false slice.
        correction: How the discovery's q is corrected.
    """
    covers = [
        uncover(partial(look, half), encoded, alpha, correction, screen=SCREEN, most_slices=MOST)
        for half in (0, 1)
    ]
    first, second = (tuple(step.key for step in steps) for steps, _ in covers)
    sums = gather((first, second)) if first or second else {}
    found: list[tuple[int, Held]] = []
    for place, (steps, _) in enumerate(covers):
        if not steps or place not in sums:
            continue
        each = sums[2 + place]
        p = _conditional(sums[place], len(steps), replace(test, least=1, keep=1.0))
        for at, q in held(p, alpha):
            inside = _at(each, 2 * at + 1)
            whole = Sums(np.zeros(1, np.int64), inside.lanes + _at(each, 2 * at).lanes)
            found.append((at + place * len(first), Held(steps[at], p[at], q, inside, whole)))
    found.sort(key=lambda one: (one[1].q, one[1].p))
    firsts = join([hits for _, hits in covers])
    return [one for _, one in _distinct(found, sums.get(OVERLAPS))], firsts


def _inside(encoded: Encoded, keys: tuple[Key, ...]) -> np.ndarray:
    """Which rows lie in each slice, shape (M, N)."""
    rows = encoded.codes.shape[1]
    return np.array([rows_of(encoded, key) for key in keys], np.bool_).reshape(len(keys), rows)


def _sums(lanes: Ints) -> Sums:
    held = np.flatnonzero(lanes[:, 0])
    return Sums(held, lanes[held])


def _at(sums: Sums, cell: int) -> Sums:
    """One cell's sums, 0 where it holds no row."""
    return Sums(np.array([cell]), sums.lanes[sums.cell == cell].sum(0)[None])


def _conditional(first: Sums, steps: int, test: SumsTest) -> list[float]:
    """P-value (1 where it has none) of each slice among the rows in none before it."""
    left, p = first.lanes.sum(0), list[float]()
    for step in range(steps):
        inside = _at(first, step).lanes[0]
        both = Sums(np.arange(2), np.stack([left - inside, inside]))
        judged = test.judge(both, Sums(np.zeros(1, np.int64), left[None]))
        own = judged.p[judged.cell == 1]
        p.append(float(own[0]) if own.size else 1.0)
        left = left - inside
    return p


def _distinct(found: list[tuple[int, Held]], overlaps: Sums | None) -> list[tuple[int, Held]]:
    """The slices of which at least half the rows lie in none before them."""
    if overlaps is None:
        return []
    rows, explained = overlaps.lanes[:, 0], np.zeros(overlaps.cell.size, np.bool_)
    kept = []
    for bit, one in found:
        inside = (overlaps.cell >> bit & 1).astype(np.bool_)
        if rows[inside & explained].sum() <= 0.5 * rows[inside].sum():
            kept.append((bit, one))
            explained |= inside
    return kept
