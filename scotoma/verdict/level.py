"""One question of a gate about a level: does this number of every model stay within its limit?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.numbers import Estimate

__all__ = ["Bound", "Level", "Side"]

Side = Literal["at least", "at most"]


@dataclass(frozen=True)
class Bound:
    """A number that is held against a limit.

    Attributes:
        subject: What it is the number of: `member 7`, `the mean of 16 models`.
        estimate: The number with its interval; of a next run, where one next run will lie.
        tries: How many such numbers were looked at, or must hold: chances are multiplied with it.
        lowest: The smallest value that there can be.
        highest: The largest.
    """

    subject: str
    estimate: Estimate
    tries: int = 1
    lowest: float = -math.inf
    highest: float = math.inf

    def p_outside(self, side: Side, limit: float) -> float:
        """P-value of "the number is within": small says that it lies outside."""
        tail = self.estimate.p_below if side == "at least" else self.estimate.p_above
        return min(1.0, self.tries * tail(limit))

    def p_within(self, side: Side, limit: float) -> float:
        """P-value of "the number, or one of the tries, lies outside": small says all are within."""
        tail = self.estimate.p_above if side == "at least" else self.estimate.p_below
        return min(1.0, self.tries * tail(limit))

    def at(self, chance: float, *, jointly: bool = False) -> Estimate:
        """Give the interval whose end meets a limit where the p-value meets `chance`.

        Args:
            chance: One-sided, a fraction.
            jointly: Call it by the level at which it holds for all tries together.

        >>> one = Bound("", Estimate.on_scale(0.9, 0.02, 15.0, n=500, members=16), tries=16)
        >>> held = one.at(0.025, jointly=True)
        >>> round(held.low, 2), held.level
        (0.83, 0.95)
        """
        found = self.estimate.at(1 - 2 * chance / self.tries)
        low, high = max(found.low, self.lowest), min(found.high, self.highest)
        level = 1 - 2 * chance if jointly else found.level
        return replace(found, low=low, high=high, level=level)


@dataclass(frozen=True)
class Level:
    """A limit of a rule, and what the audit knows about the number that must keep it.

    Attributes:
        attribute: The attribute whose groups are compared.
        side: Whether the limit is the smallest or the largest acceptable value.
        limit: The limit, in the unit of the number.
        neutral: The value where both sides are treated alike.
        of: `every_member`, `mean`, or `labels` of the training examples, which are counted.
        next_runs: How many next training runs must stay within; 0 unless `of` is `every_member`.
        clearing: What a PASS needs within the limit; None where there is no such interval.
        harms: What can show that the limit is broken.
        members: Models that were measured.
        outside: The model that lies farthest outside; empty where all were measured within.
        mean: The mean over the models.
        worst: The model nearest to the limit, or farthest outside.
        dense: The mean over the dense models.
        spread: What a forecast of more models starts from; None where none can be made.
    """

    attribute: str
    side: Side
    limit: float
    neutral: float
    of: Literal["every_member", "mean", "labels"]
    next_runs: int
    clearing: Bound | None
    harms: tuple[Bound, ...]
    members: int
    outside: str = ""
    mean: Estimate | None = None
    worst: Bound | None = None
    dense: Estimate | None = None
    spread: LevelSpread | None = None

    @property
    def harm(self) -> Bound | None:
        """What speaks most of the limit being broken."""
        known = [b for b in self.harms if not math.isnan(b.p_outside(self.side, self.limit))]
        return min(known, key=lambda b: b.p_outside(self.side, self.limit), default=None)

    def harm_p(self, min_events: float) -> float:
        """P-value of "the limit is kept"; nan where too little is known to show otherwise.

        Args:
            min_events: Effective events that harm must rest on.
        """
        harm = self.harm
        if harm is None or (self.mean is not None and self.mean.events < min_events):
            return math.nan
        return harm.p_outside(self.side, self.limit)

    @property
    def clear_p(self) -> float:
        """P-value of "the limit is broken"; nan without interval."""
        if self.clearing is None or self.outside:
            return math.nan
        return self.clearing.p_within(self.side, self.limit)

    def breaks(self, value: float) -> bool:
        """Whether a value lies outside the limit."""
        return value < self.limit if self.side == "at least" else value > self.limit


@dataclass(frozen=True)
class LevelSpread:
    """What a number varies by, on the scale of its interval.

    Attributes:
        centre: The mean over the models.
        runs: Variance between training runs of one run.
        examples: Variance that the test set gives to all runs alike.
        examples_df: Degrees of freedom of that, possibly inf.
        members: Models that were measured, at least `FEWEST_RUNS`.
        single: Whether one next run is asked for, not the mean over runs.
    """

    centre: float
    runs: float
    examples: float
    examples_df: float
    members: int
    single: bool

    def at(self, members: float) -> tuple[float, float]:
        """Variance and degrees of freedom with so many models.

        >>> total, df = LevelSpread(0.9, 0.0004, 0.0, math.inf, 16, True).at(16)
        >>> round(total, 6), round(df)
        (0.000425, 15)
        """
        own = self.runs * (self.single + 1 / members)
        total = own + self.examples
        pieces = own**2 / (members - 1) + self.examples**2 / self.examples_df
        return total, total**2 / pieces if pieces > 0 else math.inf
