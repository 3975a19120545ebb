"""What a slice looks like: its rows, and the metric inside and outside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Codes, Flags, Floats
from scotoma.slices.evidence.interface import Evidence
from scotoma.slices.evidence.outcomes import Outcome
from scotoma.slices.evidence.tally import Rows
from scotoma.slices.judging.auc import Ranks
from scotoma.slices.judging.ratios import linear, ratio_of
from scotoma.slices.search.greedy import Key, rows_of
from scotoma.slices.search.predicates import Encoded
from scotoma.uncertainty import (
    Estimate,
    RateEvidence,
    Variance,
    Words,
    cluster_sums,
    crossed_variance,
    of_variance,
    single_mean,
    undefined,
)

NOTHING = {"all": "examples", "negatives": "negatives", "positives": "positives"}


class Description(Protocol):
    """What describes the slices of a search, wherever their rows are."""

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
        """Which of all examples lie in a slice."""

    def size(self, key: Key) -> int:
        """Examples in a slice."""

    def at_risk(self, key: Key) -> int:
        """Those that count for the metric."""

    def inside(self, key: Key, rows: Rows | None) -> Estimate:
        """The metric of the model at hand inside a slice.

        Args:
            key: The slice.
            rows: The examples, of those that count, it is measured on; None for all.
        """

    def outside(self, key: Key, rows: Rows | None) -> Estimate:
        """The metric of the examples not in the slice; arguments as for `inside`."""

    def effect(self, key: Key, rows: Rows | None) -> Estimate:
        """The difference from what the slice is compared with; arguments as for `inside`."""

    def overall(self) -> Estimate:
        """The metric of all examples."""

    def change(self) -> Estimate:
        """The metric of all examples minus that of the baseline on them."""


@dataclass(frozen=True, eq=False)
class View:
    """All that a slice needs to describe itself when it is asked to.

    Attributes:
        encoded: The predicates of all examples.
        outcome: The outcome, on the examples that count.
        evidence: Its test, on the same.
        ids: Ids of all examples.
        level: Coverage of the intervals.
        clusters: Code of the cluster of each example that counts; None: every one is its own.
    """

    encoded: Encoded
    outcome: Outcome
    evidence: Evidence
    ids: npt.NDArray[np.generic]
    level: float
    clusters: Codes | None = None

    def mask(self, key: Key) -> Flags:
        """Which of all examples lie in a slice."""
        return rows_of(self.encoded, key)

    @property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def size(self, key: Key) -> int:
        """Examples in a slice."""
        return int(np.count_nonzero(self.mask(key)))

    def at_risk(self, key: Key) -> int:
        """Those that count for the metric."""
        return int(np.count_nonzero(self.mask(key)[self.outcome.rows]))

    def inside(self, key: Key, rows: Rows | None) -> Estimate:
        """The metric of the model at hand inside a slice; arguments as for `Description`."""
        return self._metric(self._inside(key, rows), rows)

    def outside(self, key: Key, rows: Rows | None) -> Estimate:
        """The metric of the examples not in the slice; arguments as for `Description`."""
        return self._metric(~self._inside(key, rows), rows)

    def overall(self) -> Estimate:
        """The metric of all examples."""
        return self._metric(np.ones(self.outcome.rows.size, np.bool_), None)

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

    def _inside(self, key: Key, rows: Rows | None) -> Flags:
        of_risk = self.outcome.rows if rows is None else self.outcome.rows[rows]
        return np.asarray(self.mask(key)[of_risk])

    def _metric(self, chosen: Flags, rows: Rows | None) -> Estimate:
        kind, level = self.outcome.metric.kind, self.level
        if kind == "auc":
            evidence = self.evidence if rows is None else self.evidence.take(rows)
            if isinstance(evidence, Ranks):  # AUC has no other test
                return evidence.inside(chosen, level)
        taken = chosen if rows is None else rows[chosen]
        part = self.outcome.take(taken)
        clusters = None if self.clusters is None else self.clusters[taken]
        above, members = part.model.above, part.model.members
        sizes = cluster_sums(np.ones(len(above)), clusters)
        n = sizes.size
        if kind == "ratio":
            value = ratio_of(part.model)
            if np.isnan(value):
                return undefined("undefined (nothing to divide by)", n=n, members=members)
            variance = _over_units(linear(part.model), clusters)
            return of_variance(value, variance, n=n, members=members, level=level)
        if kind == "rate":
            words = Words("event", NOTHING[self.outcome.metric.risk], "the slice")
            counted = RateEvidence.of_clusters(cluster_sums(above, clusters), sizes)
            return counted.estimate((), words, level=level)
        if clusters is None:
            return single_mean(above, level=level)
        value = float(above.mean()) if above.size else math.nan
        variance = _over_units(above - value, clusters)
        return of_variance(value, variance, n=n, members=members, level=level)


def _over_units(parts: Floats, clusters: Codes | None) -> Variance:
    """Variance of the mean of what each row adds, rows of one cluster being one unit."""
    sums = cluster_sums(parts, clusters)
    return crossed_variance(sums * (len(sums) / max(len(parts), 1)))
