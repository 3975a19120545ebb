"""One number with what it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from scotoma.errors import DataError
from scotoma.numbers.enough import FEWEST_RUNS

IntervalScale = Literal["identity", "logit", "log", "ratio", "rule of three", "q-profile"]


@dataclass(frozen=True)
class Estimate:
    """One number, its interval, and what both rest on.

    The interval is symmetric on `scale`: `identity` for means and differences, `logit` for single
    rates, `log` for a relative change, which is ratio - 1 with its interval on log(ratio),
    `ratio` for a ratio itself, on log(ratio) too; `q-profile` is that of `Heterogeneity`. `rule of
    three` marks bounds where no event was seen, which no standard error can give.

    Attributes:
        value: The number itself; nan if undefined.
        low: Lower end of the interval at `level`; nan if there is none.
        high: Upper end of the interval at `level`; nan if there is none.
        n: Examples at risk; clusters where rows belong together.
        members: Size of the smaller population involved.
        events: Effective events behind the value (`n_effective`); nan where that has no
            meaning.
        df: Degrees of freedom of the t interval; nan if there is none.
        level: Coverage of the interval, a fraction in (0, 1).
        reason: Why the value or its interval is nan, as a sentence to print; empty otherwise.
        note: What a reader should know beside the number, such as "few events".
        se: Standard error on `scale`; nan if there is none.
        scale: The scale on which the interval is symmetric.

    >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
    >>> round(change.low, 4), round(change.high, 4), round(change.p_above(0.0), 4)
    (0.0087, 0.0313, 0.0016)
    """

    value: float
    low: float
    high: float
    n: int
    members: int
    events: float
    df: float
    level: float = 0.95
    reason: str = ""
    note: str = ""
    se: float = math.nan
    scale: IntervalScale = "identity"

    @classmethod
    def on_scale(
        cls,
        value: float,
        se: float,
        df: float,
        *,
        n: int,
        members: int,
        events: float = math.nan,
        level: float = 0.95,
        scale: IntervalScale = "identity",
        reason: str = "",
        note: str = "",
    ) -> Estimate:
        """The estimate with the interval value -+ t(df) se on `scale`.

        Args:
            value: The number as it is shown: a mean, a rate, ratio - 1.
            se: Standard error on `scale`, above 0.
            df: Degrees of freedom, above 0, possibly inf.
            n: Examples at risk.
            members: Size of the smaller population.
            events: Effective events (`n_effective`).
            level: Coverage, a fraction in (0, 1).
            scale: Any but `rule of three`.
            reason: Why the interval is missing, if it is.
            note: What to say beside the number.

        >>> twice = Estimate.on_scale(1.0, 0.3, math.inf, n=900, members=5, scale="log")
        >>> twice.value, round(twice.low, 3), round(twice.high, 3)
        (1.0, 0.111, 2.601)
        >>> same = Estimate.on_scale(2.0, 0.3, math.inf, n=900, members=5, scale="ratio")
        >>> same.value, round(same.low, 3), round(same.high, 3)
        (2.0, 1.111, 3.601)
        """
        half, centre = _quantile(level, df) * se, link(value, scale)
        return cls(
            value=value,
            low=inverse_link(centre - half, scale),
            high=inverse_link(centre + half, scale),
            n=n,
            members=members,
            events=events,
            df=df,
            level=level,
            reason=reason,
            note=note,
            se=se,
            scale=scale,
        )

    def at(self, level: float) -> Estimate:
        """The same estimate with its interval at another level.

        Args:
            level: Coverage, a fraction in (0, 1).

        >>> change = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10)
        >>> round(change.at(0.99).low, 4)
        0.0038
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if math.isnan(self.value):  # of which no more is known at any level
            return Estimate(**{**values, "level": level})
        if self.scale == "rule of three":
            stretch = _three(level) / _three(self.level)
            low = self.value - (self.value - self.low) * stretch
            high = self.value + (self.high - self.value) * stretch
            return Estimate(**{**values, "low": low, "high": high, "level": level})
        half = _quantile(level, self.df) * self.se
        centre = link(self.value, self.scale)
        low, high = inverse_link(centre - half, self.scale), inverse_link(centre + half, self.scale)
        return Estimate(**{**values, "low": low, "high": high, "level": level})

    def within(self, most: float) -> Estimate:
        """The same with an interval in -most..most: a difference of two rates is at most 1.

        >>> Estimate.on_scale(-1.0, 0.1, 9.0, n=8, members=1).within(1.0).low
        -1.0
        """
        return replace(self, low=max(self.low, -most), high=min(self.high, most))

    def negated(self) -> Estimate:
        """The negative of a number on the identity scale, whose interval is turned with it.

        >>> loss = Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10).negated()
        >>> loss.value, round(loss.high, 3)
        (-0.02, -0.009)
        """
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def p_above(self, limit: float) -> float:
        """One-sided p-value of "the truth is at most `limit`": small says it lies above.

        Args:
            limit: In the unit of `value`.

        Returns:
            Fraction in [0, 1]; nan without an interval.

        >>> round(Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10).p_above(0.01), 4)
        0.0383
        """
        if self.scale == "rule of three":
            return self._p_unseen(self.value - limit, self.value - self.low)
        distance = link(self.value, self.scale) - link(limit, self.scale)
        return _tail(self.df, distance / self.se) if self.se > 0 else math.nan

    def p_below(self, limit: float) -> float:
        """One-sided p-value of "the truth is at least `limit`": small says it lies below.

        Args:
            limit: In the unit of `value`.

        Returns:
            Fraction in [0, 1]; nan without an interval.

        >>> round(Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10).p_below(0.04), 4)
        0.0016
        """
        if self.scale == "rule of three":
            return self._p_unseen(limit - self.value, self.high - self.value)
        distance = link(limit, self.scale) - link(self.value, self.scale)
        return _tail(self.df, distance / self.se) if self.se > 0 else math.nan

    def p_differs(self, limit: float = 0.0) -> float:
        """Two-sided p-value of "the truth is `limit`".

        Args:
            limit: In the unit of `value`.

        Returns:
            Fraction in [0, 1]; nan without an interval.

        >>> round(Estimate.on_scale(0.02, 0.005, 9.0, n=500, members=10).p_differs(0.01), 4)
        0.0766
        >>> undefined("one example", value=0.02, n=1, members=1).p_differs()
        nan
        """
        sides = self.p_above(limit), self.p_below(limit)
        return math.nan if math.isnan(sum(sides)) else min(1.0, 2 * min(sides))

    def _p_unseen(self, distance: float, reach: float) -> float:
        # The bound that `level` gives solved for the level: a whole reach away p is 1 - level.
        if distance <= 0:
            return 1.0
        return float((1 - self.level) ** (distance / reach)) if reach > 0 else 0.0

    def as_dict(self) -> dict[str, float | int | str | None]:
        """Every field, unrounded and safe in JSON: nan is None, an infinite number its name.

        >>> undefined("undefined (no negatives in group 'men')", n=0, members=5).as_dict()["value"]
        """
        names = {"events": "effective_events"}
        return {
            names.get(field.name, field.name): json_safe(getattr(self, field.name))
            for field in fields(Estimate)  # of a Heterogeneity without its many effects
        }


def undefined(
    reason: str,
    *,
    value: float = math.nan,
    n: int,
    members: int,
    events: float = math.nan,
    level: float = 0.95,
    note: str = "",
    low: float = math.nan,
    high: float = math.nan,
) -> Estimate:
    """An estimate without interval, and without value where there is none, and why.

    Args:
        reason: The sentence to print.
        value: The number where it exists and only its interval does not.
        n: Examples at risk.
        members: Size of the smaller population.
        events: Effective events (`n_effective`).
        level: The requested level.
        note: What to say beside the number.
        low: The least that the truth can be, where there is one to speak of; possibly -inf.
        high: The most that it can be.

    >>> undefined("undefined (no positives in group 'men')", n=0, members=5).reason
    "undefined (no positives in group 'men')"
    """
    return Estimate(value, low, high, n, members, events, math.nan, level, reason, note)


def none_seen(
    value: float,
    *,
    n: int,
    members: int,
    lowest: float = -math.inf,
    highest: float = math.inf,
    level: float = 0.95,
    note: str = "",
    events: float = 0.0,
    unit: float = 1.0,
) -> Estimate:
    """An estimate that no example speaks against: value -+ 3/n at 95%, the rule of three.

    Args:
        value: The number seen.
        n: Examples at risk, at least 1.
        members: Size of the smaller population.
        lowest: Lower limit of what the number can be.
        highest: Upper limit of what the number can be.
        level: Coverage; the 3 is the rounded log(1/0.05), other levels are in proportion.
        note: What to say beside the number.
        events: Effective events (`n_effective`).
        unit: What a share of 1 amounts to in the unit of `value`.

    References:
        Hanley and Lippman-Hand (1983), JAMA 249:1743-1745.

    >>> none_seen(0.0, n=150, members=10, lowest=0.0).high
    0.02
    """
    reach = _three(level) / n * unit
    low, high = max(lowest, value - reach), min(highest, value + reach)
    nan = math.nan
    return Estimate(
        value, low, high, n, members, events, nan, level, "", note, nan, "rule of three"
    )


def few_runs(members: int) -> str:
    """Say that an interval speaks of these very models; empty from `FEWEST_RUNS` models a side.

    >>> few_runs(3), few_runs(5)
    ('3 training runs: too few to say anything about the next one', '')
    """
    if members == 1:
        return "one training run: says nothing about the next one"
    if 1 < members < FEWEST_RUNS:
        return f"{members} training runs: too few to say anything about the next one"
    return ""


FEW_RUNS = tuple(map(few_runs, range(1, FEWEST_RUNS)))


def check_level(level: float) -> None:
    """Refuse a level that is no fraction in (0, 1).

    >>> check_level(0.95)
    """
    if not 0 < level < 1:
        raise DataError(f"level must be a fraction in (0, 1), got {level}: write 0.95 for 95%")


def json_safe(value: float | int | str) -> float | int | str | None:
    """The value as JSON can hold it: nan is None, an infinite number its name.

    >>> json_safe(float("nan")), json_safe(float("-inf")), json_safe(0.1)
    (None, '-inf', 0.1)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _quantile(level: float, df: float) -> float:
    from scipy.special import stdtrit  # costly to import; who only reads numbers needs it not

    check_level(level)
    return float(stdtrit(df, (1 + level) / 2))


def _tail(df: float, t: float) -> float:
    """Chance that Student's t lies above a value."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


def _three(level: float) -> float:
    check_level(level)
    # Rule of three: no event in n leaves a rate below 3 / n at 95%; other levels scale with it.
    return 3.0 * math.log1p(-level) / math.log1p(-0.95)


def inverse_link(value: float, scale: IntervalScale) -> float:
    """Carry a value from the scale of its interval back to the one that is shown."""
    if scale == "log":
        # float64 overflows at exp(709.8).
        return math.expm1(value) if value < 700 else math.inf
    if scale == "ratio":
        return math.exp(value) if value < 700 else math.inf
    if scale == "logit":
        return 0.5 * (1.0 + math.tanh(0.5 * value))
    return value


def link(value: float, scale: IntervalScale) -> float:
    """Carry a value to the scale on which its interval is symmetric."""
    if scale == "log":
        return math.log1p(value) if value > -1.0 else -math.inf
    if scale == "ratio":
        return math.log(value) if value > 0.0 else -math.inf
    if scale == "logit":
        if not 0.0 < value < 1.0:
            return math.inf * (value - 0.5)
        return math.log(value) - math.log1p(-value)
    return value
