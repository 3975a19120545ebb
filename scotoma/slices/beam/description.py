"""How large are the slices of a search on Beam, and what is the metric inside and outside them?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.numbers import Estimate, Variance, Words, combine, flip_floor, of_variance, undefined
from scotoma.numbers.enough import FEW, FEW_EVENTS
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import Flags, Floats
from scotoma.numbers.rates import rate_estimate
from scotoma.slices.beam.part import PartRows, Query, Sums
from scotoma.slices.judging.tally import Cells, tally_lanes
from scotoma.slices.outcomes import Outcome, SliceMetric
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Key, SliceFinding, flag_rows
from scotoma.slices.view import SliceEstimates

ROUNDING = 16 * np.finfo(np.float64).eps  # of a sum of squares: what is smaller is 0
POWERS = 5  # lanes before the scatter


@dataclass(frozen=True)
class Moments:
    """Sums over rows of a score: of a population, or of two that independently scored the rows.

    Attributes:
        widths: Members of each population.
        centre: What the mean over members is centred on, which changes nothing but rounding.
    """

    widths: tuple[int, ...]
    centre: float = 0.0

    @property
    def lanes(self) -> int:
        """Numbers that are summed over rows."""
        return POWERS + len(self.widths) + sum(self.widths)

    def of(self, populations: list[Floats]) -> Floats:
        """Compute what is summed, shape (N, lanes): powers 0 to 4, scatter within rows, members.

        Of two populations the score is the first minus the second.
        """
        means = [own.mean(1) for own in populations]
        x = means[0] - (means[1] if len(means) > 1 else 0.0) - self.centre
        pairs = zip(populations, means, strict=True)
        scatter = [((own - mean[:, None]) ** 2).sum(1) for own, mean in pairs]
        return np.column_stack([x[:, None] ** np.arange(POWERS), *scatter, *populations])

    def mean(self, sums: Floats) -> float:
        """Give the mean; nan without rows."""
        return float(sums[1] / sums[0] + self.centre) if sums[0] else np.nan

    def events(self, sums: Floats) -> float:
        """Count the effective events (`n_effective`) of a rate, which is not centred."""
        return float(sums[1] ** 2 / sums[2]) if sums[2] > 0 else 0.0

    def variance(self, *parts: Floats, flips: bool = False) -> Variance:
        """Estimate the variance of the mean of some rows, or of it minus that of others."""
        counts = [float(own[0]) for own in parts]
        total, scales = sum(counts), [sum(counts) / n if n else np.nan for n in counts]
        if total < 2:
            nothing = np.zeros(())
            unknown = np.asarray(np.nan)
            return combine(unknown, unknown, total, [(nothing, nothing, k) for k in self.widths])
        central = [_central(own) for own in parts]
        second, fourth = (
            sum(scale**power * own[place] for scale, own in zip(scales, central, strict=True))
            / total
            for place, power in enumerate((2, 4))
        )
        excess = np.asarray(max(fourth / second**2 - 1, 0.0) if second else 0.0)
        examples = np.asarray(second / (total - 1))
        seen = combine(examples, excess, total, self._populations(parts, scales, total))
        return seen.floored(flip_floor(examples, excess, total)) if flips else seen

    def _populations(
        self, parts: tuple[Floats, ...], scales: list[float], total: float
    ) -> list[tuple[Floats, Floats, int]]:
        """V_mod and V_res of each population."""
        found, first = [], POWERS + len(self.widths)
        for place, k in enumerate(self.widths):
            rates = [own[first : first + k] / own[0] for own in parts]
            first += k
            if k == 1:
                found.append((np.zeros(()), np.zeros(()), k))
                continue
            difference = rates[0] - rates[1] if len(rates) > 1 else rates[0]
            within = sum(
                scale**2 * float(own[POWERS + place])
                for own, scale in zip(parts, scales, strict=True)
            )
            between = total * float(((difference - difference.mean()) ** 2).sum())
            sse = _nonzero(within - between, within)
            residual = np.asarray(sse / ((total - 1) * (k - 1) * total * k))
            found.append((member_variance(difference), residual, k))
        return found


def score_lanes(scores: tuple[Moments, ...], outcome: Outcome) -> Floats:
    """Compute what is summed of the model, the baseline and their difference, shape (N, W)."""
    populations = [[own.above] for own in outcome.populations]
    if len(scores) > 1:
        both = [own.above for own in outcome.populations]
        populations.append(both if len(scores[-1].widths) > 1 else [both[0] - both[1]])
    each = zip(scores, populations, strict=True)
    return np.concatenate([moments.of(own) for moments, own in each], axis=1)


def estimate(
    value: float, variance: Variance, n: int, members: int, events: float, level: float
) -> Estimate:
    """Estimate as `Number.estimate` does."""
    note = FEW_EVENTS if events < FEW else ""
    return of_variance(value, variance, n=n, members=members, events=events, level=level, note=note)


def _central(sums: Floats) -> tuple[float, float]:
    """Sum the second and the fourth powers about the mean."""
    n = sums[0]
    if not n:
        return 0.0, 0.0
    mean, second, third, fourth = sums[1:POWERS] / n
    spread = _nonzero(second - mean**2, second)
    moment = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    return n * spread, n * moment if spread else 0.0


def _nonzero(difference: float, of: float) -> float:
    return float(difference) if difference > ROUNDING * of else 0.0


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
        words = Words("event", self.metric.counted, "the slice")
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
