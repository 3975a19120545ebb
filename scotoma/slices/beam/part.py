"""What are the outcomes and the sums of every slice over one part of a table?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import as_numbers, convert
from scotoma.errors import DataError
from scotoma.numbers import Estimate, of_variance, undefined
from scotoma.numbers.enough import FEW, FEW_EVENTS
from scotoma.numbers.inputs import Flags, Floats
from scotoma.numbers.rates import rate_estimate
from scotoma.printable import printable
from scotoma.slices.hashing import hash_ids
from scotoma.slices.judging import tally
from scotoma.slices.judging.bootstrap import BootstrapLane, row_draws
from scotoma.slices.judging.evidence import Lane, SliceEstimates
from scotoma.slices.judging.means import MeanLane, events_of, faces
from scotoma.slices.judging.tally import Cells, Part
from scotoma.slices.outcomes import Outcome, prepare_outcome
from scotoma.slices.search.lattice import Subset, blocks, feature_subsets
from scotoma.slices.search.predicates import Coding, Encoded
from scotoma.slices.search.strategies import Proposals
from scotoma.slices.search.sweep import Key, SliceFinding, flag_rows, unexplained
from scotoma.slices.table import SlicesQuestion, Values


@dataclass(frozen=True, eq=False)
class SumsView:
    """Describes the slices of a search on Beam from the sums of `add_up_description`.

    Attributes:
        encoded: The predicates, without rows.
        query: The search.
        binary: All outcomes are 0 or 1.
        scores: The lanes of the model, of the baseline and of the change.
        places: Place of each slice.
        sums: What was added up.
    """

    encoded: Encoded
    query: Query
    binary: bool
    scores: tuple[MeanLane, ...]
    places: dict[Key, int]
    sums: dict[Subset, Sums]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.sums[SIZES].lanes[0, 0])

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Refuse: the rows stay in the table."""
        raise DataError(
            "the rows of a slice are not gathered from a table on Beam: filter the table by the "
            "slice's conditions"
        )

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""
        place = self.places[key]
        counted = self.sums[MEASURED].lanes[CELLS * place : CELLS * place + 3 : 2, 0].sum()
        return int(self.sums[SIZES].lanes[1 + place, 0]), int(counted)

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test."""
        cell, lane = CELLS * self.places[finding.key], self.query.lane
        (own, *here), (other, *there) = self._cell(cell), self._cell(cell + 1)
        whole = tuple(a + b for a, b in zip(own, other, strict=True))
        effect = lane.effect(own, whole, self._level)
        if effect is None and lane.exchanges:
            effect = self._contrast(here, events=self.binary, flips=self.binary)
        elif effect is None:
            rate = self.query.question.settings.measured.kind == "rate"
            effect = self._contrast(here, there, events=rate)
        return SliceEstimates(self._metric(here[0]), self._metric(there[0]), effect)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        return self._metric(self._cell(-1)[1])

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        _, *every = self._cell(-1)
        if len(every) == 1:
            n, members = int(every[0][0][0]), len(self.query.question.outcome)
            return undefined("undefined (no baseline)", n=n, members=members, level=self._level)
        return self._contrast(every, events=self.binary, flips=self.binary)

    @property
    def _level(self) -> float:
        return self.query.question.settings.level

    def _cell(self, cell: int) -> list[tally.Sums]:
        """The sums of one cell, of the lane that tests and of the scores."""
        return split_sums(self.sums[MEASURED].lanes[cell][None], self.query.lane, *self.scores)

    def _metric(self, sums: tally.Sums) -> Estimate:
        metric, level = self.query.question.settings.measured, self._level
        value, variance = self.scores[0].number(sums)
        n, members = int(sums[0][0]), len(self.query.question.outcome)
        if metric.kind != "rate":
            return of_variance(value, variance, n=n, members=members, level=level)
        return rate_estimate(
            value, variance, metric.words, n=n, members=members, events=events_of(sums), level=level
        )

    def _contrast(self, *cells: list[tally.Sums], events: bool, flips: bool = False) -> Estimate:
        """Estimate the change, or one side's minus the other's, with the fewest events of any."""
        question = self.query.question
        value, variance = self.scores[-1].number(*(own[-1] for own in cells), flips=flips)
        members = min(len(own) for own in (question.outcome, question.baseline) if own)
        fewest = min(events_of(one) for own in cells for one in own[:2]) if events else np.nan
        note = FEW_EVENTS if fewest < FEW else ""
        return of_variance(
            value, variance, n=int(cells[0][0][0][0]), members=members, events=fewest,
            level=self._level, note=note,
        )  # fmt: skip


def read_outcome(table: pl.DataFrame, question: SlicesQuestion) -> Outcome:
    """Read the outcome of those of a part's rows that count for the metric.

    >>> question = SlicesQuestion(outcome=("int8",), label="y", identifier="id")
    >>> table = pl.DataFrame({"int8": ["a", "b"], "y": ["a", "a"]})
    >>> read_outcome(table, question).model.above.ravel().tolist()
    [0.0, 1.0]
    """
    metric = question.settings.measured
    labels = None if question.label is None else _texts(table[question.label])
    read = _numbers if labels is None else _texts
    model, baseline = (
        np.stack([read(table[name]) for name in names], axis=1) if names else np.empty(0, object)
        for names in (question.outcome, question.baseline)
    )
    if labels is not None and metric.labels == "needed":
        one, other = question.positive, set(labels.tolist()) - {"0", "1"}
        if one is None and other:
            raise DataError(
                f"metric {metric.name!r} needs labels 0 and 1, got {printable(min(other))!r}: name "
                "the label that is 1 with positive="
            )
        labels, model, baseline = (
            np.equal(own, one or "1").astype(np.int64) for own in (labels, model, baseline)
        )
    return prepare_outcome(
        metric, model, baseline if question.baseline else None, labels, table.height,
        paired=question.settings.paired,
    )  # fmt: skip


def ids_of_part(ids: pl.Series, integers: bool) -> Values:
    """Read the ids of a part's rows, integers or strings; `integers` where text is integers."""
    if integers and not ids.dtype.is_integer():
        ids = ids.cast(pl.String).str.strip_chars().cast(pl.Int64)
    if not ids.dtype.is_integer():
        return np.asarray(_texts(ids).astype(str))
    if ids.null_count():
        raise _empty(ids)
    return ids.to_numpy()


def _texts(column: pl.Series) -> Values:
    text = column.cast(pl.String)
    if text.null_count() or (text.str.to_lowercase() == "nan").any():
        raise _empty(column)
    return np.asarray(text.to_numpy(), object)


def _numbers(column: pl.Series) -> Values:
    text = column.dtype == pl.String
    numbers = as_numbers(column, truths=True) if text else column.cast(pl.Float64, strict=False)
    if numbers.null_count():
        raise _empty(column)
    return numbers.to_numpy()


def _empty(column: pl.Series) -> DataError:
    return DataError(
        f"column {printable(column.name)!r} must hold a value in every row, got an empty one or "
        "one of another kind: fill or remove these rows"
    )


@dataclass(frozen=True, eq=False)
class Sums:
    """The slices of one set of features: numbers that may be added in any order.

    Attributes:
        cell: The cells that hold rows, ascending, shape (M,).
        lanes: Their sums, shape (M, W), the first the rows. Counts are exact up to 2^53.
    """

    cell: npt.NDArray[np.int64]
    lanes: Floats


def split_sums(lanes: Floats, *of: Lane) -> list[tally.Sums]:
    """Give the sums that each of some lanes judges, of lanes that stand side by side.

    >>> from scotoma.slices.judging.rates import RateLane
    >>> split_sums(np.array([[5.0, 2.0]]), RateLane("higher"))
    [(array([5]), array([2]))]
    """
    first, split = 0, list[tally.Sums]()
    for lane in of:
        parts = np.split(lanes[:, first:], np.cumsum(lane.widths), axis=1)
        first += sum(lane.widths)
        pairs = zip(parts, lane.widths, strict=False)
        split.append(tuple(own[:, 0].astype(np.intp) if w == 1 else own for own, w in pairs))
    return split


NamedSums = tuple[Subset, Sums]


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of every part of the table.

    A row cannot change places with a row of another part of the table. Outcomes are therefore
    shuffled by what depends on (seed, number of the shuffle, example id) alone.

    Attributes:
        question: The columns, and the settings of the search.
        codings: The features that define slices.
        lane: The test whose sums are needed.
        integer_ids: Whether ids that are text are integers.
        middle: The largest hash of an id in the first half of the examples.
        half: The half that is counted, 0 or 1; None for all examples.
        shuffle: Number of the shuffle of the outcomes; None for what they are.
        pool: Outcomes of a sample of the rows that count; None against a baseline.
    """

    question: SlicesQuestion
    codings: tuple[Coding, ...]
    lane: Lane
    integer_ids: bool = False
    middle: int = 0
    half: int | None = None
    shuffle: int | None = None
    pool: Outcome | None = None

    @property
    def reads(self) -> list[str]:
        """Names of the columns that are read."""
        features = [coding.column for coding in self.codings]
        return list(dict.fromkeys([*features, *self.question.asked_of_rows]))

    def encode(self, table: pl.DataFrame) -> Encoded:
        """Encode the rows of a part."""
        codes = [
            coding.codes(convert(table[coding.column], coding.kind)) for coding in self.codings
        ]
        return Encoded(np.stack(codes), tuple(coding.predicates for coding in self.codings))

    def in_half(self, ids: Values, half: int | None) -> Flags:
        """Flag the ids that lie in a half; all of them where it is None."""
        if half is None or ids.size == 0:
            return np.ones(ids.size, np.bool_)
        second = hash_ids(ids, self.question.settings.seed) > np.uint64(self.middle)
        return np.asarray(second == bool(half))

    def dealt(self, outcome: Outcome, ids: Values) -> Outcome:
        """Shuffle the outcomes of some rows, where the query says so.

        Against a baseline the two populations change places on a random half of the examples, or
        all members are dealt out anew where they are not equally many. Otherwise every row draws
        the outcome of one row of the pool.
        """
        if self.shuffle is None:
            return outcome
        seed = self.question.settings.seed
        drawn = hash_ids(ids, seed + 1 + self.shuffle)
        if self.pool is not None:
            pool = self.pool.take((drawn % np.uint64(len(self.pool.rows))).astype(np.intp))
            return outcome.having(pool.populations)
        model, baseline = (own.members for own in outcome.populations)
        if model == baseline:
            return outcome.exchanged((drawn >> np.uint64(63)).astype(np.bool_))
        order = np.random.default_rng([seed % 2**63, 3, self.shuffle])
        return outcome.dealt(order.permutation(model + baseline))


@dataclass(frozen=True, eq=False)
class PartRows:
    """The rows of a part of the table that count.

    Attributes:
        encoded: Their predicates.
        ids: Ids of the examples.
        outcome: Their outcome.
        parts: What each row adds to the sums of the lane.
    """

    encoded: Encoded
    ids: Values
    outcome: Outcome
    parts: list[Part]

    @classmethod
    def of(
        cls, table: pl.DataFrame, query: Query, without: tuple[Key, ...] = ()
    ) -> PartRows | None:
        """Keep the rows of a table that count and lie in none of some slices; None without any."""
        outcome = read_outcome(table, query.question)
        encoded = query.encode(table).take(outcome.rows)
        column = table[str(query.question.identifier)]
        ids = ids_of_part(column, query.integer_ids)[outcome.rows]
        outcome = query.dealt(outcome, ids)
        rows = unexplained(encoded, without)
        rows = rows[query.in_half(ids[rows], query.half)]
        if rows.size == 0:
            return None
        outcome, ids = outcome.take(rows), ids[rows]
        if isinstance(query.lane, BootstrapLane):
            weights = row_draws(ids, query.lane.draws, query.question.settings.seed)
            outcome = replace(outcome, weights=weights)
        return cls(encoded.take(rows), ids, outcome, query.lane.adds(outcome))

    def inside(self, keys: Iterable[Key]) -> Flags:
        """Flag the rows that lie in each slice, shape (M, N)."""
        flags = [flag_rows(self.encoded, key) for key in keys]
        return np.array(flags, np.bool_).reshape(len(flags), self.ids.size)


def _summed(cells: Cells, parts: Iterable[Part]) -> Floats:
    """Sum what rows add in every cell, shape (cells, W), the first the rows."""
    return np.column_stack([cells.add(*part) for part in parts]).astype(np.float64)


def add_up(table: pl.DataFrame, query: Query, without: tuple[Key, ...] = ()) -> Iterator[NamedSums]:
    """Sum over one part of the table for every feature set; for the empty one over all rows."""
    part = PartRows.of(table, query, without)
    if part is None:
        return
    whole = _summed(Cells(np.zeros((1, part.ids.size), np.int32), 1), part.parts)
    yield (), Sums(np.zeros(1, np.int64), whole)
    features = len(query.codings)
    for cross in range(1, min(query.question.settings.max_cross, features) + 1):
        for block in blocks(part.encoded, feature_subsets(features, cross)):
            lanes = _summed(block, part.parts)
            occupied = np.flatnonzero(lanes[:, 0])
            subset, cell = block.locate(occupied)
            ends = np.searchsorted(subset, np.arange(len(block.subsets) + 1)).tolist()
            for own, (first, last) in zip(block.subsets, pairwise(ends), strict=True):
                yield own, Sums(cell[first:last], lanes[occupied[first:last]])


OVERLAPS = (2,)  # names the sums that say which proposals share rows


def add_up_proposals(
    table: pl.DataFrame, query: Query, proposals: Proposals
) -> Iterator[NamedSums]:
    """Sum over one part of the table what tests the proposals of both halves on the other one.

    A row counts for the first proposal that holds it; the last cell has the rows in none.
    """
    for half, keys in enumerate(proposals):
        part = PartRows.of(table, replace(query, half=1 - half))
        if part is not None:
            none = np.ones((1, part.ids.size), np.bool_)
            first = np.concatenate([part.inside(keys), none]).argmax(0)[None]
            lanes = _summed(Cells(first, len(keys) + 1), part.parts)
            yield (half,), Sums(np.arange(len(keys) + 1), lanes)
    everyone = PartRows.of(table, query)
    if everyone is not None:
        inside = everyone.inside(chain(*proposals))
        masks = (inside * (1 << np.arange(len(inside)))[:, None]).sum(0)
        mask, rows = np.unique(masks, return_counts=True)
        yield OVERLAPS, Sums(mask, rows[:, None].astype(np.float64))


SIZES, MEASURED = (0,), (1,)  # name the sums that describe slices
CELLS = 4  # of a slice: measured inside and outside, and its other rows that count


def add_up_description(
    table: pl.DataFrame,
    query: Query,
    slices: tuple[SliceFinding, ...],
    scores: tuple[MeanLane, ...],
) -> Iterator[NamedSums]:
    """Sum over one part of the table what describes some slices: sizes, then outcomes."""
    encoded = query.encode(table)
    sizes = [table.height, *(np.count_nonzero(flag_rows(encoded, one.key)) for one in slices)]
    yield SIZES, Sums(np.arange(len(sizes)), np.array(sizes, np.float64)[:, None])
    part = PartRows.of(table, query)
    if part is None:
        return
    last = CELLS * len(slices)
    keys = np.full((1 + len(slices), part.ids.size), last, np.int32)
    for place, one in enumerate(slices):
        measured = query.in_half(part.ids, one.half) & ~part.inside(one.earlier).any(0)
        (inside,) = part.inside([one.key])
        keys[place] = CELLS * place + 2 * ~measured + ~inside
    described = zip(scores, faces(part.outcome), strict=True)
    parts = [*part.parts, *chain.from_iterable(lane.adds(face) for lane, face in described)]
    yield MEASURED, Sums(np.arange(last + 1), _summed(Cells(keys, last + 1), parts))


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
