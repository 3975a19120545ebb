"""Members that say one class whatever they see: kept, named, and what they do to the mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scotoma.predictions import Predictions

__all__ = ["collapsed"]


def collapsed(found: Predictions, labels: NDArray[np.integer]) -> Iterator[str]:
    """Name each member that predicts one class for every example, where labels are several.

    Such a member has diverged in training, or was compressed too far. It belongs to the
    population, for the next training run may end so too; but it alone can make an effect.

    Args:
        found: Of one variant.
        labels: Class ids, shape (N,).

    Returns:
        Sentences without a full stop.

    >>> votes = np.array([[0, 0], [0, 1]], np.uint8)
    >>> one = Predictions("dense", ("a", "b"), (0, 1), ("cat", "dog"), votes)
    >>> next(collapsed(one, np.array([0, 1]))).partition(": ")[2]
    'mean top-1 is 75.0% with it, 100.0% without'
    """
    said = found.predicted
    if len(np.unique(labels)) < 2:
        return
    constant = (said == said[:1]).all(axis=0)
    top1 = (said == labels[:, None]).mean(axis=0)
    for place in np.flatnonzero(constant):
        others = np.arange(len(top1)) != place
        without = (
            f"{100 * top1[others].mean():.1f}% without" if others.any() else "and is the only one"
        )
        yield (
            f"member {found.members[place]} of {found.variant} says "
            f"{found.classes[said[0, place]]!r} of every example and stays: mean top-1 is "
            f"{100 * top1.mean():.1f}% with it, {without}"
        )
