"""What a slice looks like: its rows, and the metric inside and outside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.slices.cover import Key, rows_of
from scotoma.slices.evidence import Evidence, Flags, Rows
from scotoma.slices.judging import linear, ratio_of
from scotoma.slices.outcomes import Outcome
from scotoma.slices.predicates import Encoded
from scotoma.slices.ranks import Ranks
from scotoma.uncertainty import (
    Estimate,
    RateEvidence,
    Words,
    crossed_variance,
    of_variance,
    single_mean,
    undefined,
)

NOTHING = {"all": "examples", "negatives": "negatives", "positives": "positives"}


@dataclass(frozen=True, eq=False)
class View:
    """All that a slice needs to describe itself when it is asked to.

    Attributes:
        encoded: The predicates of all examples.
        outcome: The outcome, on the examples that count.
        evidence: Its test, on the same.
        ids: Ids of all examples.
        level: Coverage of the intervals.
    """

    encoded: Encoded
    outcome: Outcome
    evidence: Evidence
    ids: npt.NDArray[np.generic]
    level: float

    def mask(self, key: Key) -> Flags:
        """Which of all examples lie in a slice."""
        return rows_of(self.encoded, key)

    def single(self, key: Key | None, rows: Rows | None, *, outside: bool = False) -> Estimate:
        """The metric of the model at hand inside a slice, outside it, or of all examples.

        Args:
            key: The slice; None for all examples.
            rows: The examples, of those that count, it is measured on; None for all.
            outside: The metric of the examples not in the slice.
        """
        inside = self._inside(key, rows)
        return self._metric(~inside if outside else inside, rows)

    def effect(self, key: Key, rows: Rows | None) -> Estimate:
        """The slice's difference from what it is compared with, with its interval."""
        evidence = self.evidence if rows is None else self.evidence.take(rows)
        return evidence.effect(self._inside(key, rows), self.level)

    def change(self) -> Estimate:
        """The metric of all examples minus that of the baseline on them."""
        n, members = self.evidence.rows, self.outcome.model.members
        if self.outcome.baseline is None:
            return undefined("undefined (no baseline)", n=n, members=members, level=self.level)
        return self.evidence.effect(np.ones(n, np.bool_), self.level)

    def _inside(self, key: Key | None, rows: Rows | None) -> Flags:
        of_risk = self.outcome.rows if rows is None else self.outcome.rows[rows]
        if key is None:
            return np.ones(of_risk.size, np.bool_)
        return np.asarray(self.mask(key)[of_risk])

    def _metric(self, chosen: Flags, rows: Rows | None) -> Estimate:
        kind, level = self.outcome.metric.kind, self.level
        if kind == "auc":
            evidence = self.evidence if rows is None else self.evidence.take(rows)
            if isinstance(evidence, Ranks):  # AUC has no other test
                return evidence.inside(chosen, level)
        part = self.outcome.take(chosen if rows is None else rows[chosen])
        n, members = len(part.model.above), part.model.members
        if kind == "ratio":
            value = ratio_of(part.model)
            if np.isnan(value):
                return undefined("undefined (nothing to divide by)", n=n, members=members)
            variance = crossed_variance(linear(part.model))
            return of_variance(value, variance, n=n, members=members, level=level)
        if kind == "rate":
            at_risk = np.ones(n, np.int64)
            words = Words("event", NOTHING[self.outcome.metric.risk], "the slice")
            return RateEvidence.of_clusters(part.model.above, at_risk).estimate(
                (), words, level=level
            )
        return single_mean(part.model.above, level=level)
