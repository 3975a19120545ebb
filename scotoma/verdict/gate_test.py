"""One test of a gate, before it is answered: does this number of this variant keep its bounds?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from scotoma.audit.base import Quantity
from scotoma.audit.gate import DecidingInterval, Margins, TestResult
from scotoma.audit.groups import ENDING_NAMES, RATE_NAMES
from scotoma.numbers import Estimate, Variance, satterthwaite
from scotoma.numbers.enough import FEW, sampling_margin
from scotoma.verdict.evidence import Rise

RATES = {*RATE_NAMES, *ENDING_NAMES} - {"output_tokens"}
Kind = Literal["relative", "absolute", "score", "level"]
Side = Literal["at least", "at most"]


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
    runs: Any
    examples: float
    examples_df: float
    members: int
    single: bool

    def at(self, members: Any) -> tuple[Any, Any]:
        """Variance and degrees of freedom with so many models; `runs` may be an array.

        >>> total, df = LevelSpread(0.9, 0.0004, 0.0, math.inf, 16, True).at(16)
        >>> round(total, 6), round(df)
        (0.000425, 15)
        """
        own = self.runs * (self.single + 1 / members)
        return satterthwaite([(own, members - 1), (self.examples, self.examples_df)])


@dataclass(frozen=True)
class Bound:
    """A number that is held against a margin or a limit.

    Attributes:
        kind: `relative`, `absolute`, `score` (a difference in the unit of a score), or `level`: the
            number itself.
        estimate: The number with its interval; of a next run, where one next run will lie.
        limit: The margin or limit, in the unit of the estimate.
        side: Whether it is the smallest or the largest acceptable value.
        spread: What it varies by, on the scale of its interval; None where its parts are not known.
        subject: Of a level, whose number it is: `member 7`, `the mean of 16 models`; else empty.
        tries: How many such numbers were looked at, or must hold: chances are multiplied with it.
        ends: The smallest and the largest value that there can be.
        sampling: How much of the limit shrinks as the examples grow; 0 where the rule's own holds.
    """

    kind: Kind
    estimate: Estimate
    limit: float
    side: Side = "at most"
    spread: Variance | LevelSpread | None = None
    subject: str = ""
    tries: int = 1
    ends: tuple[float, float] = (-math.inf, math.inf)
    sampling: float = 0.0

    @property
    def p_outside(self) -> float:
        """P-value of "the number is within": small says that it lies outside."""
        return self._p(above=self.side == "at most")

    @property
    def p_within(self) -> float:
        """P-value of "the number, or one of the tries, lies outside": small says all are within."""
        return self._p(above=self.side == "at least")

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
        one = self.clipped(self.estimate.at(1 - sides * chance / self.tries))
        return replace(one, level=1 - sides * chance) if jointly and self.tries > 1 else one

    def clipped(self, interval: Estimate) -> Estimate:
        """An interval within what there can be."""
        low, high = max(interval.low, self.ends[0]), min(interval.high, self.ends[1])
        return replace(interval, low=low, high=high)

    def decides(self, interval: Estimate) -> DecidingInterval:
        """The bound as what decided, with the number's interval at the level that decides."""
        return DecidingInterval(
            kind=self.kind, margin=self.limit, interval=Quantity.of(interval), subject=self.subject
        )

    def _p(self, *, above: bool) -> float:
        one = self.estimate
        p = self.tries * (one.p_above(self.limit) if above else one.p_below(self.limit))
        return min(p, 1.0)  # in this order nan stays nan


@dataclass(frozen=True)
class GateTest:
    """Does a number of a variant keep its bounds?

    Attributes:
        test: What gate.json says of it before it is answered.
        harms: What shows harm: of a rise every bound must be exceeded, of a level one broken.
        clears: Bounds with an interval, of which a PASS keeps one.
        number: The number asked about; None without evidence.
        events: Effective events that harm rests on; nan where that has no meaning.
        reason: Why there is no interval to judge by, or no PASS to be had, as a sentence to print.
        not_judged: Why a PASS does not need it, as a sentence to print; else empty. Harm is looked
            for all the same.
        too_small: Whether it is the size of the test set that keeps it from being judged.
        counted: What is known to the end, and decides without an interval.
    """

    test: TestResult
    harms: tuple[Bound, ...] = ()
    clears: tuple[Bound, ...] = ()
    number: Estimate | None = None
    events: float = math.nan
    reason: str = ""
    not_judged: str = ""
    too_small: bool = False
    counted: Bound | None = None

    def harm(self, min_events: float) -> tuple[float, Bound | None]:
        """P-value of "no harm", and the bound that shows harm or would.

        Args:
            min_events: Effective events that harm must rest on.

        Returns:
            nan where too little is known to show harm. Of bounds that must all be exceeded, the
            hardest to exceed; of limits the one that is broken most surely.
        """
        p = [one.p_outside for one in self.harms]
        if not p:
            return math.nan, None
        if self.test.level is not None:  # a number without interval breaks no limit
            p = [1.0 if math.isnan(own) else own for own in p]
        place = int(np.argmin(p) if self.test.level is not None else np.argmax(p))
        return math.nan if self.events < min_events else p[place], self.harms[place]


def unanswered(rule: str, metric: str, where: str, **known: Any) -> TestResult:
    """What gate.json says of a test before it is answered.

    Args:
        rule: Id of the rule that asks.
        metric: Its metric.
        where: Which number, in words: "FPR male & old".
        known: Further fields of `TestResult`.
    """
    blank: dict[str, Any] = dict.fromkeys(TestResult.model_fields) | {
        "group": "all", "verdict": "UNSURE", "reason": "",
        "margins": Margins(relative=None, absolute=None, clearing=None),
    }  # fmt: skip
    return TestResult(**blank | {"rule": rule, "metric": metric, "where": where} | known)


def rise_test(
    rule: str,
    metric: str,
    where: str,
    change: Rise,
    margins: Margins,
    *,
    min_events: float = 10,
    group: str = "all",
    class_name: str | None = None,
    too_small: str = "",
) -> GateTest:
    """Make the test of whether a number rises beyond its margins.

    A rate that hardly occurs in the dense models has no ratio to judge. The rise in points then has
    to exceed the absolute margin, and the relative one of the highest rate that the dense models
    may have on another test set.

    Args:
        rule: Id of the rule that asks.
        metric: Its metric.
        where: Which number, in words.
        change: The evidence.
        margins: The margins; a PASS rules out `clearing`, where there is one, as the absolute one.
        min_events: Effective events that a rate must have to be divided by.
        group: Key of the group; `all` for all examples.
        class_name: The class, where the number is one class's; else None.
        too_small: Why the test set is too small to judge it; else empty.

    >>> rate = Estimate.on_scale(0.01, 0.005, 9.0, n=400, members=1, events=4.0, scale="logit")
    >>> rise = Estimate.on_scale(0.08, 0.015, 9.0, n=400, members=1, events=4.0)
    >>> margins = Margins(relative=0.2, absolute=0.005, clearing=None)
    >>> change = Rise(rise, relative=rise, dense=rate, compressed=rate)
    >>> [(one.kind, one.limit) for one in rise_test("e", "error", "", change, margins).harms]
    [('absolute', 0.005)]
    """
    relative, absolute = change.relative if margins.relative is not None else None, change.absolute
    test = unanswered(
        rule, metric, where, group=group, class_name=class_name, margins=margins,
        relative=None if relative is None else Quantity.of(relative),
        absolute=Quantity.of(absolute),
    )  # fmt: skip

    def bounds(widest: float | None, *, ratio: bool = True) -> list[Bound]:
        both = []
        if ratio and relative is not None and margins.relative is not None:
            spread = change.relative_variance
            both = [Bound("relative", relative, margins.relative, spread=spread)]
        if widest is not None:
            sampling = widest - (margins.absolute or 0.0)
            spread = change.absolute_variance
            ends = (-1.0, 1.0) if metric in RATES else (-math.inf, math.inf)
            bound = Bound(test.unit, absolute, widest, spread=spread, sampling=sampling, ends=ends)
            both.append(bound)
        return both

    harms, dense = bounds(margins.absolute), change.dense
    reasons = [absolute.reason if math.isnan(absolute.value) else ""]
    reasons += [one.estimate.reason for one in harms]
    if margins.relative is not None and dense is not None and metric in RATES:
        known = relative is not None and not math.isnan(relative.low)
        if not (known and dense.events >= min_events) and not math.isnan(dense.high):
            widest = max(margins.relative * _highest(dense), margins.absolute or 0.0)
            harms = bounds(widest, ratio=False)
    clears = bounds(margins.absolute if margins.clearing is None else margins.clearing)
    return GateTest(
        test, tuple(harms), tuple(one for one in clears if not math.isnan(one.estimate.low)),
        absolute, change.events, next(filter(None, reasons), "no interval"), too_small,
        bool(too_small),
    )  # fmt: skip


def _highest(rate: Estimate) -> float:
    """Upper end of a rate that few examples carry: the lower of its interval's and of Poisson's.

    The t interval of a few events on the logit scale reaches too far up.
    """
    from scipy.special import gammaincinv

    if not rate.events > 0:
        return rate.high
    most = float(gammaincinv(rate.events + 1, (1 + rate.level) / 2))
    return min(rate.high, rate.value * most / rate.events)


def clearing_margin(rate: float, n: int, margin: float | None) -> float | None:
    """Choose the rise that a PASS has to rule out: the rule's margin, or the sampling margin.

    >>> clearing_margin(0.10, 900, 0.005), clearing_margin(math.nan, 0, 0.005)
    (0.02, 0.005)
    """
    if math.isnan(rate) or n == 0:
        return margin
    return max(margin or 0.0, sampling_margin(rate, n))


def why_too_small(rate: float, n: int, *, margin: float, coarsest: float) -> str:
    """Say why a rate of so few examples cannot be judged; empty where it can.

    Args:
        rate: Rate of the dense models, a fraction; nan where another reason leaves it undefined.
        n: Examples at risk (or clusters).
        margin: Largest rise that the rule accepts, a fraction.
        coarsest: Coarsest margin that a PASS may rest on, a fraction.

    Returns:
        A sentence to print. Too small is what expects fewer than 10 errors and could not be cleared
        even if no prediction changed, and what would need a margin above `coarsest`.

    >>> why_too_small(0.1, 4, margin=0.01, coarsest=0.1)
    'too small to judge: 4 examples allow no margin below 49 points'
    >>> why_too_small(0.1, 2_000, margin=0.01, coarsest=0.1)
    ''
    """
    if n == 0:
        return "too small to judge: no examples"
    if math.isnan(rate):
        return ""
    own = sampling_margin(rate, n)
    unchanged = 3.92 / (n + 4)  # half of the interval where no prediction changes
    least = unchanged if n * rate < FEW and unchanged > max(margin, own) else own
    if least <= margin or (least == own and own <= coarsest):
        return ""
    examples = "example" if n == 1 else "examples"
    return f"too small to judge: {n:,} {examples} allow no margin below {100 * least:.2g} points"
