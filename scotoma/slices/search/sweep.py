"""The strategies that visit the lattice level by level: all candidates, or pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from itertools import chain, combinations, pairwise
from math import prod
from operator import xor
from typing import Any

import numpy as np

from scotoma.numbers.inputs import Flags, Floats, Ints
from scotoma.processes import map_in_order
from scotoma.slices.judging.evidence import Evidence
from scotoma.slices.judging.tally import Cells, Keys, Lanes, Rows
from scotoma.slices.search.lattice import (
    CELLS,
    KEYS,
    Block,
    Subset,
    below,
    blocks,
    cells_of,
    feature_subsets,
    shape_of,
    subset_groups,
)
from scotoma.slices.search.predicates import Encoded

Decide = Callable[["Hits"], Flags]


@dataclass(frozen=True)
class Budget:
    """What is held at once.

    Attributes:
        cells: Cells that are tallied together: of one block.
        keys: Rows times feature subsets of one block.
        threads: Blocks that are tallied side by side; no result depends on it.
    """

    cells: int = CELLS
    keys: int = KEYS
    threads: int = 1


@dataclass(frozen=True)
class Hits:
    """Candidates that a search keeps, in the order of its visit, and what it has seen.

    Attributes:
        subsets: Feature subsets that hold a kept candidate.
        subset: Place of each candidate's features in `subsets`, shape (M,).
        cell: Its cell within the subset.
        size: Its rows.
        effect: Its metric minus what it is compared with.
        p: Its p-value.
        proposed: Cells looked at, empty ones too; not counted on Beam, which never sees those.
        nonempty: Cells looked at that hold a row.
        tested: Those tested: the family for every correction.
    """

    subsets: tuple[Subset, ...] = ()
    subset: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    cell: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    size: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    effect: Floats = field(default_factory=lambda: np.empty(0))
    p: Floats = field(default_factory=lambda: np.empty(0))
    nonempty: int = 0
    tested: int = 0
    proposed: int = 0

    def take(self, chosen: Any) -> Hits:
        """Keep some of the candidates, by places or flags."""
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, **columns)

    @property
    def cross(self) -> Ints:
        """Cross size of each candidate, shape (M,)."""
        sizes = np.array([len(subset) for subset in self.subsets], np.int64)
        return np.asarray(sizes[self.subset])


COLUMNS = ("subset", "cell", "size", "effect", "p")
COUNTS = ("nonempty", "tested", "proposed")


def join_hits(parts: list[Hits]) -> Hits:
    """Join the candidates of several searches.

    >>> join_hits([Hits(tested=2), Hits(tested=3)]).tested
    5
    """
    offsets = np.cumsum([0, *(len(part.subsets) for part in parts)])
    moved = [
        replace(part, subset=part.subset + offset)
        for part, offset in zip(parts, offsets[:-1], strict=True)
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in moved)])
        for name in COLUMNS
    }
    sums = {name: sum(getattr(p, name) for p in parts) for name in COUNTS}
    return Hits(tuple(chain.from_iterable(part.subsets for part in parts)), **columns, **sums)


def sweep(
    encoded: Encoded,
    evidence: Evidence,
    max_cross: int,
    least: int,
    keep: float,
    budget: Budget,
    decide: Decide | None = None,
) -> Hits:
    """Visit the lattice level by level.

    Args:
        encoded: The predicates of the evidence's rows.
        evidence: The outcome and its test.
        max_cross: Largest number of predicates in a slice.
        least: Rows that a slice must hold.
        keep: Candidates with a larger p-value are not kept.
        budget: What a block may hold.
        decide: Which of the candidates kept so far are significant: their children, and those of
            slices that are too small, are not visited (the iterative strategy). None: every
            candidate is visited (the batch strategy).

    References:
        Liu et al. 2022, section 4 and Algorithm 1.
    """
    blocked: dict[Subset, Flags] = {}
    levels: list[Hits] = []
    for cross in range(1, min(max_cross, len(encoded.predicates)) + 1):
        subsets = feature_subsets(len(encoded.predicates), cross)
        prune = decide is not None
        level: list[Hits] = []
        cut = _blocks(encoded, evidence, subsets, budget)
        look = partial(
            visit, encoded, evidence, least=least, keep=keep, blocked=blocked if prune else None
        )
        for hits, small in map_in_order(look, cut, budget.threads):
            level.append(hits)
            if prune and cross < max_cross:
                blocked |= small
        levels.append(_ordered(join_hits(level)))
        if decide is not None and cross < max_cross:
            so_far = join_hits(levels)
            significant = decide(so_far)[so_far.p.size - levels[-1].p.size :]
            flag(blocked, levels[-1].take(significant))
    return join_hits(levels)


def _blocks(
    encoded: Encoded, evidence: Evidence, subsets: list[Subset], budget: Budget
) -> Iterator[Block]:
    """Cut the subsets of a cross size into blocks; those that can, share a pass over the rows."""
    bounds = {"most_cells": budget.cells, "most_keys": budget.keys}
    if evidence.exact:
        most = min(evidence.rows // FULL, budget.cells)
        joint, subsets = families(encoded.sizes.tolist(), subsets, most)
        yield from joint_blocks(encoded, joint, **bounds)
    yield from blocks(encoded, subsets, **bounds)


def _ordered(hits: Hits) -> Hits:
    """Sort candidates by feature subset in lexicographic order; each subset occurs once."""
    order = sorted(range(len(hits.subsets)), key=hits.subsets.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    moved = replace(hits, subsets=tuple(hits.subsets[i] for i in order), subset=place[hits.subset])
    return moved.take(np.argsort(moved.subset, kind="stable"))


def visit(
    encoded: Encoded,
    evidence: Evidence,
    block: Block,
    least: int,
    keep: float,
    blocked: dict[Subset, Flags] | None,
    chosen: dict[Subset, Flags] | None = None,
) -> tuple[Hits, dict[Subset, Flags]]:
    """Test a block's cells.

    Args:
        encoded: The predicates.
        evidence: The outcome and its test.
        block: Feature subsets and the cell of every row under each.
        least: Rows that a slice must hold.
        keep: Candidates with a larger p-value are not kept.
        blocked: Cells below which nothing is tested; None: all are.
        chosen: The only cells to test, by subset; None: all.

    Returns:
        The candidates kept, and by subset the cells that are barred, too small or empty; nothing
        of the kind where none are blocked.
    """
    judged = evidence.judge(block, least, keep)
    cell, effect, p = judged.cell, judged.effect, judged.p
    nonempty = int(np.count_nonzero(judged.size))
    proposed = sum(prod(shape_of(encoded, subset)) for subset in block.subsets)
    small: dict[Subset, Flags] = {}
    if blocked is not None:
        flagged = [
            below(encoded, s, blocked) if chosen is None else ~chosen[s] for s in block.subsets
        ]
        proposed -= sum(int(np.count_nonzero(flags)) for flags in flagged)
        barred = block.together(flagged)
        nonempty = int(np.count_nonzero((judged.size > 0) & ~barred))
        free = ~barred[cell]
        cell, effect, p = cell[free], effect[free], p[free]
        shut = barred | (judged.size < least) | (judged.size == 0)
        each = zip(block.subsets, block.occupied, block.apart(shut), strict=True)
        for subset, occupied, flags in each:
            small[subset] = (
                flags if occupied is None else _unnumbered(encoded, subset, occupied, flags)
            )
    kept = p <= keep
    where, own = block.locate(cell[kept])
    hits = Hits(
        block.subsets,
        where,
        own,
        judged.size[cell[kept]].astype(np.int64),
        effect[kept],
        p[kept],
        nonempty,
        int(p.size),
        proposed,
    )
    return hits, small


def _unnumbered(encoded: Encoded, subset: Subset, occupied: Ints, own: Flags) -> Flags:
    flags = np.ones(prod(shape_of(encoded, subset)), np.bool_)
    flags[occupied] = own
    return flags


def flag(flags: dict[Subset, Flags], hits: Hits) -> None:
    """Set the flags of some candidates, whose subsets must be there."""
    for place in np.unique(hits.subset).tolist():
        flags[hits.subsets[place]][hits.cell[hits.subset == place]] = True


def conditions(encoded: Encoded, hits: Hits) -> Ints:
    """Give 256 times the feature plus the code of each condition, shape (M, L); -1 after the last.

    >>> from scotoma.slices.search.predicates import encode
    >>> encoded = encode({"a": ["x", "x", "y"], "b": [1, 2, 3]})
    >>> hits = Hits(((0,), (0, 1)), np.array([0, 1]), np.array([1, 4]))
    >>> conditions(encoded, hits).tolist()
    [[1, -1], [1, 257]]
    """
    most = max(map(len, hits.subsets), default=0)
    subsets = [(*own, *[-1] * (most - len(own))) for own in hits.subsets]
    features, cell = np.array(subsets, np.int64).reshape(-1, most)[hits.subset], hits.cell
    pairs = np.full(features.shape, -1)
    for place in reversed(range(most)):
        there = features[:, place] >= 0
        size = np.where(there, encoded.sizes[features[:, place]], 1)
        cell, code = np.divmod(cell, size)
        pairs[there, place] = 256 * features[there, place] + code[there]
    return pairs


def keys_of(encoded: Encoded, hits: Hits) -> list[Key]:
    """Give the features and codes of all candidates, in their order."""
    pairs = conditions(encoded, hits)
    each = zip((pairs >> 8).tolist(), (pairs & 255).tolist(), hits.cross.tolist(), strict=True)
    return [(tuple(features[:n]), tuple(codes[:n])) for features, codes, n in each]


def minimal(encoded: Encoded, hits: Hits) -> Flags:
    """Flag the candidates that lie below no other: a part of a reported slice says nothing new.

    References:
        Liu et al. 2022, section 5: "significant slices that are subsets of other significant ones
        are pruned".
    """
    pairs = conditions(encoded, hits)
    values, names = np.unique(np.append(-1, pairs), return_inverse=True)  # 0: no condition
    names, most = names[1:].reshape(pairs.shape), pairs.shape[1]

    def slices(columns: Sequence[int]) -> Ints:
        number = np.zeros(len(names), np.int64)
        for own in names.T[list(columns)]:
            number = np.where(own > 0, number * values.size + own, number)
        return number

    every, keep = slices(range(most)), np.ones(len(names), np.bool_)
    for cross in range(1, most):
        for columns in combinations(range(most), cross):
            part = (hits.cross > cross) & (hits.cross > columns[-1])
            keep[part] &= ~np.isin(slices(columns)[part], every)
    return keep


FULL = 3  # rows a cell of a joint table: with fewer its margins cost more than they save


def families(
    sizes: list[int], subsets: list[Subset], most_cells: int
) -> tuple[list[Subset], list[Subset]]:
    """Choose larger sets whose margins are the wanted subsets, each of them once.

    A larger set is one whose places have the exclusive or 0, so that all but one of its features
    name the last: for three features, the Steiner quadruple system of Boole. A subset whose last
    feature does not exist, or is among its own, stands alone, and so does one whose joint table
    would be too large.

    Args:
        sizes: Number of predicates of each feature.
        subsets: All subsets of one cross size, in lexicographic order.
        most_cells: Largest joint table.

    Returns:
        The larger sets, of one feature more, and the subsets that stand alone.

    References:
        Hanani (1960), On quadruple systems.

    >>> families([2, 2, 2, 2, 2], [(0, 1, 2), (0, 1, 3), (0, 1, 4), (0, 2, 3), (1, 2, 3)], 100)
    ([(0, 1, 2, 3)], [(0, 1, 4)])
    """
    joint: list[Subset] = []
    alone: list[Subset] = []
    for subset in subsets:
        last = reduce(xor, subset)
        together = tuple(sorted((*subset, last)))
        if last in subset or last >= len(sizes) or prod(sizes[f] for f in together) > most_cells:
            alone.append(subset)
        elif last > subset[-1]:
            joint.append(together)
    return joint, alone


@dataclass(frozen=True, eq=False)
class Joint(Block):
    """A block of all margins of some larger sets, one set after the other.

    `keys` has one row a larger set, whose cells are counted from 0.

    Attributes:
        tables: The shapes of the larger sets' tables.
    """

    tables: tuple[tuple[int, ...], ...]

    def add(self, rows: Rows | None = None, lanes: Lanes | None = None) -> Lanes:
        """Sum over the rows of each margin; where there are many rows, they are summed by table."""
        few = FULL * max(prod(shape) for shape in self.tables)
        if rows is not None and rows.size < few:
            return self._under_each(rows).add(None, lanes)
        ends = iter(pairwise(self.starts.tolist()))
        sums: list[Lanes] = []
        for own, shape in zip(self.keys, self.tables, strict=True):
            table = Cells(own[None], prod(shape)).add(rows, lanes)
            sums = sums or [np.empty((self.number, *table.shape[1:]), table.dtype)]
            for place, size in enumerate(shape):
                first, last = next(ends)
                cube = table.reshape(prod(shape[:place]), size, -1)
                np.einsum("asb->ab", cube, out=sums[0][first:last].reshape(len(cube), -1))
        return sums[0]

    def _under_each(self, rows: Rows) -> Cells:
        """Look up the cells of some rows."""
        keys: Keys = np.empty((len(self.subsets), rows.size), np.int32)
        own = iter(keys)
        for table, shape in zip(self.keys, self.tables, strict=True):
            cells = table.take(rows)
            for place in range(len(shape)):
                next(own)[:] = without(shape, place).take(cells)
        keys += self.starts[:-1, None].astype(np.int32)
        return Cells(keys, self.number)


def joint_blocks(
    encoded: Encoded, joint: list[Subset], *, most_cells: int, most_keys: int
) -> Iterator[Joint]:
    """Cut the margins of larger sets into blocks of bounded size, at least one set each.

    >>> from scotoma.slices.search.predicates import encode
    >>> encoded = encode({"a": [0, 0, 1], "b": [0, 1, 1], "c": [0, 1, 0]})
    >>> (block,) = joint_blocks(encoded, [(0, 1, 2)], most_cells=99, most_keys=99)
    >>> block.subsets, block.tables, block.keys.tolist()
    (((1, 2), (0, 2), (0, 1)), ((2, 2, 2),), [[0, 3, 6]])
    >>> block.add().tolist()
    [1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1]
    """
    sizes, codes = encoded.sizes.tolist(), encoded.codes.astype(np.int32)
    shapes = [tuple(sizes[f] for f in own) for own in joint]
    widths = [[prod(shape) // size for size in shape] for shape in shapes]
    rows = codes.shape[1]
    prefix: Subset = ()
    for first, last in subset_groups(
        [sum(own) for own in widths], most_cells, most_keys // max(rows, 1)
    ):
        keys: Keys = np.empty((last - first, rows), np.int32)
        for own, features in zip(keys, joint[first:last], strict=True):
            if features[:-2] != prefix:
                prefix = features[:-2]
                shared = cells_of(codes, sizes, prefix)
            np.multiply(shared, sizes[features[-2]], out=own)
            own += codes[features[-2]]
            own *= sizes[features[-1]]
            own += codes[features[-1]]
        starts = np.cumsum([0, *(width for own in widths[first:last] for width in own)])
        subsets = [own[:f] + own[f + 1 :] for own in joint[first:last] for f in range(len(own))]
        yield Joint(
            keys, int(starts[-1]), tuple(subsets), starts, (None,) * len(subsets),
            tuple(shapes[first:last]),
        )  # fmt: skip


@lru_cache(maxsize=256)
def without(shape: tuple[int, ...], place: int) -> Keys:
    """Map each cell of a table to its cell in the table without one of the features.

    >>> without((2, 3), 0).tolist(), without((2, 3), 1).tolist()
    ([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    """
    fewer = shape[:place] + shape[place + 1 :]
    cells = np.arange(prod(fewer), dtype=np.int32).reshape(fewer)
    return np.broadcast_to(np.expand_dims(cells, place), shape).ravel()


Key = tuple[Subset, tuple[int, ...]]  # features, and the code of each: what names a slice


@dataclass(frozen=True)
class SliceTestResult:
    """One test of a slice: by the search, or on the half of the examples that it did not see.

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
        discovery: The test by the search.
        confirmation: The test on the other half; None without confirmation.
        half: The half of the examples, 0 or 1, that its effect is measured on; None for all.
        earlier: The slices whose examples its tests left out, and so does its effect.
    """

    key: Key
    discovery: SliceTestResult
    confirmation: SliceTestResult | None = None
    half: int | None = None
    earlier: tuple[Key, ...] = ()

    @property
    def decision(self) -> SliceTestResult:
        """The test that decided: the confirmation where there is one."""
        return self.confirmation or self.discovery


def flag_rows(encoded: Encoded, key: Key) -> Flags:
    """Flag the examples that lie in a slice, shape (N,).

    >>> from scotoma.slices.search.predicates import encode
    >>> flag_rows(encode({"a": ["x", "x", "y"], "b": [1, 2, 3]}), ((0, 1), (0, 1)))
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
        rows &= ~flag_rows(encoded, key)
    return np.flatnonzero(rows)
