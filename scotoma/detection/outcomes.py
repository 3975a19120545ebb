"""Which boxes are found at the score that the detector is used with, and how many false alarms?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.detection.boxes import Detections, Flags, Floats, GroundTruth
from scotoma.detection.matching import IOUS, match

__all__ = ["BoxOutcomes", "outcomes"]


@dataclass(frozen=True, eq=False)
class BoxOutcomes:
    """What a detector makes of each box and image.

    Attributes:
        found: Whether each box of `GroundTruth.examples` is found, shape (N,).
        share: At how many of COCO's ten IoU thresholds it is found, a fraction, shape (N,).
        false_alarms: Detections of each image that find no box, shape (I,).
    """

    found: Flags
    share: Floats
    false_alarms: Floats


def outcomes(
    truth: GroundTruth, detections: Detections, *, iou: float = 0.5, least_score: float = 0.25
) -> BoxOutcomes:
    """Say which boxes are found.

    Args:
        truth: The boxes; crowds are neither found nor missed, and detections in them no false
            alarms.
        detections: The detections.
        iou: Smallest intersection over union of a box that is found, a fraction.
        least_score: The score from which on detections are used.

    >>> nothing = np.full((1, 2), np.nan)
    >>> truth = GroundTruth(("1",), ("",), nothing, ("cat",), ("1",), ("7",), np.zeros(1, int),
    ...                     np.zeros(1, int), np.array([[0.0, 0, 10, 10]]), np.array([100.0]),
    ...                     np.zeros(1, bool))
    >>> found = Detections(np.zeros(2, int), np.zeros(2, int),
    ...                    np.array([[0.0, 0, 10, 8], [50, 0, 9, 9]]), np.array([0.9, 0.8]))
    >>> one = outcomes(truth, found)
    >>> one.found.tolist(), one.share.tolist(), one.false_alarms.tolist()
    ([True], [0.7], [1.0])
    """
    used = detections.score >= least_score
    some = Detections(
        detections.image[used], detections.category[used], detections.box[used],
        detections.score[used],
    )  # fmt: skip
    at_all = match(truth, some)
    at_one = match(truth, some, ious=np.array([iou]))
    alarm = (at_one.box[0] < 0) & ~at_one.ignored[0]
    images = some.image[at_one.pairs.kept][alarm]
    found = np.zeros((len(IOUS), len(truth.box)), np.bool_)
    threshold, detection = np.nonzero(at_all.box >= 0)
    found[threshold, at_all.box[threshold, detection]] = True
    hit = np.zeros(len(truth.box), np.bool_)
    hit[at_one.box[0][at_one.box[0] >= 0]] = True
    examples = truth.examples
    return BoxOutcomes(
        hit[examples],
        found[:, examples].mean(axis=0),
        np.bincount(images, minlength=truth.images).astype(np.float64),
    )
