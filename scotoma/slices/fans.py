"""Feature subsets that share all but their last feature: compiled code sums them in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.slices.lattice import Block, Flags, Subset, cells_of, groups
from scotoma.slices.predicates import Encoded
from scotoma.slices.tally import PANEL, Counts, Lanes, Rows

PAYS = 2 * 10**8  # rows times subsets: for fewer, loading compiled code costs what it saves
BYTE = 256  # predicates of a stretch of features, so that its codes are small

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fan(Block):
    """A block of subsets whose last features follow one another and whose others are the same.

    The cells of all subsets that share the other predicates stand together, so that what a row is
    added to lies close. `keys` is what the shared features add to a row's cell, shape (1, N).

    Attributes:
        codes: What each feature of a stretch adds, shape (N, F), for which `keys` makes allowance.
        first: Place in the stretch of the first subset's last feature.
        loops: `scotoma.slices.kernel`.
        steps: First cell of each subset among those of the same other predicates, shape (G + 1,).

    >>> from scotoma.slices.predicates import encode
    >>> encoded = encode({"a": [0, 0, 1], "b": [0, 1, 1], "c": [0, 1, 0]})
    >>> loops = compiled(47_655, 45_825)
    >>> fan = next(fans(encoded, [(0, 1), (0, 2)], loops, most_cells=99))
    >>> fan.locate(np.arange(8))[0], fan.count()
    (array([0, 0, 1, 1, 0, 0, 1, 1]), array([1, 1, 1, 1, 0, 1, 1, 0]))
    """

    codes: npt.NDArray[np.unsignedinteger[Any]]
    first: int
    steps: Ints
    loops: Any

    @property
    def tallied(self) -> Fan:
        """What counts and sums the rows of its cells: itself."""
        return self

    def count(self, rows: Rows | None = None) -> Counts:
        """How many of all rows, or of some, lie in each cell."""
        counts = np.zeros(self.cells, np.intp)
        self.loops.count(*self._where, self._rows(rows), counts)
        return counts

    def tally(self, lanes: Lanes, rows: Rows | None = None) -> Lanes:
        """Sum of every lane over the rows of each cell, or over some.

        Args:
            lanes: Integers, shape (n, W), W a multiple of PANEL.
            rows: Those that the lanes are of.
        """
        chosen = self._rows(rows)
        panels = []
        for start in range(0, lanes.shape[1], PANEL):
            sums = np.zeros((self.cells, PANEL), lanes.dtype)
            self.loops.tally(*self._where, chosen, lanes, start, sums)
            panels.append(sums)
        return panels[0] if len(panels) == 1 else np.concatenate(panels, axis=1)

    def together(self, flags: list[Flags]) -> Flags:
        """Of flags for all cells of each subset those of the numbered cells, in their order."""
        each = zip(flags, np.diff(self.steps).tolist(), strict=True)
        return np.concatenate([own.reshape(-1, size) for own, size in each], axis=1).ravel()

    def apart(self, flags: Flags) -> list[Flags]:
        """Flags of the numbered cells, subset by subset."""
        each = np.split(flags.reshape(-1, self.steps[-1]), self.steps[1:-1], axis=1)
        return [own.ravel() for own in each]

    def locate(self, cell: npt.NDArray[np.intp]) -> tuple[Ints, Ints]:
        """Subset of each of some numbered cells, and the cell's place in the subset."""
        shared, last = np.divmod(cell, self.steps[-1])
        where = np.searchsorted(self.steps, last, side="right") - 1
        own = shared * np.diff(self.steps)[where] + last - self.steps[where]
        return where.astype(np.int64), own.astype(np.int64)

    @property
    def _where(self) -> tuple[Any, ...]:
        return self.keys[0], self.codes, self.first, self.first + len(self.subsets)

    def _rows(self, rows: Rows | None) -> Rows:
        return _every(self.keys.shape[1]) if rows is None else rows


def fans(
    encoded: Encoded, subsets: list[Subset], loops: ModuleType, *, most_cells: int
) -> Iterator[Fan]:
    """Feature subsets in fans of bounded size, at least one subset each.

    Neighbouring features make a stretch, whose codes stay in a core's cache from fan to fan.

    Args:
        encoded: The predicates.
        subsets: Subsets of one size, none with more than SPARSE times as many cells as there are
            rows.
        loops: `scotoma.slices.kernel`.
        most_cells: Bound on the cells of a fan.
    """
    if not subsets:
        return
    sizes, codes = encoded.sizes.tolist(), encoded.codes.astype(np.int32)
    others = encoded.sizes.mean() ** (len(subsets[0]) - 1)
    widest = int(min(BYTE, most_cells / others))
    ends = np.cumsum([0, *sizes])
    # From the last feature backwards: most subsets end there, so that no small stretch should.
    for after, upto in groups(sizes[::-1], widest, len(sizes)):
        first, last = len(sizes) - upto, len(sizes) - after
        steps = ends[first : last + 1] - ends[first]
        added = encoded.codes[first:last].T + steps[:-1]
        added = added.astype(np.min_scalar_type(int(steps[-1]) - 1), order="C")
        here = [subset for subset in subsets if first <= subset[-1] < last]
        for run in _runs(here, sizes, most_cells):
            start, end = run[0][-1] - first, run[-1][-1] + 1 - first
            own = steps[start : end + 1] - steps[start]
            shared = cells_of(codes, sizes, run[0][:-1])
            keys = shared * np.int32(own[-1]) - np.int32(steps[start])
            starts = own * prod(sizes[feature] for feature in run[0][:-1])
            every = (None,) * len(run)
            yield Fan(run, starts, keys[None], every, added, start, own, loops)


def _runs(subsets: list[Subset], sizes: list[int], most_cells: int) -> Iterator[tuple[Subset, ...]]:
    """Neighbours that differ in their last feature alone, by one, and share a fan."""
    run: list[Subset] = []
    cells = 0
    for subset in subsets:
        width = prod(sizes[f] for f in subset)
        follows = bool(run) and subset == (*run[-1][:-1], run[-1][-1] + 1)
        if run and (not follows or cells + width > most_cells):
            yield tuple(run)
            run, cells = [], 0
        run.append(subset)
        cells += width
    if run:
        yield tuple(run)


def compiled(rows: int, subsets: int) -> ModuleType | None:
    """`scotoma.slices.kernel`, where a search is large enough for it and numba is there.

    Args:
        rows: Rows that are searched.
        subsets: Feature subsets of all sizes.

    >>> compiled(3_918, 469)
    """
    if rows * subsets < PAYS:
        return None
    try:
        from scotoma.slices import kernel
    except ImportError:  # numba says so too where it does not know this NumPy yet
        return None
    return kernel


@lru_cache(maxsize=4)
def _every(rows: int) -> Rows:
    """All rows, the same for block after block."""
    return np.arange(rows)
