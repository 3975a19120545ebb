"""What would settle an UNSURE, and which way? More models, more test examples, or neither."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.numbers import FEWEST_RUNS, Variance
from scotoma.numbers.estimate import link
from scotoma.verdict.question import Bound, Level, LevelSpread, Question

__all__ = ["MOST_MODELS", "Outlook", "first_numbers", "numbers_to", "outlook"]

Numbers = npt.NDArray[np.int64]
MOST_MODELS = 255  # of a population; a forecast never asks for more
MOST_TIMES = 100  # as many examples as there are
KNOWN = 1e6  # degrees of freedom from which a variance is taken for known
SURE = 0.8  # chance that the upper end of a forecast settles what it says
QUANTILES = (np.arange(15) + 0.5) / 15  # of the variance, which is itself an estimate


@dataclass(frozen=True)
class Outlook:
    """What would settle a test that is UNSURE.

    Attributes:
        leaning: `PASS` where the estimate lies within a margin, else `FAIL`.
        by: What would settle it that way: `models`, `examples`, or None where neither is likely to.
        low: Number with which it is settled that way with a chance of one half; nan without `by`.
        high: The same with a chance of 80%.
        now: The number that the audit has; of models where `by` is None.
        passing_margin: The absolute margin, a fraction, that would pass today; nan without
            interval.
        limit: Whether it is the limit of a level instead of a margin.
        score: Whether the margin is in the unit of a score.
    """

    leaning: Literal["PASS", "FAIL"]
    by: Literal["models", "examples"] | None
    low: float
    high: float
    now: int
    passing_margin: float
    limit: bool = False
    score: bool = False

    def __str__(self) -> str:
        """The forecast as words that follow the name of a test.

        >>> print(Outlook("PASS", "models", 8.0, 15.0, 5, 0.013))
        probably harmless: 8 to 15 models would settle it (5 now)
        >>> print(Outlook("PASS", None, math.nan, math.nan, 5, 0.013))
        probably harmless, but not proven: it would pass today if you accepted 1.30 points
        """
        lead = "probably harmless" if self.leaning == "PASS" else "probably harmful"
        if self.by is not None:
            noun = "models" if self.by == "models" else "test examples"
            low, high = _rounded(self.low), _rounded(self.high)
            span = f"{high:,}" if low == high else f"{low:,} to {high:,}"
            return f"{lead}: {span} {noun} would settle it ({self.now:,} now)"
        if math.isnan(self.passing_margin):
            return f"{lead}, but not proven"
        margin = f"{self.passing_margin:.4g}" if self.score else _points(self.passing_margin)
        if self.limit:
            margin = f"a limit of {self.passing_margin:.3f}"
        return f"{lead}, but not proven: it would pass today if you accepted {margin}"


@dataclass(frozen=True)
class _Way:
    """One direction of one test: the distance that an interval must leave, and how it shrinks.

    Attributes:
        distance: From the estimate to the margin, on the scale of the interval; above 0.
        sampling: How much of the margin shrinks as the examples grow: that of a sampling margin
            which is wider than the rule's; 0 where the rule's own holds.
        widest: The sampling margin; 0 where the rule's own holds.
        variance: The variance of the estimate on that scale.
        members: Models of the smaller population.
        n: Examples at risk.
        quantile: One-sided chance of error of the interval that decides.
    """

    distance: float
    sampling: float
    widest: float
    variance: Variance
    members: int
    n: int
    quantile: float

    def by_models(self, members: Numbers) -> Floats:
        """Chance that so many models settle it, the present ones among them.

        V(K') = V_A + V_B K/K', where V_A is the test set's own; the estimate moves from where it is
        with the variance V_B (1 - K/K').
        """
        v = self.variance
        own = max(0.0, v.examples - v.residual)
        shrinking = max(0.0, v.total - v.floor - own)
        share = (self.members / members)[:, None]
        of_runs = v.members**2 / (2 * (self.members - 1))  # two populations that vary alike
        of_examples = max(0.0, v.total**2 / v.df - of_runs)
        free = max(v.examples**2 / of_examples, 2.0) if of_examples > 0 else math.inf
        examples = own + (v.examples - own) * share
        spread = examples**2 / free + (v.members * share) ** 2 / (2 * (members[:, None] - 1))
        scales = _scales(self.members - 1)
        total = own + v.floor + scales * shrinking * share
        with np.errstate(divide="ignore"):  # of no spread the degrees of freedom are endless
            df = total**2 / spread
        return self._chance(self._half(total, df), scales * shrinking * (1 - share))

    def by_examples(self, n: Numbers) -> Floats:
        """Chance that so many examples settle it, the present ones among them."""
        v = self.variance
        runs = max(0.0, v.members - v.residual)
        shrinking, share = max(0.0, v.total - runs), (self.n / n)[:, None]
        lost = np.minimum(self.sampling, self.widest * (1 - np.sqrt(share)))
        scales = _scales(v.df)
        half = self._half(runs + scales * shrinking * share, v.df / share) + lost
        return self._chance(half, scales * shrinking * (1 - share))

    def _half(self, total: Floats, df: Floats) -> Floats:
        from scipy.special import stdtrit

        return np.asarray(stdtrit(df, 1 - self.quantile) * np.sqrt(total))

    def _chance(self, half: Floats, moved: Floats) -> Floats:
        """Mean over what the variance may be of the chance that the interval leaves the margin."""
        from scipy.special import ndtr

        clear = self.distance - half
        with np.errstate(divide="ignore", invalid="ignore"):
            leaves = ndtr(clear / np.sqrt(moved))
        return np.asarray(np.where(moved > 0, leaves, clear >= 0).mean(axis=1))


def _scales(df: float) -> Floats:
    """What the variance may be over what it was estimated at.

    Below 2 degrees of freedom nothing is known of it; far above, all.
    """
    from scipy.special import chdtri

    free = max(df, 2.0)
    return np.asarray([1.0] if free >= KNOWN else free / chdtri(free, QUANTILES), np.float64)


def outlook(
    question: Question, *, alpha: float, multiplier: float, together: int, min_events: float = 10
) -> Outlook | None:
    """Forecast what settles a test that is UNSURE.

    The truth is taken to lie around the estimate as its interval says, so that the forecast holds
    in either direction: where a test may as well end the other way, none is made.

    Args:
        question: The test.
        alpha: Of the gate.
        multiplier: What Holm's correction multiplies the p-value of harm with.
        together: Number of UNSURE tests that must all be settled for a PASS.
        min_events: Effective events that harm must rest on.

    Returns:
        The forecast; None where there is no interval to start from.
    """
    if question.level is not None:
        return level_outlook(question.level, alpha=alpha, together=together)
    change, clears = question.change, question.clears
    if change is None or not clears:
        return None
    upper = change.absolute.at(1 - alpha).high
    harmful = question.beyond
    beyond = question.harm_margins(min_events)
    ways = [
        way
        for bound in (beyond if harmful else clears)
        if (way := _way(question, bound, alpha, multiplier, harmful=harmful)) is not None
    ]
    leaning: Literal["PASS", "FAIL"] = "FAIL" if harmful else "PASS"
    members = change.absolute.members
    scored = question.unit == "score"
    none = Outlook(leaning, None, math.nan, math.nan, members, upper, score=scored)
    wanted = len(beyond) if harmful else 1
    if len(ways) < wanted or (change.events if harmful else change.absolute.events) == 0:
        return none
    sure = SURE if harmful else SURE ** (1 / together)
    # Harm exceeds every margin, a PASS keeps one of them.
    chance = np.min if harmful else np.max
    if members >= FEWEST_RUNS:
        more = numbers_to(members, MOST_MODELS)
        models = first_numbers(more, chance([way.by_models(more) for way in ways], axis=0), sure)
        if models is not None:
            return Outlook(leaning, "models", *models, members, upper, score=scored)
    n = change.absolute.n
    more = numbers_to(n, MOST_TIMES * n)
    examples = first_numbers(more, chance([way.by_examples(more) for way in ways], axis=0), sure)
    if examples is not None:
        return Outlook(leaning, "examples", *examples, n, upper, score=scored)
    return none


def _way(
    question: Question, bound: Bound, alpha: float, multiplier: float, *, harmful: bool
) -> _Way | None:
    """One margin that could be left; None where the estimate does not lie on that side of it."""
    estimate, limit, variance, sampling = bound.estimate, bound.limit, bound.variance, 0.0
    if bound.kind == "relative":
        if not estimate.value > -100:
            return None
        distance = math.log1p(limit / 100) - math.log1p(estimate.value / 100)
    else:
        distance = limit - estimate.value
        sampling = limit - (question.absolute or 0.0)
    distance = -distance if harmful else distance
    if variance is None or not variance.total > 0 or not distance > 0:
        return None
    widest = limit if sampling > 0 else 0.0
    quantile = alpha / 2 / (multiplier if harmful else 1.0)
    return _Way(distance, sampling, widest, variance, estimate.members, estimate.n, quantile)


def level_outlook(level: Level, *, alpha: float, together: int) -> Outlook | None:
    """Forecast how many models settle a level that is UNSURE.

    Args:
        level: The limit and what is known.
        alpha: Of the gate.
        together: Number of UNSURE tests that must all be settled for a PASS.

    Returns:
        The forecast; None where there is no interval to start from.
    """
    bound, k = level.clearing, level.members
    if bound is None or level.outside:
        return None
    held = bound.at(alpha / 2)
    today = held.low if level.side == "at least" else held.high
    leaning: Literal["PASS", "FAIL"] = "FAIL" if bound.broken else "PASS"
    none = Outlook(leaning, None, math.nan, math.nan, k, today, limit=True)
    if leaning == "FAIL" or level.spread is None:
        return none
    more, sure = numbers_to(k, MOST_MODELS), SURE ** (1 / together)
    chances = (_settled(level.spread, bound, int(members), alpha / 2) for members in more)
    models = first_numbers(more, chances, sure)
    return none if models is None else Outlook("PASS", "models", *models, k, today, limit=True)


def _settled(spread: LevelSpread, bound: Bound, members: int, chance: float) -> float:
    """Chance that so many models settle it, the present ones among them.

    The variance between runs is itself an estimate: the mean over what it may be.
    """
    from scipy.special import chdtri, ndtr, stdtrit

    now, distance = spread.members, abs(link(bound.limit, bound.estimate.scale) - spread.centre)
    settled = []
    for scale in max(now - 1, 2) / chdtri(max(now - 1, 2), QUANTILES):
        runs = spread.runs * float(scale)
        total, df = replace(spread, runs=runs).at(members)
        clear = distance - float(stdtrit(df, 1 - chance / bound.tries)) * math.sqrt(total)
        moves = math.sqrt(runs * (1 / now - 1 / members))
        settled.append(float(ndtr(clear / moves)) if moves > 0 else float(clear >= 0))
    return float(np.mean(settled))


@cache
def numbers_to(now: int, most: int) -> Numbers:
    """List numbers to try, each a twentieth above the one before."""
    numbers, number = [], now
    while number < most:
        number = min(most, max(number + 1, math.ceil(1.05 * number)))
        numbers.append(number)
    return np.array(numbers, np.int64)


def first_numbers(
    numbers: Numbers, chances: Iterable[float], sure: float
) -> tuple[float, float] | None:
    """Find the first numbers with a chance of one half, and with one of `sure`."""
    half = math.nan
    for number, chance in zip(numbers, chances, strict=False):
        if math.isnan(half) and chance >= 0.5:
            half = float(number)
        if chance >= sure:
            return half, float(number)
    return None


def _rounded(number: float) -> int:
    """A number to two digits, rounded up; whole below 100."""
    step = 10 ** max(0, len(str(math.ceil(number))) - 2) if number >= 100 else 1
    return math.ceil(number / step) * step


def _points(fraction: float) -> str:
    return f"{100 * fraction:.2f} points"
