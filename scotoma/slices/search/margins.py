"""Feature subsets that share one pass over the rows: each is a margin of a joint table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from math import prod
from operator import xor

import numpy as np

from scotoma.slices.judging.tally import Cells, Keys, Lanes, Rows
from scotoma.slices.search.lattice import Block, Subset, cells_of, subset_groups
from scotoma.slices.search.predicates import Encoded

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
        yield Joint(
            tuple(own[:f] + own[f + 1 :] for own in joint[first:last] for f in range(len(own))),
            np.cumsum([0, *(width for own in widths[first:last] for width in own)]),
            keys,
            (None,) * sum(len(own) for own in joint[first:last]),
            tuple(shapes[first:last]),
        )


@lru_cache(maxsize=256)
def without(shape: tuple[int, ...], place: int) -> Keys:
    """Map each cell of a table to its cell in the table without one of the features.

    >>> without((2, 3), 0).tolist(), without((2, 3), 1).tolist()
    ([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    """
    fewer = shape[:place] + shape[place + 1 :]
    cells = np.arange(prod(fewer), dtype=np.int32).reshape(fewer)
    return np.broadcast_to(np.expand_dims(cells, place), shape).ravel()
