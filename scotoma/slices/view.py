"""How large is a slice, what is the metric inside and outside it, and is it to be trusted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, Units, Words, undefined
from scotoma.numbers.inputs import Flags
from scotoma.slices.judging.auc import Ranks
from scotoma.slices.judging.choose import Judge
from scotoma.slices.judging.tally import Rows
from scotoma.slices.outcomes import Outcome, Scored
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Key, SliceFinding, flag_rows


class SliceEstimates(NamedTuple):
    """The metric inside and outside a slice, and its difference from what it is compared with."""

    inside: Estimate
    outside: Estimate
    effect: Estimate


class Description(Protocol):
    """Describes the slices of a search, wherever their rows are."""

    @property
    def encoded(self) -> Encoded:
        """The predicates."""

    @property
    def examples(self) -> int:
        """Number of examples."""

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test."""

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""


@dataclass(frozen=True, eq=False)
class View:
    """Describes slices from the rows that this machine holds.

    Attributes:
        encoded: The predicates of all examples.
        outcome: The outcome, on the examples that count.
        evidence: Its test, on the same.
        ids: Ids of all examples.
        level: Coverage of the intervals.
        halves: The two halves of the examples that count.
        compared: Slices are compared with the baseline on the same rows.
    """

    encoded: Encoded
    outcome: Outcome
    evidence: Judge
    ids: npt.NDArray[np.generic]
    level: float
    halves: tuple[Rows, Rows]
    compared: bool

    @cached_property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""
        return flag_rows(self.encoded, key), self.ids

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""
        inside = flag_rows(self.encoded, key)
        return int(inside.sum()), int(inside[self.outcome.rows].sum())

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test.

        These are of one half, and without what earlier slices hold.
        """
        rows, evidence = np.arange(self.evidence.rows), self.evidence
        if finding.half is not None:
            rows, evidence = self._halves[finding.half]
        if finding.earlier:
            remaining = ~np.any([self._inside(key, rows) for key in finding.earlier], axis=0)
            rows, evidence = rows[remaining], evidence.take(np.flatnonzero(remaining))
        inside = self._inside(finding.key, rows)
        effect = evidence.effect(inside, self.level)
        if effect is None and self.compared:
            effect = estimate_change(self.outcome.take(rows[inside]), self.level)
        elif effect is None:
            effect = estimate_difference(self.outcome.take(rows), inside, self.level)
        own, other = (self._metric(rows, evidence, chosen) for chosen in (inside, ~inside))
        return SliceEstimates(own, other, effect)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        every = np.ones(self.evidence.rows, np.bool_)
        return self._metric(np.arange(every.size), self.evidence, every)

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        n, members = self.evidence.rows, self.outcome.model.members
        if self.outcome.baseline is None:
            return undefined("undefined (no baseline)", n=n, members=members, level=self.level)
        if isinstance(self.evidence, Ranks):
            return self.evidence.effect(np.ones(n, np.bool_), self.level)
        return estimate_change(self.outcome, self.level)

    @cached_property
    def _halves(self) -> list[tuple[Rows, Judge]]:
        return [(rows, self.evidence.take(rows)) for rows in self.halves]

    def _inside(self, key: Key, rows: Rows) -> Flags:
        return flag_rows(self.encoded, key)[self.outcome.rows[rows]]

    def _metric(self, rows: Rows, evidence: Judge, chosen: Flags) -> Estimate:
        if isinstance(evidence, Ranks):  # AUC has no other test
            return evidence.inside(chosen, self.level)
        return estimate_metric(self.outcome.take(rows[chosen]), self.level)


def estimate_metric(outcome: Outcome, level: float) -> Estimate:
    """Estimate the metric of the model at hand on all rows of an outcome."""
    number = _number(outcome, outcome.model)
    if outcome.metric.kind == "rate":
        words = Words("event", outcome.metric.counted, "the slice")
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


PURE = 0.999  # share of the examples whose answer the feature's value determines


def harm_everywhere(view: Description, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Say so where all examples differ from their baseline, as then any large slice does."""
    if settings["reference"] != "baseline" or settings["metric"] == "auc":
        return ()
    change = view.change()
    if not (change.low > 0 or change.high < 0):
        return ()
    return (
        f"all examples together differ from the baseline by {change.value:+.3g} "
        f"[{change.low:+.3g}, {change.high:+.3g}]: use reference='rest' to find where they changed "
        "more than elsewhere",
    )


def leaks(encoded: Encoded, outcome: Outcome, labels: npt.ArrayLike | None) -> tuple[str, ...]:
    """Name each feature whose values determine the label or the outcome.

    Such a feature was computed from the answer: its slices say nothing about the model.
    """
    answers: list[tuple[str, npt.NDArray[np.generic]]] = []
    if labels is not None:
        answers.append(("label", np.asarray(labels)[outcome.rows]))
    if outcome.model.members == 1 and np.isin(outcome.model.above, (0, 1)).all():
        answers.append(("outcome", outcome.model.above[:, 0]))
    notes: list[str] = []
    for name, codes in zip(encoded.features, encoded.codes, strict=True):
        known = [what for what, answer in answers if _determines(codes, answer)]
        if known:
            notes.append(
                f"column {name!r} tells the {known[0]} of nearly every example: its slices are "
                "leakage, leave it out"
            )
    return tuple(notes)


def _determines(codes: npt.NDArray[np.uint8], answer: npt.NDArray[np.generic]) -> bool:
    values, own = np.unique(answer, return_inverse=True)
    if values.size < 2 or values.size > 1000:
        return False
    table = np.bincount(codes.astype(np.int64) * values.size + own, minlength=256 * values.size)
    most = table.reshape(-1, values.size).max(1).sum() / own.size
    alone = np.bincount(own).max() / own.size
    return bool(most >= PURE and alone < 0.5 + PURE / 2 and most > alone)
