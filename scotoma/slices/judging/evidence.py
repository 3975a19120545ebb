"""What does a search ask of an outcome: what a slice adds up to, and what follows from the sums?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Codes, Flags, Floats
from scotoma.slices.judging.tally import Cells, ClusterSums, Part, Rows, Sums, Tallied
from scotoma.slices.outcomes import Outcome, shuffle

Direction = Literal["higher", "lower", "both"]
Shared = tuple[ClusterSums, ClusterSums]


@dataclass(frozen=True)
class JudgedCells:
    """The results of testing the cells of a block.

    Attributes:
        size: Rows of every cell, shape (cells,).
        cell: The cells that were tested, ascending, shape (T,).
        effect: Their metric minus what it is compared with, shape (T,).
        p: Their p-values, shape (T,); those certain to exceed the search's `keep` may be 1.
    """

    size: Rows
    cell: Rows
    effect: Floats
    p: Floats


class Lane(ABC):
    """A test: what each row adds to its slice, and what follows from the sums of a slice.

    Sums may be added up anywhere and in any order.
    """

    @property
    def exchanges(self) -> bool:
        """Whether outcomes are shuffled by exchanging the two populations."""
        return False

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Numbers in each of the sums."""

    @abstractmethod
    def adds(self, outcome: Outcome) -> list[Part]:
        """What each row adds to each of the sums, the first of which counts rows."""

    @abstractmethod
    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, shared: Shared | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows.

        Args:
            sums: Of every cell, arrays of shape (cells,) or (cells, W).
            whole: Of all rows, as one cell.
            least: Rows that a slice must hold.
            keep: P-values beyond this interest nobody.
            shared: The sums of `over` in each cell and in all rows, by cluster; None where every
                row is its own.
        """

    def over(self, parts: list[Part]) -> Floats | None:
        """What is summed by cluster, from what each row adds; None where clusters do not count."""
        return None

    def effect(self, sums: Sums, whole: Sums, level: float) -> Estimate | None:
        """The interval that goes with the test, of one cell; None for that of `Number`."""
        return None


@dataclass(frozen=True, eq=False)
class Evidence:
    """An outcome of every row, and the lane in which slices are tested.

    Attributes:
        lane: The test.
        known: The outcome of these rows, or of the rows that they are a part of.
        clusters: Code of each row's cluster; None where every row is its own.
        part: The evidence on more rows, perhaps a part itself, and which of them these are: a row
            adds what it adds there. That is picked once, in order, for all parts of this part.
    """

    lane: Lane
    known: Outcome
    clusters: Codes | None
    part: tuple[Evidence, Rows] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.known.rows.size if self.part is None else self.part[1].size

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs, which bounds the cells of a block."""
        return 4 * sum(self.lane.widths)

    @property
    def exact(self) -> bool:
        """Whether sums of sums are the sums to the last digit: they are of whole numbers."""
        kinds = [np.intp if lanes is None else lanes.dtype for _, lanes in self.parts]
        return all(np.issubdtype(kind, np.integer) for kind in kinds)

    def judge(self, cells: Tallied, least: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows, as `Lane.judge` says."""
        others = [cells.add(*part) for part in self.parts[1:]]
        counted = self._counted
        size = cells.add() if counted is None else others[counted][:, 0].astype(np.intp)
        sums = (size, *others)
        shared = None
        if self.clusters is not None and self.over is not None:
            shared = ClusterSums.of(cells.keys, self.clusters, self.over), self._each
        return self.lane.judge(sums, self._whole, least, keep, shared)

    def effect(self, inside: Flags, level: float) -> Estimate | None:
        """The interval of one slice that goes with the test; None for that of `Number`."""
        cells = Cells(np.where(inside, 0, 1)[None], 2)
        sums = tuple(cells.add(*part)[:1] for part in self.parts)
        return self.lane.effect(sums, self._whole, level)

    def take(self, rows: Rows) -> Evidence:
        """Keep some of the rows."""
        clusters = None if self.clusters is None else self.clusters[rows]
        return Evidence(self.lane, self.known, clusters, (self, rows))

    def shuffled(self, rng: np.random.Generator) -> Evidence:
        """Shuffle the outcome, so that no slice means anything; clusters stay where they are."""
        if not self.lane.exchanges:
            moved = self.take(shuffle(self.rows, self.clusters, rng))
            return replace(moved, clusters=self.clusters)
        outcome = self._known
        exchanged = replace(outcome, clusters=self.clusters).shuffled(rng, exchange=True)
        return replace(self, known=exchanged, part=None)

    @property
    def _known(self) -> Outcome:
        """The outcome of these rows."""
        return self.known if self.part is None else self.part[0]._known.take(self.part[1])

    @cached_property
    def parts(self) -> list[Part]:
        """What each row adds to each of the sums."""
        if self.part is None:
            return self.lane.adds(self.known)
        whole, rows = self.part
        return [_taken(part, rows, whole.rows) for part in whole.parts]

    @cached_property
    def over(self) -> Floats | None:
        """What is summed by cluster; None where clusters do not count."""
        return None if self.clusters is None else self.lane.over(self.parts)

    @cached_property
    def _counted(self) -> int | None:
        """Place of a sum whose first number counts rows too: they need not be counted again."""
        for place, (rows, lanes) in enumerate(self.parts[1:]):
            if rows is None and lanes is not None and (lanes[:, 0] == 1).all():
                return place
        return None

    @cached_property
    def _whole(self) -> Sums:
        return tuple(
            np.array([self.rows if rows is None else rows.size])
            if lanes is None
            else lanes.sum(0)[None]
            for rows, lanes in self.parts
        )

    @cached_property
    def _each(self) -> ClusterSums:
        """Sums over all rows of each cluster."""
        assert self.clusters is not None
        assert self.over is not None
        return ClusterSums.of(np.zeros((1, self.rows), np.int64), self.clusters, self.over)


def _taken(part: Part, rows: Rows, total: int) -> Part:
    """What some rows add to a sum, of what all add."""
    adding, lanes = part
    if adding is None:
        return None, None if lanes is None else np.take(lanes, rows, axis=0)
    place = np.full(total, -1)
    place[adding] = np.arange(adding.size)
    own = place[rows]
    known = np.flatnonzero(own >= 0)
    return known, None if lanes is None else np.take(lanes, own[known], axis=0)
