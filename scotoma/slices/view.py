"""How large is a slice, what is the metric inside and outside it, and is it to be trusted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import Flags
from scotoma.slices.judging.evidence import Evidence, SliceEstimates
from scotoma.slices.judging.tally import Rows
from scotoma.slices.outcomes import Outcome
from scotoma.slices.search.predicates import Encoded
from scotoma.slices.search.sweep import Key, SliceFinding, flag_rows


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
        evidence: The outcome and its test, on the examples that count.
        ids: Ids of all examples.
        level: Coverage of the intervals.
        halves: The two halves of the examples that count.
    """

    encoded: Encoded
    evidence: Evidence
    ids: npt.NDArray[np.generic]
    level: float
    halves: tuple[Rows, Rows]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return self.ids.size

    def mask(self, key: Key) -> tuple[Flags, npt.NDArray[np.generic]]:
        """Flag the examples that lie in a slice, and give the ids of all."""
        return flag_rows(self.encoded, key), self.ids

    def size(self, key: Key) -> tuple[int, int]:
        """Count the examples in a slice, and those of them that count for the metric."""
        inside = flag_rows(self.encoded, key)
        return int(inside.sum()), int(inside[self.evidence.known.rows].sum())

    def estimates(self, finding: SliceFinding) -> SliceEstimates:
        """Estimate the metric and the effect of a slice on the examples of its test.

        These are of one half, and without what earlier slices hold.
        """
        evidence, every = self.evidence, self.evidence.known.rows
        rows = np.arange(every.size) if finding.half is None else self.halves[finding.half]
        for key in finding.earlier:
            rows = rows[~flag_rows(self.encoded, key)[every[rows]]]
        if rows.size < every.size:
            evidence = evidence.take(rows)
        inside = flag_rows(self.encoded, finding.key)[evidence.known.rows]
        return evidence.estimates(inside, self.level)

    def overall(self) -> Estimate:
        """Estimate the metric of all examples."""
        return self.evidence.metric(np.ones(self.evidence.rows, np.bool_), self.level)

    def change(self) -> Estimate:
        """Estimate the metric of all examples minus that of the baseline on them."""
        known = self.evidence.known
        if known.baseline is None:
            reason, members = "undefined (no baseline)", known.model.members
            return undefined(reason, n=self.evidence.rows, members=members, level=self.level)
        return self.evidence.change(self.level)


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
