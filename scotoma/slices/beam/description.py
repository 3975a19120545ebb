"""How large are the slices of a search on Beam, and what is the metric inside and outside them?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.numbers import Estimate, Variance, Words, undefined
from scotoma.numbers.inputs import Flags, Floats
from scotoma.numbers.rates import rate_estimate
from scotoma.slices.beam.moments import Moments, estimate, score_lanes
from scotoma.slices.beam.part import PartRows, Query, Sums
from scotoma.slices.effects import NOTHING
from scotoma.slices.judging.tally import Cells, tally_lanes
from scotoma.slices.outcomes import SliceMetric
from scotoma.slices.search.findings import Key, SliceFinding, flag_rows
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.view import SliceEstimates

SIZES, SUMS = 0, 1  # numbers of the sums that a part yields


@dataclass(frozen=True, eq=False)
class Describe:
    """Adds up over one part of a table what describes some slices.

    Attributes:
        query: The search.
        slices: The slices to describe.
        scores: What they are described by: the model, the baseline and their difference.
    """

    query: Query
    slices: tuple[SliceFinding, ...]
    scores: tuple[Moments, ...]

    def __call__(self, table: pl.DataFrame) -> Iterator[tuple[int, Sums]]:
        """Add up one part."""
        encoded, last = self.query.encode(table), 3 * len(self.slices)
        part = PartRows.of(table, self.query)
        each = [int(flag_rows(encoded, one.key).sum()) for one in self.slices]
        counted = [0] * (1 + len(each))
        if part is not None:
            counted = [part.ids.size]
            keys = np.full((1 + len(each), part.ids.size), last, np.int32)
            for place, one in enumerate(self.slices):
                inside = flag_rows(part.encoded, one.key)
                counted.append(int(inside.sum()))
                measured = self.query.in_half(part.ids, one.half)
                for key in one.earlier:
                    measured = measured & ~flag_rows(part.encoded, key)
                keys[place] = 3 * place + np.where(measured, ~inside, 2)
            sums = [tally_lanes(keys, last + 1, score_lanes(self.scores, part.evidence.known))]
            sums.append(part.sums(Cells(keys, last + 1)))
            yield SUMS, Sums(np.arange(last + 1), np.concatenate(sums, axis=1))
        sizes = np.array([[table.height, *each], counted], np.float64).T
        yield SIZES, Sums(np.arange(len(sizes)), sizes)


@dataclass(frozen=True, eq=False)
class SumsView:
    """Describes the slices of a search on Beam from the sums of `Describe`.

    Attributes:
        encoded: The predicates, without rows.
        metric: The metric.
        binary: All outcomes are 0 or 1.
        compared: Slices are compared with the baseline on the same rows.
        level: Coverage of the intervals.
        describe: What was added up.
        sums: What it adds up to.
    """

    encoded: Encoded
    metric: SliceMetric
    binary: bool
    compared: bool
    level: float
    describe: Describe
    sums: dict[int, Sums]

    @cached_property
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
        size, counted = self.sums[SIZES].lanes[1 + self._places[key]].astype(int).tolist()
        return size, counted

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test."""
        cell, lane = 3 * self._places[finding.key], self.describe.query.lane
        width = sum(one.lanes for one in self._scores)
        inside, outside = self.sums[SUMS].lanes[cell : cell + 2, width:]
        own, whole = (
            Sums(np.zeros(1, np.int64), sums[None]).split(lane)
            for sums in (inside, inside + outside)
        )
        here, there = self._cell(cell), self._cell(cell + 1)
        effect = lane.effect(own, whole, self.level)
        if effect is None and self.compared:
            effect = self._change(here)
        elif effect is None:
            score = self._scores[-1]
            value = score.mean(here[-1]) - score.mean(there[-1])
            variance = score.variance(here[-1], there[-1])
            effect = self._difference(value, variance, self.metric.kind == "rate", here, there)
        return SliceEstimates(self._metric(here[0]), self._metric(there[0]), effect)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        return self._metric(self._cell(3 * len(self.describe.slices))[0])

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        every = self._cell(3 * len(self.describe.slices))
        if len(self._scores) == 1:
            n, members = int(every[0][0]), self._scores[0].widths[0]
            return undefined("undefined (no baseline)", n=n, members=members, level=self.level)
        return self._change(every)

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {one.key: place for place, one in enumerate(self.describe.slices)}

    @property
    def _scores(self) -> tuple[Moments, ...]:
        return self.describe.scores

    def _cell(self, cell: int) -> list[Floats]:
        ends = np.cumsum([one.lanes for one in self._scores])
        return np.split(np.asarray(self.sums[SUMS].lanes[cell]), ends)[:-1]

    def _metric(self, sums: Floats) -> Estimate:
        score, n = self._scores[0], int(sums[0])
        members = score.widths[0]
        value, variance = score.mean(sums), score.variance(sums)
        if self.metric.kind != "rate":
            return estimate(value, variance, n, members, np.nan, self.level)
        words = Words("event", NOTHING[self.metric.risk], "the slice")
        return rate_estimate(
            value, variance, words, n=n, members=members, events=score.events(sums),
            level=self.level,
        )  # fmt: skip

    def _change(self, sums: list[Floats]) -> Estimate:
        score = self._scores[-1]
        variance = score.variance(sums[-1], flips=self.binary)
        return self._difference(score.mean(sums[-1]), variance, self.binary, sums)

    def _difference(
        self, value: float, variance: Variance, events: bool, *sums: list[Floats]
    ) -> Estimate:
        """Estimate a difference, with the events of the population that has the fewest."""
        each = self._scores[:2]
        counts = [one.events(own[place]) for place, one in enumerate(each) for own in sums]
        members = min(one.widths[0] for one in each)
        fewest = min(counts) if events else np.nan
        return estimate(value, variance, int(sums[0][0][0]), members, fewest, self.level)
