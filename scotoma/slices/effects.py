"""What is the metric of some rows, and how far is it from a baseline's or from other rows'?"""

from __future__ import annotations

from dataclasses import replace

from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, Units, Words
from scotoma.numbers.inputs import Flags
from scotoma.slices.outcomes import Outcome, Scored

NOTHING = {"all": "examples", "negatives": "negatives", "positives": "positives"}


def estimate_metric(outcome: Outcome, level: float) -> Estimate:
    """Estimate the metric of the model at hand on all rows of an outcome."""
    number = _number(outcome, outcome.model)
    if outcome.metric.kind == "rate":
        words = Words("event", NOTHING[outcome.metric.risk], "the slice")
        return number.rate(words, level=level)
    if outcome.metric.kind == "ratio":
        return number.estimate(reason="undefined (nothing to divide by)", level=level)
    return number.estimate(level=level)


def estimate_change(outcome: Outcome, level: float) -> Estimate:
    """Estimate the metric minus the baseline's on the same rows, as the change of any group."""
    assert outcome.baseline is not None
    axis = DENSE if outcome.paired else COMPRESSED
    after = _number(outcome, outcome.model, axis=axis, flips=outcome.binary)
    before = _number(outcome, outcome.baseline, flips=outcome.binary)
    return after.since(before).estimate(level=level)


def estimate_difference(outcome: Outcome, inside: Flags, level: float) -> Estimate:
    """Estimate the metric of some rows, or its change, minus that of all others.

    Its n is that of the rows inside.
    """
    sides = []
    for rows in (inside, ~inside):
        if outcome.baseline is None:
            sides.append(_number(outcome, outcome.model, rows))
        else:
            axis = DENSE if outcome.paired else COMPRESSED
            after = _number(outcome, outcome.model, rows, axis=axis)
            sides.append(after - _number(outcome, outcome.baseline, rows))
    here, there = sides
    return replace((here - there).estimate(level=level), n=here.n)


def _number(
    outcome: Outcome,
    scored: Scored,
    inside: Flags | None = None,
    *,
    axis: str = DENSE,
    flips: bool | None = None,
) -> Number:
    """Give a population's metric, with the events of a rate, or where `flips` says so."""
    units = Units.of(len(scored.above), outcome.clusters)
    if scored.below is not None:
        above, below = (
            units.mean(part, inside, axis=axis, flip=None) for part in (scored.above, scored.below)
        )
        return above / below
    events = outcome.metric.kind == "rate" if flips is None else flips
    return units.mean(scored.above, inside, axis=axis, flip=1.0 if events else None)
