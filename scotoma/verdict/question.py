"""One question of a gate: did this number of this variant leave its bounds?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from scotoma.audit.groups import RATE_NAMES
from scotoma.numbers import Estimate, Variance
from scotoma.verdict.evidence import Rise

__all__ = ["Bound", "Kind", "Level", "LevelSpread", "Question", "Side"]

Kind = Literal["relative", "absolute", "score", "level"]
Side = Literal["at least", "at most"]


@dataclass(frozen=True)
class Bound:
    """A number that is held against a margin or a limit.

    Attributes:
        kind: `relative`, `absolute`, `score` (a difference in the unit of a score), or `level`: the
            number itself.
        estimate: The number with its interval; of a next run, where one next run will lie.
        limit: The margin or limit, in the unit of the estimate: per cent, or a fraction.
        side: Whether it is the smallest or the largest acceptable value.
        variance: Of a change, on the scale of its interval; None where its parts are not known.
        subject: Of a level, whose number it is: `member 7`, `the mean of 16 models`; else empty.
        tries: How many such numbers were looked at, or must hold: chances are multiplied with it.
        lowest: The smallest value that there can be.
        highest: The largest.
    """

    kind: Kind
    estimate: Estimate
    limit: float
    side: Side = "at most"
    variance: Variance | None = None
    subject: str = ""
    tries: int = 1
    lowest: float = -math.inf
    highest: float = math.inf

    @property
    def p_outside(self) -> float:
        """P-value of "the number is within": small says that it lies outside."""
        return self._times("p_below" if self.side == "at least" else "p_above")

    @property
    def p_within(self) -> float:
        """P-value of "the number, or one of the tries, lies outside": small says all are within."""
        return self._times("p_above" if self.side == "at least" else "p_below")

    @property
    def broken(self) -> bool:
        """Whether the number itself lies outside."""
        value = self.estimate.value
        return value < self.limit if self.side == "at least" else value > self.limit

    def at(self, chance: float, *, jointly: bool = False) -> Estimate:
        """Give the interval whose end meets the limit where the p-value meets `chance`.

        Args:
            chance: One-sided, a fraction.
            jointly: Call it by the level at which it holds for all tries together.

        >>> mean = Estimate.on_scale(0.9, 0.02, 15.0, n=500, members=16)
        >>> held = Bound("level", mean, 0.8, "at least", tries=16).at(0.025, jointly=True)
        >>> round(held.low, 2), held.level
        (0.83, 0.95)
        """
        # Bounds where nothing was seen hold one side at their level, t intervals each side at half.
        sides = 1 if self.estimate.scale == "rule of three" else 2
        one = self.estimate.at(1 - sides * chance / self.tries)
        if self.kind != "level":
            return one
        level = 1 - sides * chance if jointly else one.level
        low, high = max(one.low, self.lowest), min(one.high, self.highest)
        return replace(one, low=low, high=high, level=level)

    def _times(self, tail: Literal["p_above", "p_below"]) -> float:
        p: float = self.tries * getattr(self.estimate, tail)(self.limit)
        return min(p, 1.0)  # in this order nan stays nan


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


@dataclass(frozen=True)
class Question:
    """Did this number of this variant rise beyond its margins, or leave its limit?

    Attributes:
        rule: Id of the rule that asks.
        metric: Its metric.
        group: Key of the group; `all` for all examples.
        class_name: The class, where the number is one class's; else None.
        where: Which number, in words: "FPR male & old".
        relative: Margin on compressed / dense - 1, a fraction; None for no such margin.
        absolute: Margin on the difference, a fraction, of scores in their unit; None for no such
            margin.
        change: The evidence; None where the audit holds none, and for levels.
        reason: Why it holds none, as a sentence to print; else empty.
        clearing: Largest difference, a fraction, that a PASS has to rule out: the absolute margin,
            or the sampling margin where that is wider. Known before compression.
        not_judged: Why a PASS does not need it, as a sentence to print; else empty. Harm is looked
            for all the same.
        too_small: Whether it is the size of the test set that keeps it from being judged.
        level: The limit and the evidence, where a level is asked for instead of a rise.
    """

    rule: str
    metric: str
    group: str
    class_name: str | None
    where: str
    relative: float | None
    absolute: float | None
    change: Rise | None
    reason: str = ""
    clearing: float | None = None
    not_judged: str = ""
    too_small: bool = False
    level: Level | None = None

    @property
    def unit(self) -> Literal["absolute", "score"]:
        """Which kind a difference is: of fractions, or in the unit of a score."""
        return "score" if self.metric == "mean_score" else "absolute"

    @property
    def number(self) -> Estimate | None:
        """The number asked about: the change, or the mean of a level."""
        if self.level is not None:
            return self.level.mean
        return None if self.change is None else self.change.absolute

    @property
    def members(self) -> int | None:
        """Models that it rests on; None where it rests on none."""
        if self.level is not None:
            return None if self.level.of == "labels" else self.level.members
        return None if self.change is None else self.change.absolute.members

    @property
    def margins(self) -> list[Bound]:
        """List each margin of the rule; harm exceeds them all.

        >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
        >>> question = Question("cie", "cie_share_excess", "all", None, "CIE excess", None, 0.01,
        ...                     Rise(change))
        >>> [(one.kind, one.limit) for one in question.margins]
        [('absolute', 0.01)]
        """
        ratio = [] if self.relative is None else self._ratio(self.relative)
        return ratio + ([] if self.absolute is None else self._rise(self.absolute))

    @property
    def events(self) -> float:
        """Effective events that harm rests on."""
        return math.nan if self.change is None else self.change.events

    def harm_margins(self, min_events: float) -> list[Bound]:
        """List the margins that harm exceeds, all of them.

        A rate that hardly occurs in the dense models has no ratio to judge. The rise in points
        then has to exceed the absolute margin, and the relative one of the highest rate that the
        dense models may have on another test set.

        Args:
            min_events: Effective events that a rate must have to be divided by.

        >>> rate = Estimate.on_scale(0.01, 0.005, 9.0, n=400, members=1, events=4.0, scale="logit")
        >>> rise = Estimate.on_scale(0.08, 0.015, 9.0, n=400, members=1, events=4.0)
        >>> change = Rise(rise, relative=rise, dense=rate, compressed=rate)
        >>> question = Question("e", "error", "all", None, "error", 0.2, 0.005, change)
        >>> [(one.kind, one.limit) for one in question.harm_margins(10)]
        [('absolute', 0.005)]
        """
        change = self.change
        if change is None or self.relative is None or change.dense is None:
            return self.margins
        dense, relative = change.dense, change.relative
        if dense.events >= min_events and relative and not math.isnan(relative.low):
            return self.margins
        if self.metric not in RATE_NAMES or math.isnan(dense.high):
            return self.margins
        return self._rise(max(self.relative * _highest(dense), self.absolute or 0.0))

    def harm_p(self, min_events: float) -> float:
        """P-value of "nothing exceeds its margins"; nan where too little is known to show harm.

        Args:
            min_events: Effective events that harm must rest on.
        """
        if self.level is not None:
            if self.level.mean is not None and self.level.mean.events < min_events:
                return math.nan
            return min(map(_p_harm, self.level.harms), default=math.nan)
        if self.events < min_events:
            return math.nan
        p = [one.p_outside for one in self.harm_margins(min_events)]
        return math.nan if not p or any(map(math.isnan, p)) else max(p)

    def harm(self, min_events: float) -> Bound:
        """What harm is shown by: of margins, which must all be exceeded, the hardest to exceed."""
        if self.level is None:
            return max(self.harm_margins(min_events), key=lambda one: one.p_outside)
        return min(self.level.harms, key=_p_harm)

    @property
    def beyond(self) -> bool:
        """Whether a change lies beyond every margin that would clear it."""
        return bool(self.change and self.clears) and all(one.broken for one in self.clears)

    @property
    def clears(self) -> list[Bound]:
        """List the bounds of which a PASS keeps one; those without an interval are left out."""
        if self.level is not None:
            return [self.level.clearing] if self.level.clearing and not self.level.outside else []
        widest = self.absolute if self.clearing is None else self.clearing
        kept = [] if self.relative is None else self._ratio(self.relative)
        kept += [] if widest is None else self._rise(widest)
        return [one for one in kept if not math.isnan(one.estimate.low)]

    def _ratio(self, margin: float) -> list[Bound]:
        if self.change is None or self.change.relative is None:
            return []
        own, variance = self.change.relative, self.change.relative_variance
        return [Bound("relative", own, 100 * margin, variance=variance)]

    def _rise(self, margin: float) -> list[Bound]:
        if self.change is None:
            return []
        own, variance = self.change.absolute, self.change.absolute_variance
        return [Bound(self.unit, own, margin, variance=variance)]


def _p_harm(bound: Bound) -> float:
    """P-value that a limit is broken; a number without interval does not show that it is."""
    return 1.0 if math.isnan(p := bound.p_outside) else p


def _highest(rate: Estimate) -> float:
    """Upper end of a rate that few examples carry: the lower of its interval's and of Poisson's.

    The t interval of a few events on the logit scale reaches too far up.
    """
    from scipy.special import gammaincinv

    if not rate.events > 0:
        return rate.high
    most = float(gammaincinv(rate.events + 1, (1 + rate.level) / 2))
    return min(rate.high, rate.value * most / rate.events)
