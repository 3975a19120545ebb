"""Rates and their change between two populations, and when they cannot be estimated.

`numbers.enough` says what is a floor, what are events, and how many are too few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scotoma.inputs import Floats, Ints
from scotoma.numbers.crossed import Variance, of_variance
from scotoma.numbers.enough import FEW, FEW_EVENTS, FEWEST
from scotoma.numbers.estimate import Estimate, few_runs, none_seen, undefined
from scotoma.numbers.tally import Tally

Index = tuple[int, ...]
UNKNOWN_VARIANCE = Variance(math.nan, math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Words:
    """Words for the reason why a rate cannot be estimated.

    Attributes:
        event: What is counted, singular: "false positive".
        at_risk: The examples it is counted among, after a number: "negatives".
        where: The population, after "in": "group 'men'".
    """

    event: str
    at_risk: str
    where: str

    @property
    def nobody(self) -> str:
        """Why a rate is undefined that nobody is at risk of."""
        return f"undefined (no {self.at_risk} in {self.where})"


@dataclass(frozen=True)
class RateEvidence:
    """Evidence on one rate of one population; arrays of one shape.

    Attributes:
        rows: Examples at risk.
        n: The same in clusters, where every row is its own without any.
        members: Members of the population.
        value: The mean rate; nan without examples.
        effective_events: Those of the rate (`n_effective`).
        variance: Its variance.
    """

    rows: Ints
    n: Ints
    members: int
    value: Floats
    effective_events: Floats
    variance: Variance

    @classmethod
    def of_tally(cls, moments: Tally) -> RateEvidence:
        """The evidence on the dense members in additive moments.

        >>> float(RateEvidence.of_tally(Tally.of([[1, 0], [1, 1]])).value)
        0.75
        """
        return cls(
            rows=moments.rows,
            n=moments.n,
            members=moments.dense.shape[-1],
            value=moments.rates()[0],
            effective_events=moments.effective_events()[0],
            variance=moments.variance(1.0, None),
        )

    def estimate(self, index: Index, words: Words, *, level: float = 0.95) -> Estimate:
        """The rate at one place, its interval on the logit scale.

        Args:
            index: Place in the arrays.
            words: For the reason of a missing value.
            level: Coverage, a fraction in (0, 1).

        Returns:
            The rate; undefined without examples at risk, within 3/n of 0 or 1 where no example
            or every example has the event.

        >>> alone = RateEvidence.of_tally(Tally.of([[0, 0]] * 150))
        >>> alone.estimate((), Words("error", "examples", "group 'men'")).high
        0.02
        """
        return rate_estimate(
            float(self.value[index]), self.variance.at(index), words, n=int(self.n[index]),
            members=self.members, events=float(self.effective_events[index]), level=level,
        )  # fmt: skip


@dataclass(frozen=True)
class ChangeEvidence:
    """Evidence on one rate in two populations; arrays of one shape.

    Attributes:
        dense: The rate of the dense members.
        compressed: The rate of the compressed members.
        difference: Variance of the compressed rate minus the dense rate.
        log_ratio: Variance of log(compressed rate / dense rate); nan where either is 0.
    """

    dense: RateEvidence
    compressed: RateEvidence
    difference: Variance
    log_ratio: Variance

    @classmethod
    def of_tally(cls, moments: Tally) -> ChangeEvidence:
        """The evidence in additive moments.

        >>> float(ChangeEvidence.of_tally(Tally.of([[1, 0], [1, 1]], [[1], [0]])).dense.value)
        0.75
        """
        dense, compressed = moments.rates()
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = moments.variance(1 / dense, 1 / compressed)
        return cls(
            dense=RateEvidence.of_tally(moments),
            compressed=RateEvidence.of_tally(moments.compressed_only()),
            difference=moments.variance(),
            log_ratio=log_ratio,
        )

    def absolute(self, index: Index, words: Words, *, level: float = 0.95) -> Estimate:
        """Compressed rate minus dense rate at one place.

        Args:
            index: Place in the arrays.
            words: For the reason of a missing value.
            level: Coverage, a fraction in (0, 1).

        Returns:
            The difference; undefined without examples at risk, without interval with one. Where no
            example differs, the interval is that of the variance floor (`flip_floor`).

        >>> evidence = ChangeEvidence.of_tally(Tally.of([[0]] * 388, [[0]] * 388))
        >>> round(evidence.absolute((), Words("error", "examples", "group 'men'")).high, 4)
        0.01
        """
        common = self._common(index, level)
        if common.n == 0:
            return common.undefined(words.nobody)
        value = float(self.compressed.value[index] - self.dense.value[index])
        return common.interval(value, self.difference.at(index), "identity")

    def relative(self, index: Index, words: Words, *, level: float = 0.95) -> Estimate:
        """100 (compressed rate / dense rate - 1) at one place, its interval on the log scale.

        Args:
            index: Place in the arrays.
            words: For the reason of a missing value.
            level: Coverage, a fraction in (0, 1).

        Returns:
            The change in per cent; nan without examples at risk, without an event in one
            population, or fewer than 5 effective events.

        >>> evidence = ChangeEvidence.of_tally(Tally.of([[1]] + [[0]] * 169, [[0]] * 170))
        >>> evidence.relative((), Words("error", "examples", "group 'men'")).reason
        'relative change not estimable (no error among 170 examples)'
        """
        common = self._common(index, level)
        dense, compressed = float(self.dense.value[index]), float(self.compressed.value[index])
        if common.n == 0:
            return common.undefined(words.nobody)
        if common.effective_events < FEWEST:
            rows = int(self.dense.rows[index])
            return common.undefined(relative_reason(common.effective_events, rows, words))
        value = 100.0 * (compressed - dense) / dense
        return common.interval(value, self.log_ratio.at(index), "log")

    def _common(self, index: Index, level: float) -> _Common:
        events = min(self.dense.effective_events[index], self.compressed.effective_events[index])
        members = min(self.dense.members, self.compressed.members)
        return _Common(int(self.dense.n[index]), members, float(events), level)


def relative_reason(events: float, rows: int, words: Words) -> str:
    """Say why a rate of fewer than 5 effective events has no ratio.

    >>> relative_reason(4.2, 900, Words("error", "examples", "group 'men'"))
    'relative change not estimable (4 effective events, 5 are needed)'
    """
    cause = f"no {words.event} among {rows:,} {words.at_risk}"
    if events:
        whole = int(events)
        cause = f"{whole} effective event{'s' if whole > 1 else ''}, {FEWEST} are needed"
    return f"relative change not estimable ({cause})"


def rate_estimate(
    value: float,
    variance: Variance | None,
    words: Words | str,
    *,
    n: int,
    members: int,
    events: float,
    level: float,
    note: str = "",
) -> Estimate:
    """One rate with its interval on the logit scale; `RateEvidence.estimate` says what it gives."""
    common = _Common(n, members, events, level, note)
    if n == 0 or variance is None:
        return common.undefined(words if isinstance(words, str) else words.nobody)
    if variance.total == 0 or value in (0.0, 1.0):
        return common.none_seen(value)
    return common.interval(value, variance.scaled(1 / (value * (1 - value))), "logit")


@dataclass(frozen=True)
class _Common:
    """Facts that all estimates at one place share."""

    n: int
    members: int
    effective_events: float
    level: float
    note: str = ""

    def interval(
        self, value: float, variance: Variance, scale: Literal["identity", "logit", "log"]
    ) -> Estimate:
        return of_variance(
            value, variance, n=self.n, members=self.members, events=self.effective_events,
            level=self.level, scale=scale, note=self._note(),
        )  # fmt: skip

    def none_seen(self, value: float) -> Estimate:
        return none_seen(
            value, n=self.n, members=self.members, lowest=0.0, highest=1.0, level=self.level,
            note=self._note(few_runs(self.members)), events=self.effective_events,
        )  # fmt: skip

    def undefined(self, reason: str) -> Estimate:
        return undefined(
            reason, n=self.n, members=self.members, events=self.effective_events, level=self.level,
            note=self._note(few_runs(self.members)) if self.n else "",
        )  # fmt: skip

    def _note(self, *more: str) -> str:
        few = FEW_EVENTS if self.effective_events < FEW else ""
        return "; ".join(filter(None, [self.note, few, *more]))
