"""How many members would decide what an audit left open?"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Protocol

from scipy.special import stdtrit

from scotoma.errors import DataError
from scotoma.uncertainty import Estimate, Variance, check_level
from scotoma.uncertainty.estimate import json_safe
from scotoma.uncertainty.rates import FEWEST

FEWEST_MEMBERS = 5  # from fewer a range holds the truth in 60 to 90% of simulated audits
FROM_TEN, FROM_FIVE = (0.6, 1.6), (0.5, 2.0)  # 80% of ranges then hold the truth
ENDLESS = 1e6  # members that stand for "any number"


class EstimatedChange(Protocol):
    """A change with all that `members_needed` reads, such as `scotoma.bias.GroupChange`."""

    @property
    def group(self) -> str:
        """Name of the group."""

    @property
    def dense(self) -> Estimate:
        """The dense rate."""

    @property
    def relative(self) -> Estimate:
        """100 (compressed / dense - 1), in per cent."""

    @property
    def absolute(self) -> Estimate:
        """Compressed minus dense rate."""

    @property
    def relative_variance(self) -> Variance:
        """Variance of log(compressed / dense)."""

    @property
    def absolute_variance(self) -> Variance:
        """Variance of the difference."""


@dataclass(frozen=True)
class MembersRange:
    """About how many members would decide, or that none would.

    Attributes:
        group: Name of the group.
        towards: What would be decided: `harm`, that the limits are exceeded, or `clear`.
        low: Lower end of the range, members of the smaller population; inf if no number decides,
            nan if that cannot be told.
        high: Upper end of the range, likewise.
        members: Members that the audit had.
        n: Examples of the group that it had.
        examples: About how many examples of the group would decide instead; nan where members do.
        both: Those examples need more members too.
        decided: The present members decide already.
        reason: Why there is no range, as a sentence to print; empty otherwise.
    """

    group: str
    towards: str
    low: float
    high: float
    members: int
    n: int
    examples: float = math.nan
    both: bool = False
    decided: bool = False
    reason: str = ""

    def __str__(self) -> str:
        """The answer as a sentence."""
        if self.reason:
            return self.reason
        if self.decided:
            return f"settled with the present {self.members} members"
        if math.isfinite(self.low):
            return (
                f"about {_about(self.low)} to {_about(self.high)} members would settle this "
                f"({self.members} now)"
            )
        none = "more models cannot settle this"
        if math.isinf(self.examples):
            return f"{none}, and no number of examples: the change lies at the limit"
        examples = f"{_about(self.examples)} test examples"
        if self.both:
            return f"{none}; more than {examples}, and more members, would ({self.n:,} now)"
        return f"{none}; about {examples} would ({self.n:,} now)"

    def as_dict(self) -> dict[str, Any]:
        """Every field, unrounded and safe in JSON: nan is None, infinity its name."""
        return {field.name: json_safe(getattr(self, field.name)) for field in fields(self)}


def members_needed(
    change: EstimatedChange,
    *,
    relative: float | None = None,
    absolute: float | None = None,
    level: float = 0.95,
    assumed: float | None = None,
    min_events: float = FEWEST,
) -> MembersRange:
    """About how many members would decide whether a rate rose beyond its limits.

    Of the variance V = V_ex + V_mod - V_res of a change the part V_A = max(0, V_ex - V_res) is the
    test set's own: more members take it not away. With K' members V(K') = V_A + (V - V_A) K/K', and
    the interval leaves the limit at distance D on its scale when t sqrt(V(K')) = D, so that

        K* = (V - V_A) K / ((D/t)^2 - V_A),

    with t at the degrees of freedom that K* members would give. The answer is a range, since V is
    itself an estimate: 0.6 to 1.6 K* from 10 members, 0.5 to 2 K* from 5 to 9. In simulation it
    holds the true number in 80% or more of the audits left open, if D is known. The distance is
    taken as it is, its own error is not in the range; `assumed` puts a known truth in its place.

    With both limits, harm needs both exceeded; clear one of them held, at half the error.

    Args:
        change: From `scotoma.bias.amplification`.
        relative: Limit on compressed / dense - 1, a fraction: 0.2 for +20%.
        absolute: Limit on compressed - dense, a fraction.
        level: Level of the interval that decides, a fraction in (0, 1).
        assumed: Relative increase to be taken for the truth, a fraction; None for the estimate.
        min_events: `n_effective` below which nothing is decided: 5, in a gate 10.

    Returns:
        The range, of the smaller population with the other in proportion; or the number of
        examples that would decide instead. With the present members that is
        n' = n V_ex / ((D/t)^2 - V_run), V_run = max(0, V_mod - V_res) the part that examples take
        not away; where that too is out of reach, more than n V_A (t/D)^2 and more members.

    Raises:
        DataError: Neither limit, or a number out of range.

    References:
        Cornfield and Tukey (1956), Annals of Mathematical Statistics 27:907-949, on which part of
        a variance shrinks with which factor.

    >>> from types import SimpleNamespace
    >>> rise = Estimate.on_scale(50.0, 0.16, 20.0, n=900, members=10, events=60.0, scale="log")
    >>> parts = Variance(total=0.024, examples=0.02, members=0.012, residual=0.008, df=20.0)
    >>> change = SimpleNamespace(group="men", dense=rise, relative=rise, absolute=rise,
    ...                          relative_variance=parts, absolute_variance=parts)
    >>> print(members_needed(change, relative=0.1))
    about 11 to 17 members would settle this (10 now)
    >>> print(members_needed(change, relative=0.25))
    more models cannot settle this; about 5,000 test examples would (900 now)
    """
    check_level(level)
    limits = {"relative": relative, "absolute": absolute}
    known_limits = {name: limit for name, limit in limits.items() if limit is not None}
    if not known_limits:
        raise DataError(
            f"a limit on the change of group '{change.group}' must be relative, absolute or both, "
            "got neither: set one of them"
        )
    for name, value in (known_limits | {"assumed": 0.0 if assumed is None else assumed}).items():
        if not -1 < value < math.inf:
            raise DataError(f"{name} must be a rise above -1, got {value}: write 0.2 for +20%")
    rise = change.absolute
    questions = [_question(change, name, limit, assumed) for name, limit in known_limits.items()]
    harm = all(question.distance >= 0 for question in questions)
    if not harm:
        questions = [question for question in questions if not question.distance >= 0]
        level = 1 - (1 - level) / len(known_limits)

    def answer(low: float, high: float = math.nan, reason: str = "", **more: Any) -> MembersRange:
        return MembersRange(
            group=change.group, towards="harm" if harm else "clear", low=low,
            high=low if math.isnan(high) else high, members=rise.members, n=rise.n,
            reason=reason, **more,
        )  # fmt: skip

    if reason := _unknown(change, questions, min_events):
        return answer(math.nan, reason=reason)
    if rise.events < min_events:
        # Members share their hard examples: more members bring hardly more examples that count.
        return answer(math.inf, examples=rise.n * min_events / rise.events)
    # Harm needs every limit exceeded, clear needs one of them held.
    worst = max if harm else min
    if worst(question.present(level) for question in questions) <= 1:
        return answer(rise.members, decided=True)
    examples, both = worst(question.examples(level) for question in questions)
    if rise.members == 1:
        return answer(
            math.nan, examples=examples,
            reason="one training run does not tell how many members are needed, train at least "
            f"{FEWEST_MEMBERS}; for these models alone about {_about(examples)} examples of this "
            "group would decide",
        )  # fmt: skip
    if rise.members < FEWEST_MEMBERS:
        return answer(
            math.nan, reason=f"{rise.members} members do not tell how many are needed: train at "
            f"least {FEWEST_MEMBERS}",
        )  # fmt: skip
    best = worst(question.members(level) for question in questions)
    if math.isinf(best):
        return answer(math.inf, examples=examples, both=both)
    least, most = FROM_TEN if rise.members >= 10 else FROM_FIVE
    low = max(rise.members + 1, math.floor(least * best))
    return answer(low, max(low, math.ceil(most * best)))


@dataclass(frozen=True)
class _Question:
    """One limit: how far the truth is taken to lie from it, on the scale of its interval."""

    distance: float
    variance: Variance
    k: int
    n: int
    events: float

    @property
    def own(self) -> float:
        """V_A: what members do not take away."""
        return max(0.0, float(self.variance.examples - self.variance.residual))

    def present(self, level: float) -> float:
        """Half of the interval that the audit has, in units of the distance."""
        return self._reach(self.variance.total, self.variance.df, level)

    def half(self, members: float, level: float) -> float:
        """Half of the interval that so many members would give, likewise."""
        v, share = self.variance, self.k / members
        total = self.own + (v.total - self.own) * share
        of_examples = self.own + (v.examples - self.own) * share
        # 2n/(kurtosis - 1) is close to n_effective; two populations vary alike between runs.
        spread = of_examples**2 / self.events + (v.members * share) ** 2 / (2 * (members - 1))
        return self._reach(total, total**2 / spread, level)

    def _reach(self, total: float, freedom: float, level: float) -> float:
        t = float(stdtrit(freedom, (1 + level) / 2))
        return t * math.sqrt(total) / abs(self.distance) if self.distance else math.inf

    def members(self, level: float) -> float:
        """K*; inf where no number will do."""
        if self.half(ENDLESS, level) > 1:
            return math.inf
        if self.half(self.k, level) <= 1:
            return float(self.k)  # the audit's own degrees of freedom were fewer
        few, enough = float(self.k), ENDLESS
        while enough / few > 1 + 1e-12:
            between = math.sqrt(few * enough)
            if self.half(between, level) > 1:
                few = between
            else:
                enough = between
        return enough

    def examples(self, level: float) -> tuple[float, bool]:
        """n', and whether it takes more members too."""
        v = self.variance
        runs = max(0.0, v.members - v.residual)
        enough = v.total / self.present(level) ** 2  # (D/t)^2
        if enough > runs:
            return self.n * (v.total - runs) / (enough - runs), False
        return self.n * self.half(ENDLESS, level) ** 2, True


def _question(change: EstimatedChange, name: str, limit: float, assumed: float | None) -> _Question:
    estimate = change.absolute
    sizes = estimate.members, estimate.n, estimate.events
    if name == "relative":
        rise = change.relative.value / 100 if assumed is None else assumed
        # A rate that fell to 0 lies endlessly far below any limit.
        distance = (math.log1p(rise) if rise > -1 else -math.inf) - math.log1p(limit)
        return _Question(distance, change.relative_variance, *sizes)
    rise = estimate.value if assumed is None else assumed * change.dense.value
    return _Question(rise - limit, change.absolute_variance, *sizes)


def _unknown(change: EstimatedChange, questions: list[_Question], min_events: float) -> str:
    """Say why no number of members can be estimated; empty where one can."""
    estimate = change.absolute
    if math.isnan(estimate.value):
        return estimate.reason
    if estimate.events == 0:
        return change.relative.reason or "members needed not estimable (no event)"
    for question in questions:
        if not question.variance.total > 0:
            return f"members needed not estimable (nothing varies over {estimate.n:,} examples)"
        if math.isnan(question.distance) and estimate.events >= min_events:
            return change.relative.reason
    return ""


def _about(number: float) -> str:
    """A number to two digits, but whole below 100."""
    if not math.isfinite(number):
        return "endlessly many"
    digits = max(0, len(str(math.ceil(number))) - 2) if number >= 100 else 0
    return f"{math.ceil(number / 10**digits) * 10**digits:,}"
