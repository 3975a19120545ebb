"""Which detection finds which box, as COCO's evaluation matches them, and which would by chance?

Lin et al. (2014), Microsoft COCO, and the reference implementation `pycocotools`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from scotoma.answers.boxes import Detections, GroundTruth
from scotoma.numbers.inputs import Codes, Flags, Floats

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
DEALS = 5  # of a detector's answers to other images: each box is then found in so many at most


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
    some = _used(detections, least_score)
    at_one = match(truth, some, ious=np.array([iou]))
    alarm = (at_one.box[0] < 0) & ~at_one.ignored[0]
    images = some.image[at_one.pairs.kept][alarm]
    return BoxOutcomes(
        _found(truth, at_one)[0],
        _found(truth, match(truth, some)).mean(axis=0),
        np.bincount(images, minlength=truth.images).astype(np.float64),
    )


def dealt_outcomes(
    truth: GroundTruth, detections: Detections, *, iou: float, least_score: float
) -> dict[str, Flags]:
    """Say which boxes would be found by chance, if the detector's answers were dealt anew.

    Args:
        truth: The boxes.
        detections: The detections.
        iou: As for `outcomes`.
        least_score: As for `outcomes`.

    Returns:
        Whether each box of `GroundTruth.examples` is found in each deal, shape (N, DEALS):
        `images`, all answers of an image dealt to another one, and `classes`, the class of each
        detection dealt to another detection; each only where there are two or more to deal among.

    >>> nothing, two = np.full((2, 2), np.nan), np.arange(2)
    >>> boxes = np.array([[0.0, 0, 10, 10], [50, 50, 9, 9]])
    >>> truth = GroundTruth(("1", "2"), ("", ""), nothing, ("cat",), ("1",), ("7", "8"), two,
    ...                     np.zeros(2, int), boxes, np.full(2, 90.0), np.zeros(2, bool))
    >>> found = Detections(two, np.zeros(2, int), boxes, np.full(2, 0.9))
    >>> dealt = dealt_outcomes(truth, found, iou=0.5, least_score=0.25)
    >>> [(name, found.any().item()) for name, found in dealt.items()]
    [('images', False)]
    """
    rng, some = np.random.default_rng(0), _used(detections, least_score)
    order = rng.permutation(truth.images)
    place = np.argsort(order)
    deals: dict[str, list[Flags]] = {}
    for turn in range(1, DEALS + 1):
        step = 1 + (turn - 1) * max(1, (truth.images - 1) // DEALS) % max(1, truth.images - 1)
        dealt = {
            "images": replace(some, image=order[(place[some.image] + step) % truth.images]),
            "classes": replace(some, category=rng.permutation(some.category)),
        }
        for name, answers in dealt.items():
            found = _found(truth, match(truth, answers, ious=np.array([iou])))[0]
            deals.setdefault(name, []).append(found)
    several = {"images": truth.images > 1, "classes": len(truth.classes) > 1}
    return {name: np.stack(own, axis=1) for name, own in deals.items() if several[name]}


def _used(detections: Detections, least_score: float) -> Detections:
    used = detections.score >= least_score
    return Detections(
        detections.image[used], detections.category[used], detections.box[used],
        detections.score[used],
    )  # fmt: skip


def _found(truth: GroundTruth, matching: Matching) -> Flags:
    """Whether each box that can be found is, at each IoU, shape (T, N)."""
    found = np.zeros((len(matching.box), len(truth.box)), np.bool_)
    threshold, detection = np.nonzero(matching.box >= 0)
    found[threshold, matching.box[threshold, detection]] = True
    return found[:, truth.examples]


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
