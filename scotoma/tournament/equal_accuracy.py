"""Is a technique fairer than baseline models that are as accurate as it is?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import floats
from scotoma.tournament.two_levels import two_level_mean
from scotoma.uncertainty import Estimate, check_level

__all__ = ["LARGEST_GAP", "EqualAccuracyCell", "equal_accuracy_cells"]

LARGEST_GAP = 0.01  # of accuracy, up to which two populations count as equally accurate


@dataclass(frozen=True)
class EqualAccuracyCell:
    """One technique under one variant beside the baseline's variant that is nearest in accuracy.

    Attributes:
        technique: The technique.
        variant: Its variant, dense among them.
        metric: The metric; 0 is fair.
        beside: The baseline's variant.
        accuracy_gap: Accuracy of the technique's members minus theirs, a fraction, paired by seed.
        comparable: Whether the gap is at most `LARGEST_GAP` either way.
        gain: Bias of the baseline's variant minus the technique's, paired by seed.
    """

    technique: str
    variant: str
    metric: str
    beside: str
    accuracy_gap: Estimate
    comparable: bool
    gain: Estimate


def equal_accuracy_cells(
    values: npt.ArrayLike,
    accuracy: npt.ArrayLike,
    techniques: Sequence[str],
    variants: Sequence[str],
    metrics: Sequence[str],
    *,
    base: int = 0,
    resampled: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[EqualAccuracyCell]:
    """Compare every technique and variant with the baseline's variant of nearest accuracy.

    Models that err more often can look fairer or less fair for that alone. Where no variant of the
    baseline comes within `LARGEST_GAP`, there is no comparison at equal accuracy, and it says so.

    Args:
        values: Bias, shape (techniques, variants, seeds, metrics), paired by seed.
        accuracy: Fractions, shape (techniques, variants, seeds).
        techniques: Names of axis 0.
        variants: Names of axis 1.
        metrics: Names of axis 3.
        base: Place of the baseline in `techniques`.
        resampled: Mean bias over seeds on test sets drawn anew, shape (draws, techniques,
            variants, metrics); None for intervals over seeds alone.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Raises:
        DataError: Shapes that do not fit together.

    >>> rng = np.random.default_rng(0)
    >>> bias = rng.normal(0, 0.001, (2, 2, 8, 1)) + [[[[0.1]], [[0.2]]], [[[0.04]], [[0.05]]]]
    >>> right = rng.normal(0, 0.001, (2, 2, 8)) + [[[0.92], [0.88]], [[0.95], [0.92]]]
    >>> cells = equal_accuracy_cells(bias, right, ["base", "fair"], ["dense", "prune-0.9"], ["BA"])
    >>> [(cell.variant, cell.beside, cell.comparable) for cell in cells]
    [('dense', 'dense', False), ('prune-0.9', 'dense', True)]
    """
    check_level(level)
    bias, top1 = floats(values, "values"), floats(accuracy, "accuracy")
    if top1.shape != bias.shape[:3]:
        raise DataError(
            f"accuracy must have shape {bias.shape[:3]}, got {top1.shape}: pass one number a member"
        )
    draws = None if resampled is None else floats(resampled, "resampled")
    means = top1.mean(axis=2)
    cells = []
    for t in (t for t in range(len(techniques)) if t != base):
        for v, variant in enumerate(variants):
            nearest = int(np.abs(means[base] - means[t, v]).argmin())
            gap = two_level_mean(top1[t, v] - top1[base, nearest], level=level)
            for m, metric in enumerate(metrics):
                drawn = None if draws is None else draws[:, base, nearest, m] - draws[:, t, v, m]
                cells.append(
                    EqualAccuracyCell(
                        technique=techniques[t],
                        variant=variant,
                        metric=metric,
                        beside=variants[nearest],
                        accuracy_gap=gap,
                        comparable=abs(gap.value) <= LARGEST_GAP,
                        gain=two_level_mean(
                            bias[base, nearest, :, m] - bias[t, v, :, m], drawn, level=level
                        ),
                    )
                )
    return cells
