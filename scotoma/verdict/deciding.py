"""From evidence to PASS, UNSURE or FAIL: p-values, their family, the interval that decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.audit.gate import Forecast, TestResult
from scotoma.config.gate import GateRules
from scotoma.numbers import FEWEST_RUNS, multipliers
from scotoma.numbers.estimate import link
from scotoma.numbers.inputs import Floats
from scotoma.power.forecast import chance_beyond, chi_square
from scotoma.verdict.evidence import null_if_nan
from scotoma.verdict.gate_test import Bound, GateTest, LevelSpread


def decide(family: Sequence[GateTest], rules: GateRules) -> list[TestResult]:
    """Decide every test of one variant; together they are one family.

    A test with both margins is one hypothesis. Harm needs both exceeded, so the larger p-value
    counts; noninferiority needs one of them kept, so the smaller counts. FAIL where the harm
    p-value, adjusted over the family, is at most alpha/2. PASS where the noninferiority p-value is,
    unadjusted, since a variant passes only if all do; its absolute margin is at least the sampling
    margin. NOT JUDGED where the test set was too small before anything was compressed. UNSURE
    otherwise.

    The interval that decides is beyond the rule's margin in a FAIL; inside the margin that clears
    in a PASS. In an UNSURE it holds a margin: the rule's, at the level of a FAIL, where the
    estimate lies beyond; else the margin that clears, at the level of a PASS.

    Args:
        family: The tests before they are decided.
        rules: Levels, correction and minima.

    Returns:
        Their results, in their order.

    References:
        Berger (1982), Technometrics 24:295-300; Holm (1979), Scandinavian Journal of Statistics
        6:65-70.
    """
    least = rules.min.effective_events
    harm = [math.nan if _few_models(one, rules) else one.harm(least)[0] for one in family]
    times = multipliers(harm, rules.correct).tolist()
    tests = [_answer(*one, rules) for one in zip(family, harm, times, strict=True)]
    opened = sum(test.verdict == "UNSURE" for test in tests)
    for place, (test, asked, own) in enumerate(zip(tests, family, times, strict=True)):
        if test.verdict == "UNSURE" and test.decided_by is not None:
            multiplier = 1.0 if math.isnan(own) else own
            settles = outlook(asked, alpha=rules.alpha, multiplier=multiplier, together=opened)
            tests[place] = test.model_copy(update={"outlook": settles})
    return tests


def _answer(asked: GateTest, harm: float, multiplier: float, rules: GateRules) -> TestResult:
    tail, least, level = rules.alpha / 2, rules.min.effective_events, asked.test.level
    few = _few_models(asked, rules)
    best = min(() if few else asked.clears, key=lambda one: one.p_within, default=None)
    clear = math.nan if best is None else best.p_within
    adjusted = min(harm * multiplier, 1.0)  # in this order nan stays nan
    shown = asked.harm(least)[1]

    def answer(verdict: str, bound: Any = None, interval: Any = None, why: str = "") -> TestResult:
        decided = None if bound is None else bound.decides(interval or bound.at(tail / multiplier))
        known = zip(
            ("harm_p", "harm_p_adjusted", "noninferiority_p"),
            map(null_if_nan, (harm, adjusted, clear)),
            strict=True,
        )
        return asked.test.model_copy(
            update={"verdict": verdict, "reason": why, "decided_by": decided, **dict(known)}
        )

    if (counted := asked.counted) is not None:
        return answer("FAIL" if counted.broken else "PASS", counted, counted.estimate)
    if adjusted <= tail:
        return answer("FAIL", shown)
    if asked.not_judged:
        return answer("NOT JUDGED", why=asked.not_judged)
    if best is None:
        first = level is not None or asked.number is None or math.isnan(asked.number.value)
        return answer("UNSURE", why=(asked.reason if first else "") or few or asked.reason)
    deciding = best.at(tail, jointly=True)
    if clear <= tail:
        return answer("PASS", best, deciding)
    if level is not None or not all(one.broken for one in asked.clears):
        return answer("UNSURE", best, deciding)
    # What decides is whether harm is shown: its interval, or why there can be none.
    if not math.isnan(harm):
        return answer("UNSURE", shown)
    why = f"{math.floor(asked.events):,} effective events are too few to show harm "
    why += f"({least:g} are needed)"
    return answer("UNSURE", best, deciding, why if asked.events < least else "")


def _few_models(asked: GateTest, rules: GateRules) -> str:
    """Say that a test rests on fewer models than the rules ask for; empty where it does not."""
    members, least = None if asked.number is None else asked.number.members, rules.min.models
    if members is None or members >= least:
        return ""
    noun = "model" if members == 1 else "models"
    return f"{members} {noun} a variant, min.models asks for {least}"


Numbers = npt.NDArray[np.int64]
MOST_MODELS = 255  # of a population; a forecast never asks for more
MOST_TIMES = 100  # as many examples as there are
KNOWN = 1e6  # degrees of freedom from which a variance is taken for known
SURE = 0.8  # chance that the upper end of a forecast settles what it says


@dataclass(frozen=True)
class _Way:
    """One direction of one test: how far an interval must move to leave its bound, and how surely.

    Attributes:
        bound: The bound.
        distance: From the estimate to the bound, on the scale of the interval; above 0.
        tail: One-sided chance of error of the interval that decides.
    """

    bound: Bound
    distance: float
    tail: float

    def by_models(self, members: Numbers) -> Floats:
        """Chance that so many models settle it, the present ones among them.

        V(K') = V_A + V_B K/K', where V_A is the test set's own; the estimate moves from where it is
        with the variance V_B (1 - K/K').
        """
        v, k, more = self.bound.spread, self.bound.estimate.members, members[:, None]
        if isinstance(v, LevelSpread):
            k, runs = v.members, v.runs * _scales(v.members - 1)
            return self._chance(*replace(v, runs=runs).at(more), runs * (1 / k - 1 / more))
        assert v is not None
        own = max(0.0, v.examples - v.residual)
        shrinking = max(0.0, v.total - v.floor - own)
        share = k / more
        of_runs = v.members**2 / (2 * (k - 1))  # two populations that vary alike
        of_examples = max(0.0, v.total**2 / v.df - of_runs)
        free = max(v.examples**2 / of_examples, 2.0) if of_examples > 0 else math.inf
        examples = own + (v.examples - own) * share
        spread = examples**2 / free + (v.members * share) ** 2 / (2 * (more - 1))
        scales = _scales(k - 1)
        total = own + v.floor + scales * shrinking * share
        with np.errstate(divide="ignore"):  # of no spread the degrees of freedom are endless
            df = total**2 / spread
        return self._chance(total, df, scales * shrinking * (1 - share))

    def by_examples(self, n: Numbers) -> Floats:
        """Chance that so many examples settle it, the present ones among them."""
        v, share = self.bound.spread, (self.bound.estimate.n / n)[:, None]
        if v is None or isinstance(v, LevelSpread):
            return np.zeros(len(n))
        runs = max(0.0, v.members - v.residual)
        shrinking, scales = max(0.0, v.total - runs), _scales(v.df)
        widest = self.bound.limit if self.bound.sampling > 0 else 0.0
        lost = np.minimum(self.bound.sampling, widest * (1 - np.sqrt(share)))
        total, moved = runs + scales * shrinking * share, scales * shrinking * (1 - share)
        return self._chance(total, v.df / share, moved, lost)

    def _chance(self, total: Floats, df: Floats, moved: Floats, lost: Any = 0.0) -> Floats:
        return chance_beyond(self.distance - lost, moved, total, df, level=1 - 2 * self.tail)


def _scales(df: float) -> Floats:
    """What the variance may be over what it was estimated at.

    Below 2 degrees of freedom nothing is known of it; far above, all.
    """
    free = max(df, 2.0)
    return 1 / chi_square(math.inf if free >= KNOWN else free)


def outlook(asked: GateTest, *, alpha: float, multiplier: float, together: int) -> Forecast | None:
    """Forecast what settles a test that is UNSURE.

    The truth is taken to lie around the estimate as its interval says, so that the forecast holds
    in either direction: where a test may as well end the other way, none is made.

    Args:
        asked: The test.
        alpha: Of the gate.
        multiplier: What Holm's correction multiplies the p-value of harm with.
        together: Number of UNSURE tests that must all be settled for a PASS.

    Returns:
        The forecast; None where there is no interval to start from.
    """
    clears, number = asked.clears, asked.number
    if number is None or not clears:
        return None
    level, first = asked.test.level is not None, clears[0]
    held = first.at(alpha / 2) if level else number.at(1 - alpha)
    today = held.low if first.side == "at least" else held.high
    kind = "level" if level else asked.test.unit
    harmful = all(one.broken for one in clears)
    n, members = number.n, number.members
    tail = alpha / 2 / (multiplier if harmful else 1.0)
    bounds = asked.harms if harmful else clears
    ways = [way for one in bounds if (way := _way(one, tail, harmful=harmful)) is not None]
    wanted = len(bounds) if harmful else 1
    nothing = (asked.events if harmful else number.events) == 0
    if len(ways) < wanted or nothing or (level and harmful):
        ways = []
    sure = SURE if harmful else SURE ** (1 / together)
    # Harm exceeds every margin, a PASS keeps one of them.
    chance = np.min if harmful else np.max
    by, low, high, now = None, None, None, members
    tries = [("models", members, MOST_MODELS), ("examples", n, MOST_TIMES * n)]
    for unit, present, most in tries[members < FEWEST_RUNS :] if ways else ():
        numbers = numbers_to(present, most)
        chances = chance([getattr(way, f"by_{unit}")(numbers) for way in ways], axis=0)
        if (chances >= sure).any():
            low, high = (float(numbers[np.argmax(chances >= own)]) for own in (0.5, sure))
            by, now = unit, present
            break
    leaning = "FAIL" if harmful else "PASS"
    return Forecast.model_validate(
        {
            "leaning": leaning, "by": by, "low": low, "high": high, "now": now,
            "passing_margin": null_if_nan(today),
            "sentence": _sentence(leaning, by, (low, high), now, today, kind),
        }
    )  # fmt: skip


def _way(bound: Bound, tail: float, *, harmful: bool) -> _Way | None:
    """One bound that could be left; None where the estimate does not lie on that side of it."""
    estimate, spread = bound.estimate, bound.spread
    if spread is None:
        return None
    if isinstance(spread, LevelSpread):
        distance = abs(link(bound.limit, estimate.scale) - spread.centre)
        return _Way(bound, distance, tail / bound.tries)
    relative = bound.kind == "relative"
    if relative and not estimate.value > -1:
        return None
    limit, value = (link(x, "log") if relative else x for x in (bound.limit, estimate.value))
    distance = value - limit if harmful else limit - value
    return _Way(bound, distance, tail) if spread.total > 0 and distance > 0 else None


@cache
def numbers_to(now: int, most: int) -> Numbers:
    """List numbers to try, each a twentieth above the one before."""
    numbers, number = [], now
    while number < most:
        number = min(most, max(number + 1, math.ceil(1.05 * number)))
        numbers.append(number)
    return np.array(numbers, np.int64)


def _sentence(
    leaning: str, by: str | None, numbers: tuple[Any, Any], now: int, today: float, kind: str
) -> str:
    """Put a forecast into words that follow the name of a test.

    >>> _sentence("PASS", "models", (8.0, 15.0), 5, 0.013, "")
    'probably harmless: 8 to 15 models would settle it (5 now)'
    >>> _sentence("PASS", None, (None, None), 5, 0.013, "")
    'probably harmless, but not proven: this test would pass today if you accepted 1.30 points'
    """
    lead = "probably harmless" if leaning == "PASS" else "probably harmful"
    if by is not None:
        noun = "models" if by == "models" else "test examples"
        first, last = map(_rounded, numbers)
        span = f"{last:,}" if first == last else f"{first:,} to {last:,}"
        return f"{lead}: {span} {noun} would settle it ({now:,} now)"
    if math.isnan(today):
        return f"{lead}, but not proven"
    margins = {"level": f"a limit of {today:.3f}", "score": f"{today:.4g}"}
    margin = margins.get(kind, f"{100 * today:.2f} points")
    return f"{lead}, but not proven: this test would pass today if you accepted {margin}"


def _rounded(number: float) -> int:
    """A number to two digits, rounded up; whole below 100."""
    step = 10 ** max(0, len(str(math.ceil(number))) - 2) if number >= 100 else 1
    return math.ceil(number / step) * step
