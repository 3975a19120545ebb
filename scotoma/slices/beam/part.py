"""What are the sums over one part of a table for every slice?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import convert
from scotoma.hashing import hash_ids
from scotoma.inputs import Flags, Floats
from scotoma.slices.beam.columns import Columns
from scotoma.slices.beam.null import Shuffle
from scotoma.slices.evidence.outcomes import Outcome
from scotoma.slices.evidence.tally import Cells, Keys, count_keys, tally_lanes
from scotoma.slices.judging.bootstrap import Ratio
from scotoma.slices.judging.crossed import Centre
from scotoma.slices.judging.means import Means
from scotoma.slices.judging.protocols import Test, ratios_of
from scotoma.slices.search.coding import Coding
from scotoma.slices.search.findings import Key
from scotoma.slices.search.greedy import unexplained
from scotoma.slices.search.lattice import Subset, blocks, feature_subsets
from scotoma.slices.search.predicates import Encoded


@dataclass(frozen=True, eq=False)
class Sums:
    """The slices of one set of features: numbers that may be added in any order.

    Attributes:
        cell: The cells that hold rows, ascending, shape (M,).
        lanes: Their sums, shape (M, W): rows, then what the test of a slice asks for. Counts are
            exact up to 2^53.
    """

    cell: npt.NDArray[np.int64]
    lanes: Floats


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of every part of the table.

    Attributes:
        codings: The features that define slices.
        columns: The other columns.
        test: The test whose sums are needed.
        max_cross: Largest number of predicates in a slice.
        draws: Bootstrap draws, where the bootstrap serves.
        seed: Seed of draws and halves.
        centre: What means are centred on; None where no means are tested.
        shuffle: How outcomes are shuffled; None for what they are.
        middle: The largest hash of an id in the first half of the examples; -1 without halves.
        half: The half that is counted, 0 or 1; None for all examples.
    """

    codings: tuple[Coding, ...]
    columns: Columns
    test: Test
    max_cross: int
    draws: int
    seed: int
    centre: Centre | None = None
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
    """The rows of a part of the table that count, and what each adds.

    Attributes:
        encoded: Their predicates.
        outcome: Their outcome.
        ids: Ids of the examples.
        query: The options of the search.
    """

    encoded: Encoded
    outcome: Outcome
    ids: npt.NDArray[np.generic]
    query: Query

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
        return cls(encoded.take(rows), outcome.take(rows), ids[rows], query)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.ids.size

    def sums(self, keys: Keys, cells: int) -> Floats:
        """Sum rows and what the test asks for in every cell, shape (cells, W).

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            cells: Cells of all subsets together.
        """
        size = count_keys(keys, cells)[:, None]
        if self.query.test == "bootstrap":
            sums = chain.from_iterable(one.sums(Cells(keys, cells)) for one in self._ratios)
            return np.concatenate([size, *sums], axis=1, dtype=np.float64)
        return np.concatenate(
            [size, tally_lanes(keys, cells, self._lanes)], axis=1, dtype=np.float64
        )

    @cached_property
    def _lanes(self) -> Floats:
        model, baseline, centre = self.outcome.model, self.outcome.baseline, self.query.centre
        if centre is not None:
            return means_of(self.outcome).lanes(centre)
        if self.query.test == "change" and baseline is not None:
            change = model.above - baseline.above
            return np.concatenate([np.maximum(change, 0.0), np.maximum(-change, 0.0)], axis=1)
        return model.above

    @cached_property
    def _ratios(self) -> list[Ratio]:
        ratios = ratios_of(self.outcome, self.ids, self.query.draws, self.query.seed)
        return [one for one in ratios if one is not None]


def means_of(outcome: Outcome) -> Means:
    """Prepare the scores of a part for their lanes; its other settings are not used."""
    baseline = None if outcome.baseline is None else outcome.baseline.above
    return Means(outcome.model.above, baseline, "rest", outcome.paired, "higher", 2)


def add_up(
    table: pl.DataFrame, query: Query, without: tuple[Key, ...] = ()
) -> Iterator[tuple[int, Sums]]:
    """Sum over one part of the table for every feature set.

    Args:
        table: Some of the rows, with the columns asked for.
        query: The search.
        without: Slices whose rows are left out: those that earlier findings explain.

    Yields:
        Number of the feature set, as in `query.subsets`, and its sums.

    Raises:
        DataError: Outcomes that the metric cannot take.
    """
    part = PartRows.of(table, query, without)
    if part is None:
        return
    yield 0, Sums(np.zeros(1, np.int64), part.sums(np.zeros((1, part.rows), np.int32), 1))
    number, features = 0, len(query.codings)
    for cross in range(1, min(query.max_cross, features) + 1):
        for block in blocks(part.encoded, feature_subsets(features, cross)):
            lanes = part.sums(block.keys, block.cells)
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
