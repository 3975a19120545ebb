"""How large is a slice, and what is the metric inside and outside it?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Flags
from scotoma.numbers import Estimate, undefined
from scotoma.slices.effects import estimate_change, estimate_difference, estimate_metric
from scotoma.slices.judging.auc import Ranks
from scotoma.slices.judging.evidence import Judge
from scotoma.slices.judging.tally import Rows
from scotoma.slices.outcomes import Outcome
from scotoma.slices.search.findings import Key, SliceFinding, flag_rows
from scotoma.slices.search.predicates import Encoded


class Description(Protocol):
    """Describes the slices of a search, wherever their rows are."""

    @property
    def encoded(self) -> Encoded:
        """The predicates."""

    @property
    def examples(self) -> int:
        """Number of examples."""

    @property
    def ids(self) -> npt.NDArray[np.generic]:
        """Ids of all examples."""

    def mask(self, key: Key) -> Flags:
        """Flag the examples that lie in a slice."""

    def size(self, key: Key) -> int:
        """Count the examples in a slice."""

    def at_risk(self, key: Key) -> int:
        """Count the examples in a slice that count for the metric."""

    def inside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric of the model at hand inside a slice, on the examples of its test."""

    def outside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric outside a slice, on the examples of its test."""

    def effect(self, finding: SliceFinding) -> Estimate:
        """Estimate the difference from what a slice is compared with, on the same examples."""

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

    def mask(self, key: Key) -> Flags:
        """Flag the examples that lie in a slice."""
        return flag_rows(self.encoded, key)

    @property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def size(self, key: Key) -> int:
        """Count the examples in a slice."""
        return int(np.count_nonzero(self.mask(key)))

    def at_risk(self, key: Key) -> int:
        """Count the examples in a slice that count for the metric."""
        return int(np.count_nonzero(self.mask(key)[self.outcome.rows]))

    def inside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric inside a slice, on the examples of its test."""
        rows, evidence = self._part(finding)
        return self._metric(rows, evidence, self._inside(finding.key, rows))

    def outside(self, finding: SliceFinding) -> Estimate:
        """Estimate the metric outside a slice, on the examples of its test."""
        rows, evidence = self._part(finding)
        return self._metric(rows, evidence, ~self._inside(finding.key, rows))

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        rows = np.arange(self.evidence.rows)
        return self._metric(rows, self.evidence, np.ones(rows.size, np.bool_))

    def effect(self, finding: SliceFinding) -> Estimate:
        """Estimate the difference of a slice, on the examples of its test."""
        rows, evidence = self._part(finding)
        inside = self._inside(finding.key, rows)
        if (shown := evidence.effect(inside, self.level)) is not None:
            return shown
        if self.compared:
            return estimate_change(self.outcome.take(rows[inside]), self.level)
        return estimate_difference(self.outcome.take(rows), inside, self.level)

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

    def _part(self, finding: SliceFinding) -> tuple[Rows, Judge]:
        """Return rows and evidence of the test: of a half, without what earlier slices hold."""
        rows, evidence = np.arange(self.evidence.rows), self.evidence
        if finding.half is not None:
            rows, evidence = self._halves[finding.half]
        if finding.earlier:
            remaining = ~np.any([self._inside(key, rows) for key in finding.earlier], axis=0)
            rows, evidence = rows[remaining], evidence.take(np.flatnonzero(remaining))
        return rows, evidence

    def _inside(self, key: Key, rows: Rows) -> Flags:
        return np.asarray(self.mask(key)[self.outcome.rows[rows]])

    def _metric(self, rows: Rows, evidence: Judge, chosen: Flags) -> Estimate:
        if isinstance(evidence, Ranks):  # AUC has no other test
            return evidence.inside(chosen, self.level)
        return estimate_metric(self.outcome.take(rows[chosen]), self.level)
