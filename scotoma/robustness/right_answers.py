"""Which members answer which example right, on the clean picture and under each corruption?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import DENSE, Estimate, Number, Units, Words
from scotoma.numbers.inputs import Flags, Floats

ACCURACY = Words("right answer", "examples", "this group")
Sides = tuple[Number, Number]  # accuracy on clean and on corrupted pictures


@dataclass(frozen=True, eq=False)
class Answered:
    """Right answers of one population, on clean pictures and averaged over some conditions.

    Attributes:
        clean: Whether each member is right on each clean picture, 0 or 1, shape (n, K).
        corrupted: Share of the conditions under which it is right, in [0, 1], shape (n, K).
        units: Which examples are one unit.
        axis: Of the members; a population that derives from another one has its axis.
    """

    clean: Floats
    corrupted: Floats
    units: Units
    axis: str = DENSE

    def means(self, at_risk: Flags | None = None) -> Sides:
        """Accuracy on clean and on corrupted pictures, of the examples at risk."""
        clean, corrupted = (
            self.units.mean(own, at_risk, axis=self.axis) for own in (self.clean, self.corrupted)
        )
        return replace(clean, flip=None), corrupted  # an example flips where it is corrupted


@dataclass(frozen=True, eq=False)
class RightAnswers:
    """Right answers of one population: every member, every example, every condition.

    Attributes:
        clean: Whether each member is right on each clean picture, bool, shape (n, K).
        corrupted: The same under each corruption at each severity, bool, shape (C, S, n, K).
        units: As of `Answered`.
        axis: As of `Answered`.
    """

    clean: Flags
    corrupted: Flags
    units: Units
    axis: str = DENSE

    def __post_init__(self) -> None:
        if self.corrupted.ndim != 4 or self.corrupted.shape[2:] != self.clean.shape:
            raise DataError(
                "clean and corrupted answers must be of the same examples and members, got shapes "
                f"{self.clean.shape} and {self.corrupted.shape}: predict all conditions again"
            )

    @classmethod
    def of(
        cls,
        clean: npt.ArrayLike,
        corrupted: npt.ArrayLike,
        labels: npt.ArrayLike,
        clusters: npt.ArrayLike | None = None,
        axis: str = DENSE,
    ) -> RightAnswers:
        """Compare predicted class ids with labels.

        Args:
            clean: Class ids on clean pictures, shape (n, K).
            corrupted: Class ids under each condition, shape (C, S, n, K).
            labels: Class ids, shape (n,).
            clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
            axis: Of the members.

        >>> RightAnswers.of([[1], [0]], [[[[1], [1]]]], [1, 0]).corrupted.ravel().tolist()
        [True, False]
        """
        truth = np.asarray(labels)[:, None]
        units = Units.of(len(truth), clusters)
        return cls(np.asarray(clean) == truth, np.asarray(corrupted) == truth, units, axis)

    def under(
        self, corruptions: Sequence[int], severities: Sequence[int] | None = None
    ) -> Answered:
        """Average over corruptions, each weighing the same, and over severities.

        Args:
            corruptions: Places in the first axis.
            severities: Places in the second; None for all.

        >>> right = RightAnswers.of([[1]], [[[[1]], [[0]]]], [1])
        >>> right.under([0]).corrupted.tolist(), right.under([0], [1]).corrupted.tolist()
        ([[0.5]], [[0.0]])
        """
        chosen = self.corrupted[list(corruptions)]
        if severities is not None:
            chosen = chosen[:, list(severities)]
        shares = chosen.mean(axis=(0, 1), dtype=np.float64)
        return Answered(self.clean.astype(np.float64), shares, self.units, self.axis)

    def accuracy(
        self, corruptions: Sequence[int] = (), severities: Sequence[int] | None = None
    ) -> Estimate:
        """Accuracy over some conditions, a fraction; on clean pictures without any.

        >>> RightAnswers.of([[1]] * 4, [[[[1]] * 4]], [1, 1, 1, 0]).accuracy().value
        0.75
        """
        own = self.under(corruptions, severities).corrupted if len(corruptions) else self.clean
        return self.units.mean(own, axis=self.axis).rate(ACCURACY)
