"""The strategies that visit the lattice level by level: all candidates, or pruned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.slices.evidence import Evidence, Flags, Floats
from scotoma.slices.lattice import Block, Subset, below, blocks, feature_subsets
from scotoma.slices.predicates import Encoded

Ints = npt.NDArray[np.int64]
Decide = Callable[["Hits"], Flags]


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
        examined: Cells looked at, empty ones too.
        nonempty: Those with a row.
        tested: Those tested: the family for every correction.
    """

    subsets: tuple[Subset, ...] = ()
    subset: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    cell: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    size: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    effect: Floats = field(default_factory=lambda: np.empty(0))
    p: Floats = field(default_factory=lambda: np.empty(0))
    examined: int = 0
    nonempty: int = 0
    tested: int = 0

    def take(self, chosen: Any) -> Hits:
        """The same with some of the candidates, by places or flags."""
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, **columns)

    @property
    def cross(self) -> Ints:
        """Cross size of each candidate, shape (M,)."""
        sizes = np.array([len(subset) for subset in self.subsets], np.int64)
        return np.asarray(sizes[self.subset])


COLUMNS = ("subset", "cell", "size", "effect", "p")


def join(parts: list[Hits]) -> Hits:
    """Several searches' candidates as those of one.

    >>> join([Hits(tested=2), Hits(tested=3)]).tested
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
    sums = {
        name: sum(getattr(p, name) for p in parts) for name in ("examined", "nonempty", "tested")
    }
    return Hits(tuple(chain.from_iterable(part.subsets for part in parts)), **columns, **sums)


def sweep(
    encoded: Encoded,
    evidence: Evidence,
    max_cross: int,
    keep: float,
    decide: Decide | None = None,
    *,
    most_cells: int,
) -> Hits:
    """Visit the lattice level by level.

    Args:
        encoded: The predicates of the evidence's rows.
        evidence: The outcome and its test.
        max_cross: Largest number of predicates in a slice.
        keep: Candidates with a larger p-value are not kept.
        decide: Which of the candidates kept so far are significant: their children, and those of
            slices that are too small, are not visited (the iterative strategy). None: every
            candidate is visited (the batch strategy).
        most_cells: Bound on the cells that are tallied together.

    References:
        Liu et al. 2022, section 4 and Algorithm 1.
    """
    blocked: dict[Subset, Flags] = {}
    levels: list[Hits] = []
    for cross in range(1, min(max_cross, len(encoded.predicates)) + 1):
        subsets = feature_subsets(len(encoded.predicates), cross)
        prune = decide is not None
        level: list[Hits] = []
        for block in blocks(encoded, subsets, most_cells=most_cells):
            hits, small = visit(encoded, evidence, block, keep, blocked if prune else None)
            level.append(hits)
            if prune and cross < max_cross:
                blocked |= small
        levels.append(join(level))
        if decide is not None and cross < max_cross:
            so_far = join(levels)
            found = decide(so_far)[-levels[-1].p.size :] if levels[-1].p.size else np.zeros(0, bool)
            flag(blocked, levels[-1].take(found))
    return join(levels)


def visit(
    encoded: Encoded,
    evidence: Evidence,
    block: Block,
    keep: float,
    blocked: dict[Subset, Flags] | None,
) -> tuple[Hits, dict[Subset, Flags]]:
    """Test a block's cells, without those below a blocked one.

    Returns:
        The candidates kept, and per subset the cells whose children need no visit as yet.
    """
    judged = evidence.judge(block.keys, block.cells, keep)
    cell, effect, p = judged.cell, judged.effect, judged.p
    examined, nonempty = block.cells, int(np.count_nonzero(judged.size))
    small: dict[Subset, Flags] = {}
    if blocked is not None:
        barred = np.concatenate([below(encoded, subset, blocked) for subset in block.subsets])
        examined -= int(np.count_nonzero(barred))
        nonempty = int(np.count_nonzero((judged.size > 0) & ~barred))
        free = ~barred[cell]
        cell, effect, p = cell[free], effect[free], p[free]
        shut = barred | (judged.size < evidence.least) | (judged.size == 0)
        for g, subset in enumerate(block.subsets):
            small[subset] = shut[block.starts[g] : block.starts[g + 1]]
    kept = p <= keep
    where = np.searchsorted(block.starts, cell[kept], side="right") - 1
    hits = Hits(
        block.subsets,
        where.astype(np.int64),
        (cell[kept] - block.starts[where]).astype(np.int64),
        judged.size[cell[kept]].astype(np.int64),
        effect[kept],
        p[kept],
        examined,
        nonempty,
        int(p.size),
    )
    return hits, small


def flag(flags: dict[Subset, Flags], hits: Hits) -> None:
    """Set the flags of some candidates, whose subsets must be there."""
    for place in np.unique(hits.subset).tolist():
        flags[hits.subsets[place]][hits.cell[hits.subset == place]] = True


def minimal(encoded: Encoded, hits: Hits) -> Flags:
    """Which candidates lie below none of the others: subsets of a found slice say nothing new.

    Args:
        encoded: The predicates.
        hits: The slices found, in the order of their cross size.

    References:
        Liu et al. 2022, section 5: "significant slices that are subsets of other significant ones
        are pruned".
    """
    flags: dict[Subset, Flags] = {}
    keep = np.zeros(hits.p.shape, np.bool_)
    cross = hits.cross
    order = np.argsort(hits.subset, kind="stable")
    places, starts = np.unique(hits.subset[order], return_index=True)
    groups = dict(zip(places.tolist(), np.split(order, starts[1:]), strict=True))
    for level in range(1, int(cross.max(initial=0)) + 1):
        here = [p for p in groups if len(hits.subsets[p]) == level]
        own = {hits.subsets[p]: below(encoded, hits.subsets[p], flags) for p in here}
        for place in here:
            mine = groups[place]
            keep[mine] = ~own[hits.subsets[place]][hits.cell[mine]]
        if level < int(cross.max(initial=0)):
            for subset in feature_subsets(len(encoded.predicates), level):
                under = own.get(subset)
                under = below(encoded, subset, flags) if under is None else under
                if under.any():
                    flags[subset] = under
            for place in here:
                subset = hits.subsets[place]
                flags.setdefault(subset, np.zeros(own[subset].shape, np.bool_))
                flags[subset][hits.cell[groups[place]]] = True
    return keep
