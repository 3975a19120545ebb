"""How well do scores rank the examples of each label? Average precision, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats
from scotoma.numbers import (
    Estimate,
    check_level,
    cluster_sums,
    crossed_variance,
    of_variance,
    undefined,
)

__all__ = ["RankedLabels", "average_precision"]


def average_precision(present: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[float, Floats]:
    """Average precision of one label, and how each example moves it.

    AP is the mean over the positives of the precision among all that score at least as much.
    Examples of one score count together, so that their order decides nothing.

    Args:
        present: Which examples have the label, bool, shape (N,).
        scores: The higher, the likelier; shape (N,).

    Returns:
        AP in (0, 1], and its derivative by the weight of every example, shape (N,), which sums to
        0; nan and zeros where no example has the label.

    References:
        Everingham et al. (2010), "The Pascal Visual Object Classes Challenge", section 4.2, without
        interpolation.

    >>> average_precision([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])[0].__round__(3)
    0.833
    """
    y, s = np.asarray(present, bool), np.asarray(scores, np.float64)
    positives = int(y.sum())
    if not positives:
        return np.nan, np.zeros(len(y))
    levels, place = np.unique(-s, return_inverse=True)  # the highest score first
    true = np.bincount(place, y, len(levels))
    above, true_above = np.cumsum(np.bincount(place, minlength=len(levels))), np.cumsum(true)
    precision = true_above / above
    value = float((true * precision).sum() / positives)
    # Of positives that score no more than an example, whose precision this example is part of.
    gain = np.cumsum((true / above)[::-1])[::-1]
    loss = np.cumsum((true * precision / above)[::-1])[::-1]
    moves = y * (precision[place] - value) + y * gain[place] - loss[place]
    return value, moves / positives


@dataclass(frozen=True, eq=False)
class RankedLabels:
    """Average precision of every label and member of one population.

    Attributes:
        values: Shape (L, M); nan for a label that no example has.
        influences: Value plus n times the derivative by each of n clusters, shape (L, n, M).
    """

    values: Floats
    influences: Floats

    @classmethod
    def of(
        cls, present: npt.ArrayLike, scores: npt.ArrayLike, clusters: npt.ArrayLike | None = None
    ) -> RankedLabels:
        """Rank the examples of every label by the scores of every member.

        Args:
            present: Which examples have which label, bool, shape (N, L).
            scores: Shape (N, L, M).
            clusters: Id of each example's cluster, shape (N,); None where each is its own.

        >>> ranked = RankedLabels.of([[1], [0]], [[[0.9, 0.2]], [[0.1, 0.8]]])
        >>> ranked.values
        array([[1. , 0.5]])
        """
        y, s = np.asarray(present, bool), np.asarray(scores)
        values, influences = [], []
        for label in range(y.shape[1]):
            own = [average_precision(y[:, label], s[:, label, m]) for m in range(s.shape[2])]
            value = np.array([one for one, _ in own])
            moves = cluster_sums(np.stack([move for _, move in own], axis=1), clusters)
            values.append(value)
            influences.append(value + len(moves) * moves)
        return cls(np.stack(values), np.stack(influences))

    @property
    def ranked(self) -> npt.NDArray[np.bool_]:
        """Which labels some example has, shape (L,)."""
        return np.isfinite(self.values[:, 0])

    def mean(self, labels: npt.NDArray[np.bool_], *, level: float = 0.95) -> Estimate:
        """Mean over some labels and all members, with its interval.

        Args:
            labels: Which, bool, shape (L,); labels that no example has are left out.
            level: Coverage of the interval, a fraction in (0, 1).
        """
        check_level(level)
        kept = labels & self.ranked
        n, members = self.influences.shape[1:]
        if not kept.any():
            return undefined("undefined (no positives)", n=n, members=members, level=level)
        value = float(self.values[kept].mean())
        if not 0 < value < 1:
            reason = "interval not estimable (every positive ranks above every negative)"
            return undefined(reason, value=value, n=n, members=members, level=level)
        variance = crossed_variance(self.influences[kept].mean(0)).scaled(1 / (value * (1 - value)))
        return of_variance(value, variance, n=n, members=members, level=level, scale="logit")

    def change(
        self,
        compressed: RankedLabels,
        labels: npt.NDArray[np.bool_],
        *,
        paired: bool,
        level: float = 0.95,
    ) -> Estimate:
        """How much the mean over some labels changes from this population to another.

        Args:
            compressed: The other, on the same examples.
            labels: Which, bool, shape (L,).
            paired: Member m of it derives from member m of this one.
            level: Coverage of the interval, a fraction in (0, 1).
        """
        check_level(level)
        kept = labels & self.ranked
        n = self.influences.shape[1]
        members = min(self.values.shape[1], compressed.values.shape[1])
        if not kept.any():
            return undefined("undefined (no positives)", n=n, members=members, level=level)
        variance = crossed_variance(
            self.influences[kept].mean(0), compressed.influences[kept].mean(0), paired=paired,
            unit=None,
        )  # fmt: skip
        value = float(compressed.values[kept].mean() - self.values[kept].mean())
        return of_variance(value, variance, n=n, members=members, level=level)
