"""What can be said of a comparison while its evaluation goes on, however often one looks?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scotoma.config.gate_changes import MaxIncrease
from scotoma.document import Column, Interval, Section, Table, show
from scotoma.numbers.anytime import BoundedSample, e_holm
from scotoma.numbers.inputs import Flags, Floats
from scotoma.verdict.question import clearing_margin, why_too_small

Harm = Literal["shown", "ruled out", "inconclusive", "too small"]
SURE = math.log(2 / 0.05)  # of a chance of 2.5% each of a false FAIL and of a false PASS
LEVEL = 0.95
COARSEST = 0.10  # as the built-in rules have it
FARTHEST = 1_000.0  # times the examples seen, up to which a decision is looked for
HALVINGS = 20


@dataclass(frozen=True)
class Risen:
    """How often answers of one group became wrong, and the margin of their rise.

    Attributes:
        group: Its key.
        n: Examples seen.
        before: Rate of right answers of the original.
        rise: Of the error of each example, from -1 to 1.
        beyond: Of the error beyond a relative margin; None where the margin is absolute alone.
        margin: Absolute margin.
        clearing: The same for a PASS: not finer than sampling allows at the end.
        passes: Largest rise that passes.
        small: Why the group cannot be judged even at the end; empty where it can.
    """

    group: str
    n: int
    before: float
    rise: BoundedSample
    beyond: BoundedSample | None
    margin: float
    clearing: float
    passes: float
    small: str

    def harm(self, times: float = 1.0) -> float:
        """Log of the evidence that the rise exceeds both margins."""
        own = self.rise.times(times).above(self.margin)
        return own if self.beyond is None else min(own, self.beyond.times(times).above(0.0))

    def clear(self, times: float = 1.0) -> float:
        """Log of the evidence that it stays below one of them: the mean of both."""
        own = self.rise.times(times).below(self.clearing)
        if self.beyond is None:
            return own
        return float(np.logaddexp(own, self.beyond.times(times).below(0.0))) - math.log(2)


@dataclass(frozen=True)
class RowSoFar:
    """What is known of one group.

    Attributes:
        group: Its key; `all` for all examples.
        n: Examples seen.
        before: Rate of right answers of the original.
        after: Likewise of the compressed model.
        change: Their difference, with an interval that holds at all times.
        together: Ends of the interval that holds for all rows at once.
        margin: Largest fall that passes.
        harm: Whether the fall beyond the margin is shown, ruled out, or neither.
        reason: Why it is too small to judge; empty where it is not.
    """

    group: str
    n: int
    before: float
    after: float
    change: Interval
    together: tuple[float, float]
    margin: float
    harm: Harm
    reason: str


@dataclass(frozen=True)
class ComparisonSoFar:
    """What is known of two models.

    Attributes:
        models: Their names.
        seen: Examples that both have answered.
        total: Examples of the whole evaluation.
        verdict: PASS, UNSURE or FAIL.
        more: About how many more examples would decide, if rates stay as they are; None where the
            verdict is known, or no number would.
        rows: All examples first, then tasks and groups.
    """

    models: tuple[str, str]
    seen: int
    total: int
    verdict: str
    more: int | None
    rows: tuple[RowSoFar, ...]

    @property
    def decided(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.verdict != "UNSURE" or self.seen >= self.total


def so_far(
    before: Floats,
    after: Floats,
    masks: Mapping[str, Flags],
    *,
    models: tuple[str, str],
    total: int,
    limits: MaxIncrease,
) -> ComparisonSoFar:
    """Judge the examples that both models have answered, at any time.

    Args:
        before: Share of the original's answers that are right, of each example, shape (n,).
        after: Likewise of the compressed model.
        masks: Key of each group to its examples, bool, shape (n,); all examples first.
        models: Their names.
        total: Examples of the whole evaluation.
        limits: Largest rise of the error that passes.
    """
    risen = [
        _risen(group, 1 - before[mask], 1 - after[mask], total / len(before), limits)
        for group, mask in masks.items()
    ]
    verdict, outcomes = _judged(risen)
    rows = []
    for own, outcome in zip(risen, outcomes, strict=True):
        (low, high), wide = (own.rise.interval(1 - (1 - LEVEL) / m) for m in (1, len(risen)))
        change = Interval(-own.rise.mean, -high, -low, own.n)
        rows.append(
            RowSoFar(
                own.group, own.n, own.before, own.before - own.rise.mean, change,
                (-wide[1], -wide[0]), own.passes, outcome, own.small,
            )
        )  # fmt: skip
    more = _needed(risen, len(before)) if verdict == "UNSURE" else None
    return ComparisonSoFar(models, len(before), total, verdict, more, tuple(rows))


def _risen(group: str, before: Floats, after: Floats, times: float, limits: MaxIncrease) -> Risen:
    """The rise of one group's error, from the errors of each example, means over its reruns."""
    n, rate, relative = len(before), float(before.mean()), limits.relative
    absolute, last = limits.absolute or 0.0, round(n * times)  # seen in the end, about
    beyond = None
    if relative is not None:
        beyond = BoundedSample.of(after - (1 + relative) * before, -1 - relative, 1)
    widest = max((relative or 0.0) * rate, absolute)
    clearing = clearing_margin(rate, last, absolute) or absolute
    return Risen(
        group, n, 1 - rate, BoundedSample.of(after - before, -1, 1), beyond, absolute, clearing,
        max(widest, clearing), why_too_small(rate, last, margin=widest, coarsest=COARSEST),
    )  # fmt: skip


def _judged(risen: Sequence[Risen], times: float = 1.0) -> tuple[str, list[Harm]]:
    """The verdict and each outcome, were `times` as many seen and all shares the same."""
    harms = e_holm([own.harm(times) for own in risen])
    outcomes: list[Harm] = []
    for own, harm in zip(risen, harms, strict=True):
        if harm >= SURE:
            outcomes.append("shown")
        elif own.small:
            outcomes.append("too small")
        else:
            outcomes.append("ruled out" if own.clear(times) >= SURE else "inconclusive")
    if "shown" in outcomes:
        return "FAIL", outcomes
    cleared = "inconclusive" not in outcomes and "ruled out" in outcomes
    return "PASS" if cleared else "UNSURE", outcomes


def _needed(risen: Sequence[Risen], seen: int) -> int | None:
    """About how many more examples would decide; None where no number in reach would."""
    low, high = 1.0, FARTHEST
    if _judged(risen, high)[0] == "UNSURE":
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _judged(risen, middle)[0] == "UNSURE" else (low, middle)
    return math.ceil((high - 1) * seen)


def so_far_sections(found: ComparisonSoFar) -> Iterator[Section]:
    """Show what is known of two models, and what decides."""
    before, after = found.models
    yield Section(
        "models",
        f"{before} to {after}: {found.seen:,} of {found.total:,} examples, 95% intervals that hold "
        "at any time",
    )
    columns = (
        Column("group", "group"),
        Column("n", "n", "count"),
        Column("before", "before", "rate"),
        Column("change", "change, points", "points"),
        Column("margin", "margin", "points"),
        Column("harm", "harm"),
    )
    rows: list[dict[str, Any]] = [vars(row) | {"margin": -row.margin} for row in found.rows]
    yield Section("so far", "", parts=[Table("so_far", "", columns, rows, known=("",))])
    yield Section("verdict", "", [*_sentences(found)])


def _sentences(found: ComparisonSoFar) -> Iterator[str]:
    rows, name, left = found.rows, found.models[1], found.total - found.seen
    if found.verdict == "FAIL":
        hit = [row for row in rows if row.harm == "shown"]
        named = "; ".join(f"{row.group} {show(row.change, 'points').number}" for row in hit[:3])
        yield f"FAIL    {name}: right answers fall beyond the margin, in points: {named}."
    elif found.verdict == "PASS":
        judged = [row for row in rows if row.harm == "ruled out"]
        yield f"PASS    {name}: no fall beyond its margin in any of {len(judged)} tests."
    if found.verdict != "UNSURE" and left:
        yield f"The other {left:,} examples are not needed for this verdict."
    if small := [row.group for row in rows if row.harm == "too small"]:
        more = f" and {len(small) - 3} more" if len(small) > 3 else ""
        yield f"Too small to judge, even at the end: {', '.join(small[:3])}{more}."
    if found.verdict != "UNSURE":
        return
    reach = "no number of examples in reach decides, if rates stay as they are"
    if found.more is not None:
        ahead = "" if found.more <= left or not left else f", more than the {left:,} that are left"
        about = float(f"{found.more:.2g}")
        reach = f"about {about:,.0f} more examples decide, if rates stay as they are{ahead}"
    yield f"UNSURE  {name}: {reach}."
    if not left:
        yield "All examples are seen: compare without --so-far, whose intervals are shorter."
