"""Do compressed models lose more than dense ones on other pictures than the test set's?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.audit.base import rows_at
from scotoma.numbers import DENSE, Estimate, Number, Units, Words, undefined
from scotoma.numbers.inputs import Flags, Floats, cluster_ids
from scotoma.robustness.losses import SCALES, Scale, loss, why_undefined
from scotoma.robustness.right_answers import Sides

PICTURES = Words("right answer", "pictures", "this set")


@dataclass(frozen=True, eq=False)
class TwoSets:
    """The pictures of the test set and, below them, those of another one; members are the same.

    Attributes:
        units: Which of all these pictures are one unit.
        first: Which are of the test set, shape (n + n',).
    """

    units: Units
    first: Flags

    @classmethod
    def of(
        cls,
        n: int,
        others: int,
        clusters: npt.ArrayLike | None = None,
        other_clusters: npt.ArrayLike | None = None,
    ) -> TwoSets:
        """Stack n pictures and others; no cluster lies in both.

        >>> TwoSets.of(2, 3, [5, 5]).units.clusters.tolist()
        [0, 0, 1, 2, 3]
        """
        codes = [
            np.arange(rows) if (own := cluster_ids(ids, rows)) is None else own
            for rows, ids in ((n, clusters), (others, other_clusters))
        ]
        codes[1] = codes[1] + codes[0].max(initial=-1) + 1
        return cls(Units.of(n + others, np.concatenate(codes)), np.arange(n + others) < n)

    def means(
        self, first: npt.ArrayLike, second: npt.ArrayLike, axis: str = DENSE
    ) -> tuple[Number, Number]:
        """Mean of the values in either set, shape (n, K) and (n', K)."""
        every: Floats = np.concatenate([np.asarray(part, np.float64) for part in (first, second)])
        one, other = (
            self.units.mean(every, which, axis=axis) for which in (self.first, ~self.first)
        )
        return one, other


@dataclass(frozen=True, eq=False)
class SetAnswers:
    """Right answers to the test set and to another one.

    Attributes:
        name: What the set is called.
        classes: Classes that it has pictures of.
        masked: Whether models chose among these alone.
        selected_against: The model that failed on these pictures, if they were chosen for that.
        right: By variant, whether each member is right in the test set, shape (n, K), and in the
            other one, shape (n', K).
        sets: The pictures of both.
    """

    name: str
    classes: int
    masked: bool
    selected_against: str | None
    right: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]
    sets: TwoSets

    def described(self) -> dict[str, Any]:
        """Fields of `audit.robustness.TriedSet`."""
        return {
            "name": self.name,
            "n": int((~self.sets.first).sum()),
            "classes": self.classes,
            "masked": self.masked,
            "selected_against": self.selected_against,
        }

    def rows(self, axis: Callable[[str], str]) -> Iterator[dict[str, Any]]:
        """Compare every compressed variant with dense.

        Args:
            axis: Gives the axis of the members of a variant.

        Returns:
            Fields of `audit.base.Row`; of dense alone where there is no picture.
        """
        dense, facts = self.sets.means(*self.right["dense"]), {"name": self.name}
        accuracies = {"dense": dense[1].rate(PICTURES), "dense_test": dense[0].rate(PICTURES)}
        yield from rows_at({"facts": facts}, accuracies, "sets.")
        scales = () if self.selected_against else SCALES
        for name, right in self.right.items():
            if name != "dense" and not self.sets.first.all():
                own = self.sets.means(*right, axis(name))
                lost = {"accuracy": own[1].rate(PICTURES)} | lost_elsewhere(dense, own, scales)
                yield from rows_at({"variant": name, "facts": facts}, lost, "sets.rows.")


def lost_elsewhere(
    dense: Sides, compressed: Sides, scales: tuple[Scale, ...] = SCALES
) -> dict[str, Estimate]:
    """Compare two populations on the test set and on another set of other pictures.

    Args:
        dense: Accuracy of the dense members on the test set and on the other one (`TwoSets.means`).
        compressed: The same of the compressed members.
        scales: On which losses are compared; none where the set was selected against a model.

    Returns:
        `difference`, the accuracy on the set, compressed minus dense, a fraction; by scale what is
        lost from the test set to the other one, compressed minus dense.

    >>> test, hard = [[True], [True], [True], [False]], [[True], [False]]
    >>> sets = TwoSets.of(4, 2)
    >>> found = lost_elsewhere(sets.means(test, hard), sets.means(test, [[False], [False]], "c"))
    >>> found["difference"].value, found["absolute"].value
    (-0.5, 0.5)
    """
    rises = [after.since(before) for before, after in zip(dense, compressed, strict=True)]
    difference = replace(rises[1], events=rises[1].changed)
    losses: dict[str, Estimate] = {}
    for scale in scales:
        if reason := why_undefined(dense, scale) or why_undefined(compressed, scale):
            losses[scale] = undefined(reason, n=difference.n, members=difference.members)
            continue
        # Each set has a floor of its own: flips in one say nothing of the other's pictures.
        units = np.abs(np.prod([_moved(own, scale) for own in (dense, compressed)], axis=0))
        floor = float(units @ [rise.floor for rise in rises])
        apart = loss(compressed, scale) - loss(dense, scale)
        found = replace(apart, floor=floor, events=difference.events).estimate()
        losses[scale] = replace(found, n=difference.n)
    return {"difference": difference.estimate(), **losses}


def _moved(sides: Sides, scale: Scale) -> list[float]:
    """What a picture moves of a loss that flips in the test set, and one in the other set."""
    clean, other = sides
    flips = (clean, replace(other, flip=None)), (replace(clean, flip=None), other)
    return [float(loss(pair, scale).flip or 0.0) for pair in flips]
