"""What are the sums over one part of a table for every slice?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import convert
from scotoma.numbers.inputs import Flags, Floats
from scotoma.slices.beam.columns import TableColumns
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging import tally
from scotoma.slices.judging.bootstrap import BootstrapLane
from scotoma.slices.judging.evidence import Evidence, Lane
from scotoma.slices.judging.tally import Cells, Tallied
from scotoma.slices.outcomes import Outcome
from scotoma.slices.search.coding import Coding
from scotoma.slices.search.findings import Key, unexplained
from scotoma.slices.search.lattice import Subset, blocks, feature_subsets
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.weights import poisson_weights


@dataclass(frozen=True, eq=False)
class Sums:
    """The slices of one set of features: numbers that may be added in any order.

    Attributes:
        cell: The cells that hold rows, ascending, shape (M,).
        lanes: Their sums, shape (M, W), the first the rows. Counts are exact up to 2^53.
    """

    cell: npt.NDArray[np.int64]
    lanes: Floats

    def split(self, lane: Lane) -> tally.Sums:
        """Give the sums that a lane judges."""
        parts = np.split(self.lanes, np.cumsum(lane.widths)[:-1], axis=1)
        return tuple(
            own[:, 0] if width == 1 else own for own, width in zip(parts, lane.widths, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Shuffle:
    """One shuffle of the outcomes, which depends on (seed, number, example id) alone.

    A row cannot change places with a row of another part of the table. Against a baseline that is
    not needed: the two populations change places on a random half of the examples, or all members
    are dealt out anew where they are not equally many. Otherwise every row draws the outcome of one
    row of a pool.

    Attributes:
        seed: Seed of the search.
        number: Number of the shuffle.
        pool: Outcomes of a sample of the rows that count; None against a baseline.
    """

    seed: int
    number: int
    pool: Outcome | None

    def deal(self, outcome: Outcome, ids: npt.NDArray[np.generic]) -> Outcome:
        """Shuffled outcomes of some rows.

        >>> from scotoma.slices.outcomes import SLICE_METRICS, prepare_outcome
        >>> two = prepare_outcome(SLICE_METRICS["error"], np.ones(6), np.zeros(6), None, 6)
        >>> shuffled = Shuffle(0, 0, None).deal(two, np.arange(6))
        >>> (shuffled.model.above + shuffled.baseline.above).ravel().tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        """
        drawn = hash_ids(ids, self.seed + 1 + self.number)
        if self.pool is not None:
            rows = (drawn % np.uint64(len(self.pool.rows))).astype(np.intp)
            pool = self.pool.take(rows)
            return replace(outcome, model=pool.model, baseline=pool.baseline)
        model, baseline = (own.members for own in outcome.populations)
        if model == baseline:
            return outcome.exchanged((drawn >> np.uint64(63)).astype(np.bool_))
        order = np.random.default_rng([self.seed % 2**63, 3, self.number])
        return outcome.dealt(order.permutation(model + baseline))


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of every part of the table.

    Attributes:
        codings: The features that define slices.
        columns: The other columns.
        lane: The test whose sums are needed.
        max_cross: Largest number of predicates in a slice.
        seed: Seed of draws and halves.
        shuffle: How outcomes are shuffled; None for what they are.
        middle: The largest hash of an id in the first half of the examples; -1 without halves.
        half: The half that is counted, 0 or 1; None for all examples.
    """

    codings: tuple[Coding, ...]
    columns: TableColumns
    lane: Lane
    max_cross: int
    seed: int
    shuffle: Shuffle | None = None
    middle: int = -1
    half: int | None = None

    @property
    def reads(self) -> list[str]:
        """Names of the columns that are read."""
        features = [coding.column for coding in self.codings]
        return list(dict.fromkeys([*features, self.columns.identifier, *self.columns.answers]))

    @property
    def subsets(self) -> list[Subset]:
        """The feature sets in the order of their numbers; number 0 is all rows."""
        features = len(self.codings)
        crosses = range(1, min(self.max_cross, features) + 1)
        return [(), *chain.from_iterable(feature_subsets(features, cross) for cross in crosses)]

    def encode(self, table: pl.DataFrame) -> Encoded:
        """Encode the rows of a part."""
        codes = [
            coding.codes(convert(table[coding.column], coding.kind)) for coding in self.codings
        ]
        return Encoded(np.stack(codes), tuple(coding.predicates for coding in self.codings))

    def in_half(self, ids: npt.NDArray[np.generic], half: int | None) -> Flags:
        """Flag the ids that lie in a half; all of them where it is None."""
        if half is None or ids.size == 0:
            return np.ones(ids.size, np.bool_)
        second = hash_ids(ids, self.seed) > np.uint64(max(self.middle, 0))
        return np.asarray(second == bool(half))


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of a part of the table that count.

    Attributes:
        encoded: Their predicates.
        ids: Ids of the examples.
        evidence: Their outcome, and the test whose sums are needed.
    """

    encoded: Encoded
    ids: npt.NDArray[np.generic]
    evidence: Evidence

    @classmethod
    def of(
        cls, table: pl.DataFrame, query: Query, without: tuple[Key, ...] = ()
    ) -> PartRows | None:
        """Keep the rows of a table that count and lie in none of some slices; None without any."""
        outcome = query.columns.read_outcome(table)
        if outcome is None:
            return None
        encoded = query.encode(table).take(outcome.rows)
        ids = query.columns.read_ids(table)[outcome.rows]
        if query.shuffle is not None:
            outcome = query.shuffle.deal(outcome, ids)
        rows = unexplained(encoded, without)
        rows = rows[query.in_half(ids[rows], query.half)]
        if rows.size == 0:
            return None
        outcome, ids = outcome.take(rows), ids[rows]
        if isinstance(query.lane, BootstrapLane):
            weights = poisson_weights(ids, query.lane.draws, query.seed)
            outcome = replace(outcome, weights=weights)
        return cls(encoded.take(rows), ids, Evidence(query.lane, outcome, None))

    def sums(self, cells: Tallied) -> Floats:
        """Sum what the lane asks for in every cell, shape (cells, W), the first the rows."""
        sums = [cells.add(*part) for part in self.evidence.parts]
        return np.column_stack(sums).astype(np.float64)


def add_up(
    table: pl.DataFrame, query: Query, without: tuple[Key, ...] = ()
) -> Iterator[tuple[int, Sums]]:
    """Sum over one part of the table for every feature set."""
    part = PartRows.of(table, query, without)
    if part is None:
        return
    yield (
        0,
        Sums(np.zeros(1, np.int64), part.sums(Cells(np.zeros((1, part.ids.size), np.int32), 1))),
    )
    number, features = 0, len(query.codings)
    for cross in range(1, min(query.max_cross, features) + 1):
        for block in blocks(part.encoded, feature_subsets(features, cross)):
            lanes = part.sums(block)
            occupied = np.flatnonzero(lanes[:, 0])
            subset, cell = block.locate(occupied)
            ends = np.searchsorted(subset, np.arange(len(block.subsets) + 1)).tolist()
            for first, last in pairwise(ends):
                number += 1
                yield number, Sums(cell[first:last], lanes[occupied[first:last]])


def merge(parts: Iterable[Sums]) -> Sums:
    """Add up the sums of several parts of the table, in any order.

    >>> one = Sums(np.array([0, 3]), np.array([[2.0], [5.0]]))
    >>> both = merge([one, Sums(np.array([1, 3]), np.array([[1.0], [1.0]]))])
    >>> both.cell.tolist(), both.lanes.ravel().tolist()
    ([0, 1, 3], [2.0, 1.0, 6.0])
    """
    every = list(parts)
    cell, place = np.unique(np.concatenate([one.cell for one in every]), return_inverse=True)
    lanes = np.zeros((cell.size, every[0].lanes.shape[1]))
    ends = np.cumsum([one.cell.size for one in every])[:-1]
    for one, own in zip(every, np.split(place, ends), strict=True):
        lanes[own] += one.lanes
    return Sums(cell, lanes)
