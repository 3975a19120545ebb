"""What does a search ask of an outcome, and what is said of one slice of it?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import sub
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, Units
from scotoma.numbers.inputs import Codes, Flags, Floats
from scotoma.slices.judging.tally import Cells, ClusterSums, Keys, Part, Rows, Sums
from scotoma.slices.outcomes import Outcome, shuffle

Direction = Literal["higher", "lower", "both"]
MIN_EFFECTIVE_EVENTS = 10  # with fewer events or clusters, no interval holds its level


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


class CellRows(NamedTuple):
    """The rows under some cells, for what is no sum over rows: clusters and ranks.

    Attributes:
        keys: Cell of each row under each feature subset, shape (G, N).
        evidence: What is known of the rows.
    """

    keys: Keys
    evidence: Evidence


class Lane(ABC):
    """A test: what each row adds to its slice, and what follows from the sums of a slice.

    Sums may be added up anywhere and in any order. What a lane says of `rows` is asked only where
    one machine holds them.
    """

    additive = True  # False where the rows of a slice are looked at again

    @property
    def exchanges(self) -> bool:
        """Whether a slice is compared with the baseline: shuffles exchange the two populations."""
        return False

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Numbers in each of the sums."""

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs, which bounds the cells of a block."""
        return 4 * sum(self.widths)

    @abstractmethod
    def adds(self, outcome: Outcome) -> list[Part]:
        """What each row adds to each of the sums, the first of which counts rows."""

    def total(self, evidence: Evidence) -> Sums:
        """Sum what all rows add, as one cell."""
        return tuple(
            np.array([evidence.rows if rows is None else rows.size])
            if lanes is None
            else lanes.sum(0)[None]
            for rows, lanes in evidence.parts
        )

    @abstractmethod
    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows.

        Args:
            sums: Of every cell, arrays of shape (cells,) or (cells, W).
            whole: Of all rows, as one cell.
            least: Rows that a slice must hold.
            keep: P-values beyond this interest nobody.
            rows: The rows of the cells; None where only their sums are known.
        """

    def over(self, parts: list[Part]) -> Floats | None:
        """What is summed by cluster, from what each row adds; None where clusters do not count."""
        return None

    def effect(
        self, sums: Sums, whole: Sums, level: float, rows: CellRows | None = None
    ) -> Estimate | None:
        """The interval that goes with the test, of one cell; None for that of `Number`."""
        return None

    def inside(self, level: float, rows: CellRows) -> Estimate | None:
        """The metric of the rows of cell 0; None for that of `Number`."""
        return None


class SliceEstimates(NamedTuple):
    """The metric inside and outside a slice, and its difference from what it is compared with."""

    inside: Estimate
    outside: Estimate
    effect: Estimate


@dataclass(frozen=True, eq=False)
class Evidence:
    """An outcome of every row, and the lane in which slices are tested.

    Attributes:
        lane: The test.
        source: The outcome of the rows, or of more.
        at: Places of the rows in it.
        parts: What each row adds to each of the sums.
    """

    lane: Lane
    source: Outcome
    at: Rows
    parts: list[Part]

    @classmethod
    def of(cls, lane: Lane, known: Outcome, scored: Outcome | None = None) -> Evidence:
        """Prepare the test of an outcome, whose sums are perhaps those of another."""
        return cls(lane, known, np.arange(known.rows.size), lane.adds(scored or known))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.at.size

    @cached_property
    def known(self) -> Outcome:
        """The outcome of the rows."""
        return self.source.take(self.at)

    @property
    def exact(self) -> bool:
        """Whether sums of sums are the sums to the last digit: they are of whole numbers."""
        kinds = [np.intp if lanes is None else lanes.dtype for _, lanes in self.parts]
        return self.lane.additive and all(np.issubdtype(kind, np.integer) for kind in kinds)

    def judge(self, cells: Cells, least: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows and clusters, as `Lane.judge` says."""
        others = [cells.add(*part) for part in self.parts[1:]]
        counted = self._counted
        size = cells.add() if counted is None else others[counted][:, 0].astype(np.intp)
        rows = CellRows(cells.keys, self)
        judged = self.lane.judge((size, *others), self.whole, least, keep, rows)
        clusters = self.known.clusters
        if clusters is None or self.by_cluster is not None:
            return judged
        met = ClusterSums.of(cells.keys, clusters, np.ones((self.rows, 1))).cell
        enough = np.bincount(met, minlength=size.size)[judged.cell] >= MIN_EFFECTIVE_EVENTS
        cell, effect, p = judged.cell[enough], judged.effect[enough], judged.p[enough]
        return JudgedCells(size, cell, effect, p)

    def estimates(self, inside: Flags, level: float) -> SliceEstimates:
        """Estimate the metric of some rows, of all others, and the effect that was tested."""
        own, other = (self.metric(rows, level) for rows in (inside, ~inside))
        return SliceEstimates(own, other, self.effect(inside, level))

    def metric(self, inside: Flags, level: float) -> Estimate:
        """Estimate the metric of some rows."""
        estimate = self.lane.inside(level, CellRows(_alone(inside), self))
        if estimate is None:
            estimate = estimate_metric(self.known.take(inside), level)
        return estimate

    def effect(self, inside: Flags, level: float) -> Estimate:
        """Estimate the difference of some rows from what the lane compares them with."""
        cells = Cells(_alone(inside), 2)
        sums = tuple(cells.add(*part)[:1] for part in self.parts)
        estimate = self.lane.effect(sums, self.whole, level, CellRows(cells.keys, self))
        if estimate is not None:
            return estimate
        if self.lane.exchanges:
            return estimate_change(self.known.take(inside), level)
        return estimate_difference(self.known, inside, level)

    def change(self, level: float) -> Estimate:
        """Estimate the metric of all rows minus that of the baseline on them."""
        if self.lane.additive:
            return estimate_change(self.known, level)
        return self.effect(np.ones(self.rows, np.bool_), level)

    def take(self, rows: Rows) -> Evidence:
        """Keep some of the rows."""
        parts = [_taken(part, rows, self.rows) for part in self.parts]
        return Evidence(self.lane, self.source, self.at[rows], parts)

    def shuffled(self, rng: np.random.Generator) -> Evidence:
        """Shuffle the outcome, so that no slice means anything; clusters stay where they are."""
        if self.lane.exchanges:
            return Evidence.of(self.lane, self.known.shuffled(rng))
        clusters = self.known.clusters
        moved = self.take(shuffle(self.rows, clusters, rng))
        known = replace(moved.known, clusters=clusters)
        return replace(moved, source=known, at=np.arange(self.rows))

    @cached_property
    def _counted(self) -> int | None:
        """Place of a sum whose first number counts rows too: they need not be counted again."""
        for place, (rows, lanes) in enumerate(self.parts[1:]):
            if rows is None and lanes is not None and (lanes[:, 0] == 1).all():
                return place
        return None

    @cached_property
    def whole(self) -> Sums:
        """The sums of all rows, as one cell."""
        return self.lane.total(self)

    @cached_property
    def by_cluster(self) -> tuple[Codes, Floats, ClusterSums] | None:
        """The clusters, what is summed by them, and its sums; None where they do not count."""
        clusters = self.known.clusters
        values = None if clusters is None else self.lane.over(self.parts)
        if clusters is None or values is None:
            return None
        every = ClusterSums.of(np.zeros((1, self.rows), np.int64), clusters, values)
        return clusters, values, every


def _alone(inside: Flags) -> Keys:
    """The rows of one slice as cell 0, all others as cell 1."""
    return np.where(inside, 0, 1)[None]


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


def estimate_metric(outcome: Outcome, level: float) -> Estimate:
    """Estimate the metric of the model at hand on all rows of an outcome."""
    number = next(_numbers(outcome))
    if outcome.metric.kind == "rate":
        return number.rate(outcome.metric.words, level=level)
    ratio = outcome.metric.kind == "ratio"
    reason = f"undefined ({'nothing to divide by' if ratio else 'no examples'})"
    return number.estimate(reason=reason, level=level)


def estimate_change(outcome: Outcome, level: float) -> Estimate:
    """Estimate the metric minus the baseline's on the same rows, as the change of any group."""
    after, before = _numbers(outcome, flips=outcome.binary)
    return after.since(before).estimate(level=level)


def estimate_difference(outcome: Outcome, inside: Flags, level: float) -> Estimate:
    """Estimate the metric of some rows, or its change, minus that of all others.

    Its n is that of the rows inside.
    """
    here, there = (reduce(sub, _numbers(outcome, rows)) for rows in (inside, ~inside))
    return replace((here - there).estimate(level=level), n=here.n)


def _numbers(
    outcome: Outcome, inside: Flags | None = None, flips: bool | None = None
) -> Iterator[Number]:
    """Give the metric of each population, with the events of a rate, or where `flips` says so."""
    units = Units.of(outcome.rows.size, outcome.clusters)
    events = outcome.metric.kind == "rate" if flips is None else flips
    axes = (DENSE if outcome.paired else COMPRESSED, DENSE)
    for scored, axis in zip(outcome.populations, axes, strict=False):
        mean = partial(units.mean, at_risk=inside, axis=axis)
        if scored.below is None:
            yield mean(scored.above, flip=1.0 if events else None)
        else:
            yield mean(scored.above, flip=None) / mean(scored.below, flip=None)


def on_side(effect: Floats, direction: Direction) -> Flags:
    """Flag the effects that lie on the side that counts.

    >>> on_side(np.array([-0.1, 0.0, 0.2]), "both")
    array([ True, False,  True])
    """
    sides = {"higher": effect > 0, "lower": effect < 0, "both": effect != 0}
    return np.asarray(sides[direction])


def student_p(t: Floats, df: Floats, direction: Direction, keep: float, most: float) -> Floats:
    """Compute p-values of Student's t; 1 where they exceed `keep` even with `most` df.

    >>> student_p(np.array([2.0, 0.1]), np.array([9.0, 9.0]), "higher", 0.05, np.inf).round(4)
    array([0.0383, 1.    ])
    """
    p = np.ones(t.shape)
    plausible = np.abs(t) >= (stdtrit(most, 1 - keep) if keep < 0.5 else 0.0)
    p[plausible] = student_tail(t[plausible], df[plausible], direction)
    return p


def student_tail(t: Floats, df: Floats, direction: Direction) -> Floats:
    """Compute the p-value of Student's t in a direction.

    >>> student_tail(np.array([2.0]), np.array([np.inf]), "higher").round(4)
    array([0.0228])
    """
    return two_sided(stdtr(df, -t), stdtr(df, t), direction)


def two_sided(upper: Floats, lower: Floats, direction: Direction) -> Floats:
    """Choose the p-value of a direction: twice the smaller tail for both.

    >>> two_sided(np.array([0.01]), np.array([0.995]), "both")
    array([0.02])
    """
    if direction == "higher":
        return upper
    return lower if direction == "lower" else np.minimum(2.0 * np.minimum(upper, lower), 1.0)
