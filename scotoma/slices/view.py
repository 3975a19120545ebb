"""How large is a slice, and what is the metric inside and outside it?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import Flags
from scotoma.slices.effects import estimate_change, estimate_difference, estimate_metric
from scotoma.slices.judging.auc import Ranks
from scotoma.slices.judging.choose import Judge
from scotoma.slices.judging.tally import Rows
from scotoma.slices.outcomes import Outcome
from scotoma.slices.search.findings import Key, SliceFinding, flag_rows
from scotoma.slices.search.predicates import Encoded


class SliceEstimates(NamedTuple):
    """The metric inside and outside a slice, and its difference from what it is compared with."""

    inside: Estimate
    outside: Estimate
    effect: Estimate


class Description(Protocol):
    """Describes the slices of a search, wherever their rows are."""

    @property
    def encoded(self) -> Encoded:
        """The predicates."""

    @property
    def examples(self) -> int:
        """Number of examples."""

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test."""

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""


@dataclass(frozen=True, eq=False)
class View:
    """Describes slices from the rows that this machine holds.

    Attributes:
        encoded: The predicates of all examples.
        outcome: The outcome, on the examples that count.
        evidence: Its test, on the same.
        ids: Ids of all examples.
        level: Coverage of the intervals.
        halves: The two halves of the examples that count.
        compared: Slices are compared with the baseline on the same rows.
    """

    encoded: Encoded
    outcome: Outcome
    evidence: Judge
    ids: npt.NDArray[np.generic]
    level: float
    halves: tuple[Rows, Rows]
    compared: bool

    @cached_property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""
        return flag_rows(self.encoded, key), self.ids

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""
        inside = flag_rows(self.encoded, key)
        return int(inside.sum()), int(inside[self.outcome.rows].sum())

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test.

        These are of one half, and without what earlier slices hold.
        """
        rows, evidence = np.arange(self.evidence.rows), self.evidence
        if finding.half is not None:
            rows, evidence = self._halves[finding.half]
        if finding.earlier:
            remaining = ~np.any([self._inside(key, rows) for key in finding.earlier], axis=0)
            rows, evidence = rows[remaining], evidence.take(np.flatnonzero(remaining))
        inside = self._inside(finding.key, rows)
        effect = evidence.effect(inside, self.level)
        if effect is None and self.compared:
            effect = estimate_change(self.outcome.take(rows[inside]), self.level)
        elif effect is None:
            effect = estimate_difference(self.outcome.take(rows), inside, self.level)
        own, other = (self._metric(rows, evidence, chosen) for chosen in (inside, ~inside))
        return SliceEstimates(own, other, effect)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        every = np.ones(self.evidence.rows, np.bool_)
        return self._metric(np.arange(every.size), self.evidence, every)

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        n, members = self.evidence.rows, self.outcome.model.members
        if self.outcome.baseline is None:
            return undefined("undefined (no baseline)", n=n, members=members, level=self.level)
        if isinstance(self.evidence, Ranks):
            return self.evidence.effect(np.ones(n, np.bool_), self.level)
        return estimate_change(self.outcome, self.level)

    @cached_property
    def _halves(self) -> list[tuple[Rows, Judge]]:
        return [(rows, self.evidence.take(rows)) for rows in self.halves]

    def _inside(self, key: Key, rows: Rows) -> Flags:
        return flag_rows(self.encoded, key)[self.outcome.rows[rows]]

    def _metric(self, rows: Rows, evidence: Judge, chosen: Flags) -> Estimate:
        if isinstance(evidence, Ranks):  # AUC has no other test
            return evidence.inside(chosen, self.level)
        return estimate_metric(self.outcome.take(rows[chosen]), self.level)
