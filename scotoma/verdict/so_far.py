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
from scotoma.verdict.gate_test import clearing_margin, why_too_small

Harm = Literal["shown", "ruled out", "inconclusive", "too small to judge"]
SURE = math.log(2 / 0.05)  # of a chance of 2.5% each of a false FAIL and of a false PASS
LEVEL = 0.95
COARSEST = 0.10  # as the built-in rules have it
FARTHEST = 1_000.0  # times the examples seen, up to which a decision is looked for
HALVINGS = 20  # of the logarithms of sizes: the last two differ by under a thousandth
RATES = 50  # at which a size is tried, of those that a rate can still end at


@dataclass(frozen=True)
class Risen:
    """How often answers of one group became wrong, and the margin of their rise.

    Attributes:
        group: Its key.
        n: Examples seen.
        last: Most that there may be in the end.
        before: Rate of right answers of the original.
        rise: Of the error of each example, from -1 to 1.
        beyond: Of the error beyond a relative margin; None where the margin is absolute alone.
        margin: Absolute margin.
        clearing: The same for a PASS: not finer than sampling allows at the end. It never grows
            coarser than it is in the end, so that looking often makes no PASS easier.
        widest: Largest rise that the rule accepts.
        passes: Largest rise that passes.
        small: Why the group cannot be judged however the evaluation ends; empty where it may be.
    """

    group: str
    n: int
    last: int
    before: float
    rise: BoundedSample
    beyond: BoundedSample | None
    margin: float
    clearing: float
    widest: float
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

    def waits(self, times: float = 1.0) -> bool:
        """Whether a group too small for a PASS still holds one back: the rest may show harm.

        It does before it has any answer, and while it falls by more than a PASS may ever allow.
        """
        return self.n * times < self.last and not self.rise.mean <= COARSEST


@dataclass(frozen=True)
class RowSoFar:
    """What is known of one group.

    Attributes:
        group: Its key; `all` for all examples.
        n: Examples seen.
        before: Rate of right answers of the original; nan of none.
        after: Likewise of the compressed model.
        change: Their difference, with an interval that holds at all times.
        together: Ends of the interval that holds for all rows at once.
        margin: Largest fall that the rule accepts; more is harm.
        pass_margin: Fall that a PASS rules out: coarser where sampling allows no finer one.
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
    pass_margin: float
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
        score: Which is right or wrong.
        complete: Whether the original's log holds all examples.
        awaited: Tasks that are named, and that the original's log does not hold yet.
    """

    models: tuple[str, str]
    seen: int
    total: int
    verdict: str
    more: int | None
    rows: tuple[RowSoFar, ...]
    score: str
    complete: bool
    awaited: tuple[str, ...]

    @property
    def decided(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.verdict != "UNSURE" or (self.seen >= self.total and not self.awaited)


def so_far(
    before: Floats,
    after: Floats,
    masks: Mapping[str, Flags],
    *,
    models: tuple[str, str],
    total: int,
    limits: MaxIncrease,
    score: str = "",
    awaited: Sequence[str] = (),
) -> ComparisonSoFar:
    """Judge the examples that both models have answered, at any time.

    Where the original has answered all examples, each group's size and error rate at the end are
    known from the start. Elsewhere all that they may still become counts.

    Args:
        before: Share of the original's answers that are right, of each example of its log, shape
            (n,).
        after: Likewise of the compressed model; nan where it has not answered yet.
        masks: Key of each group to its examples, bool, shape (n,); all examples first.
        models: Their names.
        total: Examples of the whole evaluation; fewer than n where it takes only some of them.
        limits: Largest rise of the error that passes.
        score: Name of what is right or wrong.
        awaited: Tasks that are to come, and of which nothing is known.
    """
    risen, seen, n = [], ~np.isnan(after), len(before)
    masks = {**masks, **{f"task={task}": np.zeros(n, bool) for task in awaited}}
    for group, mask in masks.items():
        both, coming = mask & seen, mask if total >= n else mask & seen
        more = max(total - n, 0) or min(total - int(seen.sum()), int((mask & ~coming).sum()))
        risen.append(
            _risen(group, 1 - before[both], 1 - after[both], 1 - before[coming], more, limits)
        )
    verdict, outcomes = _judged(risen)
    rows = []
    for own, outcome in zip(risen, outcomes, strict=True):
        (low, high), wide = (own.rise.interval(1 - (1 - LEVEL) / m) for m in (1, len(risen)))
        change = Interval(
            -own.rise.mean, -high, -low, own.n, reason="" if own.n else "no answer yet"
        )
        rows.append(
            RowSoFar(
                own.group, own.n, own.before, own.before - own.rise.mean, change,
                (-wide[1], -wide[0]), own.widest, own.passes, outcome, own.small,
            )
        )  # fmt: skip
    count = int(seen.sum())
    more_needed = _needed(risen, count) if verdict == "UNSURE" else None
    return ComparisonSoFar(
        models, count, total, verdict, more_needed, tuple(rows), score,
        total == n and not awaited, tuple(awaited),
    )  # fmt: skip


def _risen(
    group: str, before: Floats, after: Floats, coming: Floats, more: int, limits: MaxIncrease
) -> Risen:
    """The rise of one group's error, from the errors of each example, means over its reruns.

    Args:
        group: Its key.
        before: Errors of the original on the examples that both have answered.
        after: Those of the compressed model.
        coming: Errors of the original on all examples that are sure to be in the evaluation.
        more: Most examples that there may be beside these.
        limits: Largest rise of the error that passes.
    """
    relative, absolute = limits.relative, limits.absolute or 0.0
    n, wrong, last = len(before), float(coming.sum()), max(1, len(coming) + more)
    rate = wrong / len(coming) if len(coming) else math.nan
    low, high = wrong / last, (wrong + more) / last

    def widest(rate: float) -> float:
        return max((relative or 0.0) * rate, absolute)

    reasons = [
        why_too_small(own, last, margin=widest(own), coarsest=COARSEST)
        for own in np.linspace(low, high, RATES if more else 1).tolist()
    ]
    clearing = min(clearing_margin(own, last, absolute) or absolute for own in (low, high))
    beyond = None
    if relative is not None:
        beyond = BoundedSample.of(after - (1 + relative) * before, -1 - relative, 1)
    margin = absolute if math.isnan(rate) else widest(rate)
    return Risen(
        group, n, last, 1 - float(before.mean()) if n else math.nan,
        BoundedSample.of(after - before, -1, 1), beyond, absolute, clearing, margin,
        max(margin, clearing), reasons[0] if all(reasons) else "",
    )  # fmt: skip


def _judged(risen: Sequence[Risen], times: float = 1.0) -> tuple[str, list[Harm]]:
    """The verdict and each outcome, were `times` as many seen and all shares the same."""
    harms = e_holm([own.harm(times) for own in risen])
    outcomes: list[Harm] = []
    for own, harm in zip(risen, harms, strict=True):
        if harm >= SURE:
            outcomes.append("shown")
        elif own.small and not own.waits(times):
            outcomes.append("too small to judge")
        else:
            clear = not own.small and own.clear(times) >= SURE
            outcomes.append("ruled out" if clear else "inconclusive")
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
        Column("harm", ""),
    )
    rows: list[dict[str, Any]] = [
        vars(row)
        | {"margin": -row.margin, "before": row.before if row.n else None}
        | {"harm": f"harm {row.harm}" if row.harm in ("shown", "ruled out") else row.harm}
        for row in found.rows
    ]
    yield Section("so far", "", parts=[Table("so_far", "", columns, rows, known=("",))])
    yield Section("verdict", "", [*_sentences(found)])


def _sentences(found: ComparisonSoFar) -> Iterator[str]:
    rows, name, left = found.rows, found.models[1], found.total - found.seen
    score = found.score.removeprefix("not ")
    what = f"right answers ({score})"
    if score != found.score:
        what = f"answers that are not {score.replace('_', ' ')}"
    if found.verdict == "FAIL":
        hit = [row for row in rows if row.harm == "shown"]
        named = "; ".join(f"{row.group} {show(row.change, 'points').number}" for row in hit[:3])
        yield f"FAIL    {name}: {what} fall beyond the margin, in points: {named}."
    elif found.verdict == "PASS":
        judged = [row for row in rows if row.harm == "ruled out"]
        coarsest = max(judged, key=lambda row: row.pass_margin)
        yield (
            f"PASS    {name}: {what} fall beyond the margin in none of {len(judged):,} tests; "
            f"coarsest margin {100 * coarsest.pass_margin:.1f} points ({coarsest.group})."
        )
    if found.verdict != "UNSURE" and left:
        yield f"The other {left:,} examples are not needed for this verdict."
    if found.verdict == "PASS" and left and not found.complete:
        yield "Groups that no log has shown yet are not judged."
    small = [row.group for row in rows if row.harm == "too small to judge"]
    coarser = [row for row in rows if row.pass_margin > row.margin and row.group not in small]
    if coarser and found.verdict != "FAIL":
        widest = max(coarser, key=lambda row: row.pass_margin)
        yield (
            f"A PASS allows what so few examples cannot show, in {len(coarser):,} of {len(rows):,} "
            f"rows: up to {100 * widest.pass_margin:.1f} points ({widest.group})."
        )
    if small:
        yield f"Too small to judge, even at the end: {_named(small)}."
    if found.verdict != "UNSURE":
        return
    waiting = [row for row in rows if row.harm == "inconclusive"]
    unseen = [row.group for row in waiting if not row.n]
    if undecided := [row.group for row in waiting if row.n]:
        yield f"Not decided yet: {_named(undecided)}."
    if not left and not found.awaited:
        yield (
            f"UNSURE  {name}: all examples are seen; compare without --so-far, whose intervals are "
            "shorter."
        )
        return
    reach = "no number of examples in reach decides, if rates stay as they are"
    if unseen:
        reach = f"no PASS before {_named(unseen)} {'has' if len(unseen) == 1 else 'have'} answers"
    elif found.more is not None:
        ahead = "" if found.more <= left else f", more than the {left:,} that are left"
        about = float(f"{found.more:.2g}")
        reach = f"about {about:,.0f} more examples decide, if rates stay as they are{ahead}"
    yield f"UNSURE  {name}: {reach}."


def _named(groups: Sequence[str]) -> str:
    more = f" and {len(groups) - 3:,} more" if len(groups) > 3 else ""
    return f"{', '.join(groups[:3])}{more}"
