"""What a population loses on corrupted pictures, on three scales that can disagree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from scotoma.inputs import Floats, floats

__all__ = ["SCALES", "Loss", "Scale", "loss", "relative_robustness"]

Scale = Literal["absolute", "relative", "log_odds"]
SCALES: tuple[Scale, ...] = ("absolute", "relative", "log_odds")


@dataclass(frozen=True)
class Loss:
    """What accuracy loses between clean and corrupted pictures, on one scale.

    Attributes:
        value: The loss, larger where more is lost; nan where the scale is undefined.
        slopes: Its derivatives with respect to the clean and the corrupted accuracy.
        reason: Why it is undefined, as a sentence to print; else empty.
    """

    value: float
    slopes: tuple[float, float]
    reason: str = ""


def loss(clean: float, corrupted: float, scale: Scale) -> Loss:
    """Compute the loss on one scale.

    absolute: clean - corrupted. relative: 1 - corrupted / clean, which is one minus the paper's
    relative robustness. log_odds: logit(clean) - logit(corrupted).

    Args:
        clean: Accuracy on clean pictures, a fraction.
        corrupted: Accuracy on corrupted pictures, a fraction.
        scale: One of `SCALES`.

    References:
        Hooker et al. (2019), section 6.4, for the relative scale.

    >>> [round(loss(0.9, 0.6, scale).value, 3) for scale in SCALES]
    [0.3, 0.333, 1.792]
    >>> loss(0.0, 0.0, "relative").reason
    'undefined (no right answer on clean pictures)'
    """
    if math.isnan(clean):
        return Loss(math.nan, (math.nan, math.nan), "undefined (no examples)")
    if scale == "absolute":
        return Loss(clean - corrupted, (1.0, -1.0))
    if scale == "relative":
        if clean == 0:
            reason = "undefined (no right answer on clean pictures)"
            return Loss(math.nan, (math.nan, math.nan), reason)
        return Loss(1 - corrupted / clean, (corrupted / clean**2, -1 / clean))
    for accuracy, pictures in ((clean, "clean"), (corrupted, "corrupted")):
        if accuracy in (0.0, 1.0):
            reason = f"undefined (accuracy {100 * accuracy:g}% on {pictures} pictures has no odds)"
            return Loss(math.nan, (math.nan, math.nan), reason)
    value = math.log(clean / (1 - clean)) - math.log(corrupted / (1 - corrupted))
    return Loss(value, (1 / (clean * (1 - clean)), -1 / (corrupted * (1 - corrupted))))


def relative_robustness(corrupted: npt.ArrayLike, clean: npt.ArrayLike) -> Floats:
    """Compute the paper's relative robustness, percent: a ratio of means over members.

    Args:
        corrupted: Accuracy of each member under each condition, shape (..., M, S).
        clean: Accuracy of each member on clean pictures, shape (M,).

    Returns:
        100 mean_m mean_s corrupted / mean_m clean, shape (...); nan where clean accuracy is 0.

    References:
        Hooker et al. (2019), Table 5.

    >>> float(relative_robustness([[0.6, 0.5], [0.4, 0.5]], [0.8, 0.8]))
    62.5
    """
    means = floats(corrupted, "corrupted").mean(axis=(-1, -2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(100 * means / floats(clean, "clean").mean())
    return np.where(np.isfinite(ratio), ratio, np.nan)
