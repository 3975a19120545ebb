"""How much harm does compression do to the group that it harms most, as one number?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.numbers import COMPRESSED, DENSE, Estimate, Units
from scotoma.numbers.inputs import Array, Flags, Floats

__all__ = ["OTHERS", "Harm", "error_change"]

OTHERS = 0.1  # weight of the mean rise: of two groups alike, either may be mended first


def error_change(
    before: Flags,
    after: Flags,
    clusters: Array | None,
    *,
    paired: bool = True,
) -> Estimate:
    """Estimate the change of an error rate over members.

    Args:
        before: Whether member k is wrong on an example, shape (N, K).
        after: The same after it, shape (N, K'), as many where they are paired.
        clusters: Cluster ids, shape (N,); None where every example is its own.
        paired: Whether member k after is made of member k before.

    Returns:
        After less before, a fraction, with its interval.
    """
    units = Units.of(len(before), clusters)
    after_it = units.mean(after, axis=DENSE if paired else COMPRESSED)
    return after_it.since(units.mean(before)).estimate()


@dataclass(frozen=True)
class Harm:
    """The groups of some examples, and what a variant must beat on them.

    Attributes:
        groups: Their keys.
        masks: Who belongs to each, bool, shape (G, N).
        baseline: Whether dense member k is wrong on an example, shape (N, K).
        reach: Half of the interval of each group's rise under the variant that is repaired, shape
            (G,): what chance alone may show.
        worst: The group whose rise exceeds its reach most.
    """

    groups: tuple[str, ...]
    masks: Flags
    baseline: Flags
    reach: Floats
    worst: int

    @classmethod
    def of(
        cls,
        groups: tuple[str, ...],
        masks: Flags,
        baseline: Flags,
        wrong: Flags,
        clusters: Array | None,
        *,
        paired: bool = True,
    ) -> Harm:
        """Measure the reach of every group, once.

        Args:
            groups: Keys of groups with examples.
            masks: Shape (G, N).
            baseline: Shape (N, K).
            wrong: Whether member k of the variant is wrong, shape (N, K').
            clusters: Shape (N,), or None.
            paired: Whether member k of the variant is made of dense member k.
        """
        reach = []
        for mask in masks:
            own = None if clusters is None else clusters[mask]
            rise = error_change(baseline[mask], wrong[mask], own, paired=paired)
            n = max(1, rise.n)
            known = np.isfinite(rise.low) and np.isfinite(rise.high)
            reach.append(max(1 / n, (rise.high - rise.low) / 2) if known else 1.0)
        one = cls(groups, masks, baseline, np.array(reach), 0)
        worst = int(np.argmax(one.rises(wrong) - one.reach))
        return cls(groups, masks, baseline, one.reach, worst)

    def rises(self, wrong: Flags) -> Floats:
        """Rise of each group's error against dense, a fraction, shape (G,)."""
        change = wrong.astype(np.float64).mean(axis=1) - self.baseline.mean(axis=1)
        return np.asarray(self.masks @ change / self.masks.sum(axis=1))

    def shown(self, wrong: Flags) -> float:
        """The largest rise beyond its reach: above 0 where harm is shown."""
        return float((self.rises(wrong) - self.reach).max())

    def __call__(self, wrong: Flags) -> float:
        """The number that a repair lowers: `shown`, and a tenth of the mean rise of all groups.

        The reach stays that of the variant that is repaired, so that a candidate cannot win by
        being less certain.
        """
        return self.shown(wrong) + OTHERS * float(np.maximum(self.rises(wrong), 0).mean())
