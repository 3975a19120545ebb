"""How large are the slices of a search on Beam, and what is the metric inside and outside them?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Estimate, Variance, of_variance, undefined
from scotoma.numbers.enough import FEW, FEW_EVENTS
from scotoma.numbers.inputs import Flags
from scotoma.numbers.rates import rate_estimate
from scotoma.slices.beam.part import CELLS, MEASURED, SIZES, Query, Sums, split_sums
from scotoma.slices.judging import tally
from scotoma.slices.judging.evidence import SliceEstimates
from scotoma.slices.judging.means import MeanLane, events_of
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Key, SliceFinding


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
    sums: dict[int, Sums]

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
            effect = self._change(here)
        elif effect is None:
            rate = self.query.question.settings.measured.kind == "rate"
            number = self.scores[-1].number(here[-1], there[-1])
            effect = self._difference(*number, rate, here, there)
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
        return self._change(every)

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

    def _change(self, sums: list[tally.Sums]) -> Estimate:
        return self._difference(
            *self.scores[-1].number(sums[-1], flips=self.binary), self.binary, sums
        )

    def _difference(
        self, value: float, variance: Variance, events: bool, *sums: list[tally.Sums]
    ) -> Estimate:
        """Estimate a difference, with the events of the population that has the fewest."""
        question = self.query.question
        members = min(len(own) for own in (question.outcome, question.baseline) if own)
        fewest = min(events_of(own) for each in sums for own in each[:2]) if events else np.nan
        note = FEW_EVENTS if fewest < FEW else ""
        return of_variance(
            value, variance, n=int(sums[0][0][0][0]), members=members, events=fewest,
            level=self._level, note=note,
        )  # fmt: skip
