"""The search space: feature subsets, their cells, and which cell each row falls into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

import numpy as np
import numpy.typing as npt

from scotoma.numbers.inputs import Flags
from scotoma.slices.judging.tally import Cells, Keys
from scotoma.slices.search.predicates import Encoded

Subset = tuple[int, ...]

CELLS = 1 << 14  # cells tallied together: with 48 lanes of 16 bits about a core's second cache
KEYS = 1 << 22  # rows times feature subsets of a block
SPARSE = 4  # times as many cells as rows: from here on empty cells are not numbered


@dataclass(frozen=True, eq=False)
class Block(Cells):
    """Some feature subsets of one cross size, and the cell of every row under each.

    A cell is a combination of one predicate of each feature: a slice. Cells of a subset are
    numbered with the last feature running fastest; the subsets of a block follow one another.

    Attributes:
        subsets: Places of the features of each subset, ascending.
        starts: First cell of each subset, and the number of cells, shape (G + 1,).
        occupied: For subsets of many more cells than rows the cells that hold rows, of which
            alone the block has numbers; None where it has one for each.
    """

    subsets: tuple[Subset, ...]
    starts: npt.NDArray[np.int64]
    occupied: tuple[npt.NDArray[np.int64] | None, ...]

    def together(self, flags: list[Flags]) -> Flags:
        """Collect the flags of the numbered cells from those of all cells of each subset."""
        chosen = zip(flags, self.occupied, strict=True)
        return np.concatenate([own if cells is None else own[cells] for own, cells in chosen])

    def apart(self, flags: Flags) -> list[Flags]:
        """Split the flags of the numbered cells by subset."""
        return np.split(flags, self.starts[1:-1])

    def locate(
        self, cell: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Subset of each of some numbered cells, and the cell's place in the subset."""
        where = np.searchsorted(self.starts, cell, side="right") - 1
        own = cell - self.starts[where]
        for place, occupied in enumerate(self.occupied):
            if occupied is not None:
                own[where == place] = occupied[own[where == place]]
        return where.astype(np.int64), own.astype(np.int64)


def feature_subsets(features: int, cross: int) -> list[Subset]:
    """List all subsets of `cross` features, in lexicographic order.

    >>> feature_subsets(3, 2)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(features), cross))


def blocks(
    encoded: Encoded, subsets: list[Subset], *, most_cells: int = CELLS, most_keys: int = KEYS
) -> Iterator[Block]:
    """Cut feature subsets into blocks of bounded size, at least one subset each.

    >>> from scotoma.slices.search.predicates import encode
    >>> encoded = encode({"a": ["x", "x", "y"], "b": [1, 2, 3]})
    >>> next(blocks(encoded, [(0, 1)])).keys
    array([[0, 1, 5]], dtype=int32)
    """
    sizes, codes = encoded.sizes.tolist(), encoded.codes.astype(np.int32)
    rows = codes.shape[1]
    prefix: Subset = ()
    shared: Keys = np.zeros(rows, np.int32)
    widths = np.prod(encoded.sizes[np.array(subsets, np.intp)], axis=1).tolist() if subsets else []
    bounded = [min(width, SPARSE * rows) for width in widths]
    for first, last in subset_groups(bounded, most_cells, most_keys // max(rows, 1)):
        chosen = tuple(subsets[first:last])
        keys = np.empty((len(chosen), rows), np.int32)
        starts = np.zeros(len(chosen) + 1, np.int64)
        occupied: list[npt.NDArray[np.int64] | None] = []
        for g, subset in enumerate(chosen):
            if subset[:-1] != prefix:
                prefix = subset[:-1]
                shared = cells_of(codes, sizes, prefix)
            own = widths[first + g]
            if own <= SPARSE * rows:
                np.multiply(shared, sizes[subset[-1]], out=keys[g])
                keys[g] += codes[subset[-1]]
                occupied.append(None)
            else:
                wide = shared.astype(np.int64) * sizes[subset[-1]] + codes[subset[-1]]
                values, keys[g] = np.unique(wide, return_inverse=True)
                occupied.append(values)
                own = values.size
            keys[g] += starts[g].astype(np.int32)
            starts[g + 1] = starts[g] + own
        yield Block(keys, int(starts[-1]), chosen, starts, tuple(occupied))


def subset_groups(widths: list[int], most_cells: int, most: int) -> Iterator[tuple[int, int]]:
    """Group neighbours that share a block, from 1 to `most` of them: first and last place.

    >>> list(subset_groups([4, 4, 4], 9, 10))
    [(0, 2), (2, 3)]
    """
    first = cells = 0
    for place, width in enumerate(widths):
        if place > first and (cells + width > most_cells or place + 1 - first > most):
            yield first, place
            first, cells = place, 0
        cells += width
    if widths:
        yield first, len(widths)


def cells_of(codes: Keys, sizes: list[int], subset: Subset) -> Keys:
    """Compute the cell of each row in the table of some features, the last one running fastest."""
    cell = np.zeros(codes.shape[1], codes.dtype)
    for feature in subset:
        cell *= sizes[feature]
        cell += codes[feature]
    return cell


def shape_of(encoded: Encoded, subset: Subset) -> tuple[int, ...]:
    """Count the predicates of each feature of a subset."""
    return tuple(len(encoded.predicates[feature]) for feature in subset)


def below(encoded: Encoded, subset: Subset, flags: dict[Subset, Flags]) -> Flags:
    """Flag the cells of a subset that lie below a flagged cell of one feature less.

    Args:
        encoded: The predicates.
        subset: The features of the cells.
        flags: Flags of the cells of smaller subsets, those without any flag left out.

    Returns:
        Flags, one a cell.

    >>> from scotoma.slices.search.predicates import encode
    >>> encoded = encode({"a": ["x", "x", "y"], "b": [1, 2, 3]})
    >>> below(encoded, (0, 1), {(0,): np.array([False, True])})
    array([False, False, False,  True,  True,  True])
    """
    shape = shape_of(encoded, subset)
    under = np.zeros(shape, np.bool_)
    for place in range(len(subset)):
        parent = subset[:place] + subset[place + 1 :]
        if parent in flags:
            own = (*shape[:place], 1, *shape[place + 1 :])
            under |= flags[parent].reshape(own)
    return under.ravel()


def subset_count(features: int, max_cross: int) -> int:
    """Sets of up to `max_cross` features.

    >>> subset_count(14, 3)
    469
    """
    return sum(comb(features, cross) for cross in range(1, max_cross + 1))


def candidate_count(encoded: Encoded, max_cross: int) -> int:
    """Count slices that could hold a row: of each feature subset its cells or rows, if fewer.

    Counted by cross size without listing the subsets when none has more cells than rows.

    >>> from scotoma.slices.search.predicates import encode
    >>> candidate_count(encode({"a": ["x", "x", "y"], "b": [1, 2, 3]}), 2)
    8
    """
    sizes, rows = encoded.sizes.tolist(), encoded.codes.shape[1]
    whole = [1] + [0] * max_cross  # elementary symmetric polynomials of the sizes
    for size in sizes:
        for cross in range(max_cross, 0, -1):
            whole[cross] += whole[cross - 1] * size
    total = 0
    for cross in range(1, max_cross + 1):
        subsets = comb(len(sizes), cross)
        if prod(sorted(sizes)[-cross:]) <= rows or subsets > 10**6:
            total += min(whole[cross], subsets * rows)
        else:
            total += sum(
                min(prod(sizes[f] for f in subset), rows)
                for subset in combinations(range(len(sizes)), cross)
            )
    return total
