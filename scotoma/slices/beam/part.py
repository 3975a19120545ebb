"""What one part of a table adds to a search: sums for every slice and bootstrap replicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.hashing import hash_ids
from scotoma.slices.beam.null import Chance
from scotoma.slices.evidence.outcomes import Outcome, metric_named, prepare
from scotoma.slices.evidence.tally import Cells, Keys, count
from scotoma.slices.judging.bootstrap import Ratio
from scotoma.slices.judging.protocols import ratios_of
from scotoma.slices.search.coding import Coding
from scotoma.slices.search.greedy import Key, unexplained
from scotoma.slices.search.lattice import Flags, Subset, blocks, feature_subsets
from scotoma.slices.search.predicates import Encoded

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sums:
    """The slices of one set of features: integers that may be added in any order.

    Attributes:
        cell: The cells that hold rows, ascending, shape (M,).
        lanes: Their sums, shape (M, W): rows, then of every replicate the numerators and the
            denominators of the metric, then those of the baseline; replicate 0 is without weights.
    """

    cell: Ints
    lanes: Ints


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of every part of the table.

    Attributes:
        codings: The features that define slices.
        identifier: Column of the example ids, which the bootstrap weights go by.
        outcome: Columns of the model or population at hand.
        baseline: Columns of what it is compared with; may be empty.
        label: Column of the true labels; None where the outcome needs none.
        metric: One of `scotoma.slices.evidence.outcomes.METRICS` but means and AUC.
        paired: Each outcome derives from the baseline at the same place.
        max_cross: Largest number of predicates in a slice.
        draws: Bootstrap draws; 0 where the exact tests serve.
        seed: Of the draws.
        chance: How outcomes are dealt out anew; None for what they were.
        middle: The largest hash of an id in the first half of the examples, where halves are asked
            for.
        half: The half that is counted, 0 or 1; None for all examples.
    """

    codings: tuple[Coding, ...]
    identifier: str
    outcome: tuple[str, ...]
    baseline: tuple[str, ...]
    label: str | None
    metric: str
    paired: bool
    max_cross: int
    draws: int
    seed: int
    chance: Chance | None = None
    middle: int = -1
    half: int | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [*(coding.column for coding in self.codings), self.identifier, *self.answers]

    @property
    def answers(self) -> list[str]:
        """Those that the outcome is made of."""
        label = [] if self.label is None else [self.label]
        return [*self.outcome, *self.baseline, *label]

    def in_half(self, names: npt.NDArray[np.generic]) -> Flags:
        """Which examples of some ids are in the half that is counted."""
        if self.half is None or names.size == 0:
            return np.ones(names.size, np.bool_)
        second = hash_ids(names, self.seed) > np.uint64(max(self.middle, 0))
        return np.asarray(second == bool(self.half))

    @property
    def subsets(self) -> list[Subset]:
        """The feature sets in the order of their numbers; number 0 is all rows."""
        features = len(self.codings)
        crosses = range(1, min(self.max_cross, features) + 1)
        return [(), *chain.from_iterable(feature_subsets(features, cross) for cross in crosses)]

    def encode(self, table: pl.DataFrame) -> Encoded:
        """The predicates that the rows of a part meet."""
        codes = [coding.codes(table[coding.column]) for coding in self.codings]
        return Encoded(np.stack(codes), tuple(coding.predicates for coding in self.codings))


@dataclass(frozen=True, eq=False)
class Counted:
    """The rows of a part that are counted, and what each adds.

    Attributes:
        encoded: Their predicates.
        ratios: Numerators and denominators, of the baseline too where there is one.
        draws: Bootstrap draws.
    """

    encoded: Encoded
    ratios: list[Ratio]
    draws: int

    @classmethod
    def of(cls, table: pl.DataFrame, asked: Question, without: tuple[Key, ...]) -> Counted | None:
        """Those of a table that are in none of some slices; None where there are none."""
        outcome = outcome_of(table, asked)
        if outcome is None:
            return None
        encoded = asked.encode(table).take(outcome.rows)
        names = ids_of(table[asked.identifier])[outcome.rows]
        if asked.chance is not None:
            outcome = asked.chance.deal(outcome, names)
        left = unexplained(encoded, without)
        left = left[asked.in_half(names[left])]
        if left.size == 0:
            return None
        ratios = ratios_of(outcome.take(left), names[left], asked.draws, asked.seed)
        own = [one for one in ratios if one is not None]
        if any(lanes.dtype.kind == "f" for one in own for lanes in (one.above, one.below)):
            raise DataError(
                f"outcome must be 0 or 1 where metric {asked.metric!r} is counted in shards, got "
                "fractions: search them with find_slices"
            )
        return cls(encoded.take(left), own, asked.draws)

    def lanes(self, keys: Keys, cells: int) -> Ints:
        """The sums of every cell, as of `Sums`, shape (cells, W).

        Args:
            keys: Cell of each row under each of G feature subsets, shape (G, N).
            cells: Cells of all subsets together.
        """
        sums = chain.from_iterable(one.sums(Cells(keys, cells)) for one in self.ratios)
        size = count(keys, cells)[:, None]
        return np.concatenate([size, *sums], axis=1, dtype=np.int64)


def add_up(
    table: pl.DataFrame, asked: Question, without: tuple[Key, ...] = ()
) -> Iterator[tuple[int, Sums]]:
    """Sums of every feature set over one part of the table.

    Args:
        table: Some of the rows, with the columns asked for.
        asked: What is asked of every part.
        without: Slices whose rows are left out: those that earlier findings explain.

    Yields:
        Number of the feature set, as in `asked.subsets`, and its sums.

    Raises:
        DataError: Outcomes that the metric cannot take.
    """
    counted = Counted.of(table, asked, without)
    if counted is None:
        return
    everyone = np.zeros((1, counted.encoded.codes.shape[1]), np.int32)
    yield 0, Sums(np.zeros(1, np.int64), counted.lanes(everyone, 1))
    number = 0
    for cross in range(1, min(asked.max_cross, len(asked.codings)) + 1):
        for block in blocks(counted.encoded, feature_subsets(len(asked.codings), cross)):
            lanes = counted.lanes(block.keys, block.cells)
            held = np.flatnonzero(lanes[:, 0])
            subset, cell = block.locate(held)
            ends = np.searchsorted(subset, np.arange(len(block.subsets) + 1)).tolist()
            for first, last in pairwise(ends):
                number += 1
                yield number, Sums(cell[first:last], lanes[held[first:last]])


def ids_of(column: pl.Series) -> npt.NDArray[np.generic]:
    """Ids as what they are hashed as."""
    ids = column.to_numpy()
    return np.asarray(ids.astype(str) if ids.dtype.kind == "O" else ids)


def outcome_of(table: pl.DataFrame, asked: Question) -> Outcome | None:
    """The outcome of a part's rows; None where none of them counts for the metric."""
    metric = metric_named(asked.metric)
    labels = None if asked.label is None else table[asked.label].to_numpy()
    wanted = None if metric.risk == "all" else labels == (metric.risk == "positives")
    if wanted is not None and not np.any(wanted):
        return None
    baseline = table.select(asked.baseline).to_numpy() if asked.baseline else None
    model = table.select(asked.outcome).to_numpy()
    outcome = prepare(metric, model, baseline, labels, table.height, paired=asked.paired)
    single = outcome.model.members == 1 and asked.draws == 0
    if outcome.baseline is None or not single:
        return outcome
    # McNemar's test asks for the changes to either side, not for both rates.
    change = outcome.model.above - outcome.baseline.above
    up, down = (replace(outcome.model, above=np.maximum(side * change, 0.0)) for side in (1, -1))
    return replace(outcome, model=up, baseline=down)


def merge(parts: Iterable[Sums]) -> Sums:
    """The sums of several parts of the table, in whatever order they come.

    >>> one = Sums(np.array([0, 3]), np.array([[2], [5]]))
    >>> both = merge([one, Sums(np.array([1, 3]), np.array([[1], [1]]))])
    >>> both.cell.tolist(), both.lanes.ravel().tolist()
    ([0, 1, 3], [2, 1, 6])
    """
    given = list(parts)
    cell, place = np.unique(np.concatenate([one.cell for one in given]), return_inverse=True)
    lanes = np.zeros((cell.size, given[0].lanes.shape[1]), np.int64)
    for one, own in zip(given, np.split(place, np.cumsum([p.cell.size for p in given])[:-1]),
                        strict=True):  # fmt: skip
        lanes[own] += one.lanes
    return Sums(cell, lanes)
