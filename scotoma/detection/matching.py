"""Which detection finds which box, as COCO's evaluation matches them?

Lin et al. (2014), Microsoft COCO, and the reference implementation `pycocotools`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from scotoma.detection.boxes import Codes, Detections, Flags, Floats, GroundTruth

__all__ = [
    "AREAS",
    "IOUS",
    "MOST_DETECTIONS",
    "Matching",
    "Pairs",
    "box_pairs",
    "match",
    "overlaps",
]

IOUS = np.linspace(0.5, 0.95, 10)  # spelled as pycocotools spells it, so that ties agree
AREAS = MappingProxyType(
    {
        "all": (0.0, 1e10),
        "small": (0.0, 32.0**2),
        "medium": (32.0**2, 96.0**2),
        "large": (96.0**2, 1e10),
    }
)
MOST_DETECTIONS = 100  # of one class in one image, those of the highest scores


@dataclass(frozen=True, eq=False)
class Pairs:
    """Detections beside the boxes of their image and class that they overlap.

    Attributes:
        kept: Numbers of the detections that count, by image, class and falling score, shape (D,).
        rank: Place of each among those of its image and class, from 0, shape (D,).
        detection: Number of each pair's detection among `kept`, shape (P,).
        box: Number of its box, shape (P,).
        iou: Their intersection over union; over the detection's area where the box is a crowd.
    """

    kept: Codes
    rank: Codes
    detection: Codes
    box: Codes
    iou: Floats


@dataclass(frozen=True, eq=False)
class Matching:
    """What each detection found.

    Attributes:
        pairs: From which it was made.
        box: Number of the box that each detection found at each IoU, -1 for none, shape (T, D).
        ignored: Whether the detection counts neither as found nor as a false alarm, shape (T, D).
        counted: Whether each box counts: no crowd, and in the range of areas, shape (G,).
    """

    pairs: Pairs
    box: Codes
    ignored: Flags
    counted: Flags


def overlaps(one: Floats, other: Floats, crowd: Flags) -> Floats:
    """Intersection over union of boxes, pair by pair.

    Args:
        one: Detections: left, top, width, height, shape (P, 4).
        other: Boxes, likewise.
        crowd: Where the box is a crowd, the divisor is the area of the detection, shape (P,).

    >>> box = np.array([[0.0, 0, 2, 2]])
    >>> overlaps(box, np.array([[0.0, 0, 2, 4]]), np.array([False])).tolist()
    [0.5]
    """
    low = np.maximum(one[:, :2], other[:, :2])
    sides = np.minimum(one[:, :2] + one[:, 2:], other[:, :2] + other[:, 2:]) - low
    shared = np.where((sides > 0).all(axis=1), sides[:, 0] * sides[:, 1], 0.0)
    own, theirs = one[:, 2] * one[:, 3], other[:, 2] * other[:, 3]
    union = np.where(crowd, own, own + theirs - shared)
    return np.divide(shared, union, out=np.zeros(len(one)), where=shared > 0)


def box_pairs(truth: GroundTruth, found: Detections, *, least: float = 0.5) -> Pairs:
    """Put detections beside the boxes that they overlap.

    Args:
        truth: The boxes.
        found: The detections.
        least: The smallest IoU that counts.
    """
    groups = len(truth.classes)
    key = found.image * groups + found.category
    order = np.lexsort((-found.score, key))
    first = np.searchsorted(key[order], key[order])
    rank = np.arange(len(order)) - first
    within = rank < MOST_DETECTIONS
    kept, rank, key = order[within], rank[within], key[order][within]
    of_box = truth.image * groups + truth.category
    by_key = np.argsort(of_box, kind="stable")
    start = np.searchsorted(of_box[by_key], key)
    count = np.searchsorted(of_box[by_key], key, side="right") - start
    detection = np.repeat(np.arange(len(kept)), count)
    place = np.arange(len(detection)) - np.repeat(np.cumsum(count) - count, count)
    box = by_key[np.repeat(start, count) + place]
    iou = overlaps(found.box[kept[detection]], truth.box[box], truth.crowd[box])
    enough = iou >= min(least, 1 - 1e-10)
    return Pairs(kept, rank, detection[enough], box[enough], iou[enough])


def match(
    truth: GroundTruth,
    found: Detections,
    *,
    ious: Floats = IOUS,
    area: tuple[float, float] = AREAS["all"],
    beside: Pairs | None = None,
) -> Matching:
    """Match detections to boxes, those of the highest scores first.

    A detection takes the free box of its image and class that it overlaps most; a box outside the
    range of areas, or a crowd, only where no other is free. Crowds are never used up. Of equal
    overlaps the box that stands last in the file is taken.

    Args:
        truth: The boxes.
        found: The detections; the first `MOST_DETECTIONS` of an image and class count.
        ious: Smallest intersection over union, shape (T,), ascending.
        area: Smallest and largest area in pixels of the boxes that count.
        beside: From `pairs` with the first of `ious`, where it is at hand.

    References:
        `COCOeval.evaluateImg` of pycocotools 2.0.

    >>> nothing = np.full((1, 2), np.nan)
    >>> truth = GroundTruth(("1",), ("",), nothing, ("cat",), ("1",), ("7", "8"), np.zeros(2, int),
    ...                     np.zeros(2, int), np.array([[0.0, 0, 10, 10], [50, 50, 9, 9]]),
    ...                     np.array([100.0, 81.0]), np.zeros(2, bool))
    >>> found = Detections(np.zeros(2, int), np.zeros(2, int),
    ...                    np.array([[0.0, 0, 10, 10], [1, 0, 10, 10]]), np.array([0.8, 0.9]))
    >>> match(truth, found, ious=np.array([0.5])).box.tolist()  # of the higher score first
    [[0, -1]]
    """
    near = box_pairs(truth, found, least=float(ious[0])) if beside is None else beside
    low, high = area
    ignored = truth.crowd | (truth.area < low) | (truth.area > high)
    order = np.lexsort((-near.box, -near.iou, ignored[near.box], near.detection))
    detection, box, iou = near.detection[order], near.box[order], near.iou[order]
    matched = _greedy(detection, box, iou, _turns(near), truth.crowd, ious, len(near.kept))
    sizes = found.box[near.kept, 2] * found.box[near.kept, 3]
    outside = (sizes < low) | (sizes > high)
    taken = matched >= 0
    beyond = np.where(taken, ignored[matched] if len(ignored) else False, outside)
    return Matching(near, matched, beyond, ~ignored)


def _turns(near: Pairs) -> Codes:
    """When each detection chooses: after those before it of its image and class with a pair."""
    paired = np.unique(near.detection)
    start = paired - near.rank[paired]  # the first detection of its image and class
    turns = np.zeros(len(near.kept), np.intp)
    turns[paired] = np.arange(len(paired)) - np.searchsorted(start, start)
    return turns


def _greedy(
    detection: Codes, box: Codes, iou: Floats, turns: Codes, crowd: Flags, ious: Floats, size: int
) -> Codes:
    """Let the detections of one turn choose at once: they are of different images or classes.

    Args:
        detection: Of each pair, ascending; the pairs of one in the order of preference, shape (P,).
        box: Of each pair.
        iou: Of each pair.
        turns: Of each detection, shape (D,).
        crowd: Of each box, shape (G,).
        ious: Thresholds, shape (T,).
        size: Number of detections, D.
    """
    matched = np.full((len(ious), size), -1, np.intp)
    taken = np.zeros((len(ious), len(crowd)), np.bool_)
    least = np.minimum(ious, 1 - 1e-10)[:, None]
    by_turn = np.argsort(turns[detection], kind="stable")
    ends = np.cumsum(np.bincount(turns[detection]))
    for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True):
        now = by_turn[start:end]
        free = (~taken[:, box[now]] | crowd[box[now]]) & (iou[now] >= least)
        starts = np.flatnonzero(np.diff(detection[now], prepend=-1))
        places = np.where(free, np.arange(len(now)), len(now))
        first = np.minimum.reduceat(places, starts, axis=1)
        row, column = np.nonzero(first < len(now))
        chosen = box[now[first[row, column]]]
        matched[row, detection[now[starts]][column]] = chosen
        taken[row, chosen] = True
    return matched
