"""How precise are a detector's answers at every recall: AP and AR, and how certain are they?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scotoma.answers.boxes import Detections, GroundTruth
from scotoma.detection.matching import AREAS, IOUS, Matching, box_pairs, match
from scotoma.numbers.inputs import Codes, Floats

RECALLS = np.linspace(0.0, 1.0, 101)
GROUPS = 40  # of images, each left out once
AT_MOST = (1, 10, 100)  # detections of a class in an image, of AR


@dataclass(frozen=True, eq=False)
class DetectionScores:
    """COCO's twelve numbers, and AP by class, of one detector.

    Attributes:
        value: Name to number: `AP`, `AP50`, `AP75`, `AP small` and so on, `AR 1`, `AR 10`,
            `AR 100`, `AR small` and so on; nan where no box counts.
        without: The same numbers without each group of images, each shape (R,), of those that were
            asked for.
        of_class: AP of each class, shape (C,); nan where it has no box.
        class_without: The same without each group of images, shape (R, C).
    """

    value: Mapping[str, float]
    without: Mapping[str, Floats]
    of_class: Floats
    class_without: Floats


def image_groups(images: int) -> Codes:
    """Deal images into groups that are left out in turn, shape (images,).

    Detectors that are compared share the groups, so that what is hard for both cancels.

    >>> sorted(image_groups(5).tolist())
    [0, 1, 2, 3, 4]
    """
    dealt = np.random.default_rng(0).permutation(images)
    return np.asarray(dealt % min(GROUPS, max(images, 1)), np.intp)


def detection_scores(
    truth: GroundTruth, found: Detections, *, groups: Codes | None = None
) -> DetectionScores:
    """Compute AP and AR as COCO's evaluation of boxes does.

    AP is the mean over ten IoU thresholds and the classes with a box of the precision at 101
    recalls, where the precision at a recall is the highest at that recall or above.

    Args:
        truth: The boxes.
        found: The detections.
        groups: From `image_groups`, to compute all but the numbers of small, medium and large boxes
            without each; None for no interval.

    References:
        `COCOeval.accumulate` and `summarize` of pycocotools 2.0.

    >>> nothing = np.full((1, 2), np.nan)
    >>> truth = GroundTruth(("1",), ("",), nothing, ("cat",), ("1",), ("7",), np.zeros(1, int),
    ...                     np.zeros(1, int), np.array([[0.0, 0, 10, 10]]), np.array([100.0]),
    ...                     np.zeros(1, bool))
    >>> found = Detections(np.zeros(1, int), np.zeros(1, int), np.array([[0.0, 0, 10, 8]]),
    ...                    np.array([0.9]))
    >>> scores = detection_scores(truth, found).value
    >>> round(scores["AP50"], 2), round(scores["AP"], 2), scores["AP large"]
    (1.0, 0.7, nan)
    """
    near = box_pairs(truth, found)
    every = np.ones(truth.images)
    value: dict[str, float] = {}
    for name, area in AREAS.items():
        if name == "all":
            continue
        precision, recall = _Curves.of(truth, found, match(truth, found, area=area, beside=near)
                                       ).means(every)  # fmt: skip
        value |= {f"AP {name}": _mean(precision), f"AR {name}": _mean(recall[100])}
    curves = _Curves.of(truth, found, match(truth, found, beside=near))
    own, of_class = _numbers(*curves.means(every))
    left_out = np.zeros(0, np.intp) if groups is None else groups
    number = int(left_out.max(initial=-1)) + 1
    rest = [_numbers(*curves.means((left_out != one).astype(float))) for one in range(number)]
    return DetectionScores(
        own | value,
        {name: np.array([numbers[name] for numbers, _ in rest]) for name in own},
        of_class,
        np.array([one for _, one in rest]).reshape(number, len(truth.classes)),
    )


def _numbers(precision: Floats, recall: Mapping[int, Floats]) -> tuple[dict[str, float], Floats]:
    numbers = {
        "AP": _mean(precision),
        "AP50": _mean(precision[:1]),
        "AP75": _mean(precision[5:6]),
        **{f"AR {most}": _mean(recall[most]) for most in AT_MOST},
    }
    return numbers, np.asarray(precision.mean(axis=0))


def _mean(numbers: Floats) -> float:
    """Mean over thresholds and the classes that have one, shape (T, C)."""
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True, eq=False)
class _Curves:
    """The detections of a matching in the order of their scores, class by class.

    Precision is highest where a box is found, so that only such places are looked at. False alarms
    before them are the detections before them less the boxes found: `before` counts detections
    that are in the range of areas, and events repair what a threshold counts otherwise.

    Attributes:
        images: Image of each detection in that order, shape (D,).
        inside: Whether it is in the range of areas, shape (D,).
        event: Place of each event among them, by threshold, class and place, shape (E,).
        found: 1 where it is a box that counts, shape (E,).
        repair: By how many detections that count here it differs from `inside`, shape (E,).
        rank: Of its detection within image and class, shape (E,).
        curve: Threshold times C plus class of each event, shape (E,).
        class_start: Where the class of each event begins among the detections, shape (E,).
        firsts: The first event of each curve that has one.
        lengths: How many it has.
        boxes: Image of each box that counts, shape (G,).
        box_class: Its class.
        shape: Number of thresholds and classes.
    """

    images: Codes
    inside: Floats
    event: Codes
    found: Floats
    repair: Floats
    rank: Codes
    curve: Codes
    class_start: Codes
    firsts: Codes
    lengths: Codes
    boxes: Codes
    box_class: Codes
    shape: tuple[int, int]

    @classmethod
    def of(cls, truth: GroundTruth, found: Detections, matching: Matching) -> _Curves:
        kept = matching.pairs.kept
        order = np.lexsort((-found.score[kept], found.category[kept]))
        category, classes = found.category[kept][order], len(truth.classes)
        matched, ignored = matching.box[:, order], matching.ignored[:, order]
        # A detection is in the range by its own size, or because all thresholds say so.
        inside = ~ignored[-1] if len(ignored) else np.ones(0, np.bool_)
        hit = (matched >= 0) & ~ignored
        threshold, event = np.nonzero(hit | (ignored == inside))
        curve = threshold * classes + category[event]
        firsts = np.flatnonzero(np.diff(curve, prepend=-1))
        return cls(
            images=found.image[kept][order],
            inside=inside.astype(np.float64),
            event=event,
            found=hit[threshold, event].astype(np.float64),
            repair=(~ignored[threshold, event]).astype(np.float64) - inside[event],
            rank=matching.pairs.rank[order][event],
            curve=curve,
            class_start=np.searchsorted(category, category[event]),
            firsts=firsts,
            lengths=np.diff(firsts, append=len(curve)),
            boxes=truth.image[matching.counted],
            box_class=truth.category[matching.counted],
            shape=(len(IOUS), classes),
        )

    def means(self, weights: Floats) -> tuple[Floats, dict[int, Floats]]:
        """AP and, for each of `AT_MOST`, the recall, by threshold and class, shape (T, C).

        Args:
            weights: How often each image is taken, shape (I,).
        """
        thresholds, classes = self.shape
        number = np.bincount(self.box_class, weights[self.boxes], classes)
        number = np.where(number > 0, number, np.nan)
        undefined_or_0 = np.broadcast_to(0.0 * number, self.shape)
        if not len(self.event):
            return undefined_or_0, dict.fromkeys(AT_MOST, undefined_or_0)
        own = weights[self.images]
        total = np.concatenate([[0.0], np.cumsum(own * self.inside)])
        at_event = own[self.event]
        hits = at_event * self.found
        got = self._running(hits)
        counted = total[self.event + 1] - total[self.class_start]
        counted += self._running(at_event * self.repair)
        precision = got / (counted + np.spacing(1))
        recall = got / number[self.curve % classes]
        reached = np.searchsorted(RECALLS, recall, side="right").astype(np.float64)
        reached[np.isnan(recall)] = 0
        steps = np.diff(reached, prepend=0.0)
        steps[self.firsts] = reached[self.firsts]
        # Earlier curves lie above, so that none reaches into another.
        lifted = precision - 2.0 * self.curve
        best = np.maximum.accumulate(lifted[::-1])[::-1] + 2.0 * self.curve
        curves = thresholds * classes
        ap = np.bincount(self.curve, best * steps, curves) / len(RECALLS)
        recalls = {
            most: np.bincount(self.curve, hits * (self.rank < most), curves).reshape(self.shape)
            / number
            for most in AT_MOST
        }
        return ap.reshape(self.shape) + undefined_or_0, recalls

    def _running(self, numbers: Floats) -> Floats:
        """Sums up to each event since its curve began."""
        total = np.cumsum(numbers)
        before = total[self.firsts] - numbers[self.firsts]
        return np.asarray(total - np.repeat(before, self.lengths))
