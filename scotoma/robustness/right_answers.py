"""Which members answer which example right, on the clean picture and under each corruption?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Floats
from scotoma.numbers import Estimate, Units, Words, cluster_sums, ratio_influence

__all__ = ["Answered", "RightAnswers"]

ACCURACY = Words("right answer", "examples", "this group")


@dataclass(frozen=True, eq=False)
class Answered:
    """Right answers of one population, on clean pictures and averaged over some conditions.

    Attributes:
        clean: Whether each member is right on each clean picture, 0 or 1, shape (n, K).
        corrupted: Share of the conditions under which it is right, in [0, 1], shape (n, K).
    """

    clean: Floats
    corrupted: Floats

    def accuracies(self, at_risk: npt.NDArray[np.bool_]) -> tuple[float, float]:
        """Accuracy on clean and on corrupted pictures, fractions; nan without examples at risk."""
        if not at_risk.any():
            return float("nan"), float("nan")
        return float(self.clean[at_risk].mean()), float(self.corrupted[at_risk].mean())

    def influence(
        self,
        slopes: tuple[float, float],
        at_risk: npt.NDArray[np.bool_],
        clusters: npt.ArrayLike | None = None,
    ) -> Floats:
        """Influence of every example (or cluster) on `slopes @ (clean, corrupted accuracy)`.

        Args:
            slopes: Of the clean and of the corrupted accuracy.
            at_risk: Examples that count, bool, shape (n,), at least one; others have none.
            clusters: Id of each example's cluster, shape (n,); None leaves every one its own.

        Returns:
            Shape (clusters, K).

        >>> right = Answered(np.array([[1.0], [1.0]]), np.array([[0.5], [1.0]]))
        >>> right.influence((1.0, -1.0), np.array([True, True])).tolist()
        [[0.25], [-0.25]]
        """
        events = (slopes[0] * self.clean + slopes[1] * self.corrupted) * at_risk[:, None]
        rows = cluster_sums(at_risk.astype(float), clusters)
        return ratio_influence(cluster_sums(events, clusters), rows)


@dataclass(frozen=True, eq=False)
class RightAnswers:
    """Right answers of one population: every member, every example, every condition.

    Conditions are appended one by one, and examples shard by shard: all of it is additive.

    Attributes:
        clean: Whether each member is right on each clean picture, bool, shape (n, K).
        corrupted: The same under each corruption at each severity, bool, shape (C, S, n, K).
    """

    clean: npt.NDArray[np.bool_]
    corrupted: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.corrupted.ndim != 4 or self.corrupted.shape[2:] != self.clean.shape:
            raise DataError(
                "clean and corrupted answers must be of the same examples and members, got shapes "
                f"{self.clean.shape} and {self.corrupted.shape}: predict all conditions again"
            )

    @classmethod
    def of(
        cls, clean: npt.ArrayLike, corrupted: npt.ArrayLike, labels: npt.ArrayLike
    ) -> RightAnswers:
        """Compare predicted class ids with labels.

        Args:
            clean: Class ids on clean pictures, shape (n, K).
            corrupted: Class ids under each condition, shape (C, S, n, K).
            labels: Class ids, shape (n,).

        >>> RightAnswers.of([[1], [0]], [[[[1], [1]]]], [1, 0]).corrupted.ravel().tolist()
        [True, False]
        """
        truth = np.asarray(labels)[:, None]
        return cls(np.asarray(clean) == truth, np.asarray(corrupted) == truth)

    @property
    def members(self) -> int:
        """Members of the population."""
        return int(self.clean.shape[1])

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
        return Answered(self.clean.astype(np.float64), chosen.mean(axis=(0, 1), dtype=np.float64))

    def accuracy(
        self,
        corruptions: Sequence[int],
        severities: Sequence[int] | None = None,
        *,
        at_risk: npt.NDArray[np.bool_] | None = None,
        clusters: npt.ArrayLike | None = None,
        level: float = 0.95,
    ) -> Estimate:
        """Accuracy over some conditions, a fraction, with its interval over examples and members.

        Args:
            corruptions: Places in the first axis; none for the clean pictures.
            severities: Places in the second; None for all.
            at_risk: Examples that count, shape (n,); None for all.
            clusters: Id of each example's cluster, shape (n,).
            level: Coverage, a fraction in (0, 1).

        >>> RightAnswers.of([[1]] * 4, [[[[1]] * 4]], [1, 1, 1, 0]).accuracy([]).value
        0.75
        """
        risk = np.ones(len(self.clean), np.bool_) if at_risk is None else at_risk
        shares = self.under(corruptions, severities).corrupted if len(corruptions) else self.clean
        return Units.of(len(risk), clusters).mean(shares, risk).rate(ACCURACY, level=level)
