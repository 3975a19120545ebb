"""AP and AR of populations of detectors, before and after, each with an interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scotoma.detection.average_precision import DetectionScores
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, satterthwaite, undefined
from scotoma.numbers.inputs import Floats


def precision_estimates(
    dense: Sequence[DetectionScores],
    compressed: Sequence[DetectionScores],
    *,
    images: int,
    paired: bool = False,
) -> dict[str, dict[str, Estimate]]:
    """Estimate COCO's numbers of two populations of detectors, and what changes.

    The variance is that of `jackknife` over groups of images plus, from five detectors a side, that
    between detectors over their number. What chance of one detector on one image adds is in both,
    so that intervals are rather too wide.

    Args:
        dense: Scores of each dense detector, with those without each group of images.
        compressed: Of each compressed detector, on the same images and groups.
        images: How many there are.
        paired: Detector m of both derives from the same training run.

    Returns:
        `AP`, `AP50` and so on, those that have values without groups of images: `dense` and
        `compressed`, each a mean over its detectors, and their `change`.
    """
    members = min(len(dense), len(compressed))
    rows = {}
    for name in dense[0].without:
        sides = [
            (
                np.array([one.value[name] for one in side]),
                np.stack([one.without[name] for one in side], axis=1),
            )
            for side in (dense, compressed)
        ]
        (d, d_without), (c, c_without) = sides
        runs = [c - d] if paired else [d, c]
        lost = c_without.mean(axis=1) - d_without.mean(axis=1)
        rows[name] = {
            "dense": _estimate(d.mean(), d_without.mean(axis=1), [d], images, len(d)),
            "compressed": _estimate(c.mean(), c_without.mean(axis=1), [c], images, len(c)),
            "change": _estimate(c.mean() - d.mean(), lost, runs, images, members),
        }
    return rows


def jackknife(
    value: float,
    without: Floats,
    *,
    images: int,
    runs: Sequence[Floats] = (),
    members: int = 1,
    note: str = "",
) -> Estimate:
    """The interval of a number from its values without each group of images.

    V = (R-1)/R sum (x_r - mean)^2 over R groups, and t with R - 1 degrees of freedom; the variance
    between training runs is added to it.

    Args:
        value: The number from all images.
        without: Its values without each group, shape (R,).
        images: How many there are.
        runs: The numbers of the members of each population, of which those below `FEWEST_RUNS`
            members add nothing.
        members: Size of the smaller population.
        note: What to say beside the number.

    References:
        Kott (2001), Journal of Official Statistics 17:521-526: the delete-a-group jackknife.

    >>> estimate = jackknife(0.5, np.array([0.4, 0.5, 0.6]), images=3)
    >>> round(estimate.se, 3), estimate.df
    (0.115, 2.0)
    """
    number = len(without)
    if number < 2 or not np.isfinite([value, *without]).all():
        reason = "interval not estimable (too few images)" if np.isfinite(value) else (
            "undefined (no box)"
        )  # fmt: skip
        return undefined(reason, value=value, n=images, members=members, note=note)
    parts = [((number - 1) / number * float(((without - without.mean()) ** 2).sum()), number - 1.0)]
    parts += [
        (float(own.var(ddof=1)) / len(own), len(own) - 1.0)
        for own in runs
        if len(own) >= FEWEST_RUNS
    ]
    total, df = satterthwaite(parts)
    if not total > 0:
        reason = f"interval not estimable (nothing varies over {images:,} images)"
        return undefined(reason, value=value, n=images, members=members, note=note)
    return Estimate.on_scale(value, total**0.5, df, n=images, members=members, note=note)


def _estimate(
    value: float, without: Floats, runs: Sequence[Floats], images: int, members: int
) -> Estimate:
    return jackknife(
        float(value), without, images=images, runs=runs, members=members, note=few_runs(members)
    )
