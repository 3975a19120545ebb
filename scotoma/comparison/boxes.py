"""What changed between two detectors, box by box and image by image?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from scotoma.answers.note import AdmissionNote
from scotoma.comparison.flips import Flip, answer_codes, flips
from scotoma.comparison.means import (
    GroupScoreEffect,
    MeanChange,
    all_lose_alike,
    group_effects,
    mean_change,
    score_table,
)
from scotoma.comparison.measure import SearchedSlices, sliced
from scotoma.detection.average_precision import DetectionScores
from scotoma.detection.matching import BoxOutcomes
from scotoma.numbers import FEWEST_RUNS, Estimate, few_runs, satterthwaite, undefined
from scotoma.numbers.inputs import Codes, Flags, Floats

DEALT = {  # from `dealt_outcomes`: how answers were dealt, and what is wrong if that finds as much
    "images": ("its answers dealt to other images",
               "image ids, classes or boxes are probably wrong"),
    "classes": ("its classes dealt to other detections",
                "classes are probably in another order"),
}  # fmt: skip


@dataclass(frozen=True)
class PrecisionChange:
    """One of COCO's numbers before and after.

    Attributes:
        name: `AP`, `AP50`, `AR 100` and so on, or the name of a class.
        before: Of the original detector.
        after: Of the compressed one.
        change: after - before; its interval is by leaving out groups of images.
    """

    name: str
    before: float
    after: float
    change: Estimate


@dataclass(frozen=True)
class BoxComparison:
    """Two detectors on the same images.

    Attributes:
        models: Their names, the original first.
        images: Number of images, with boxes or without.
        boxes: Number of boxes that can be found or missed.
        iou: Smallest intersection over union of a box that is found.
        least_score: The score from which on detections are used.
        found: Share of the boxes that are found.
        found_at_ten: The mean of this share over COCO's ten IoU thresholds.
        false_alarms: Detections of an image that find no box.
        flips: Boxes that change.
        precision: COCO's numbers; AP and AR do not depend on `least_score`.
        class_precision: AP of each class that has a box.
        groups: Share of the boxes of each group that are found.
        alike: Whether fewer boxes are surely found, and in no group otherwise than in the rest.
        search: Slices that nobody named.
        notes: Sentences that a reader should know.
    """

    models: tuple[str, str]
    images: int
    boxes: int
    iou: float
    least_score: float
    found: MeanChange
    found_at_ten: MeanChange
    false_alarms: MeanChange
    flips: tuple[Flip, ...]
    precision: tuple[PrecisionChange, ...]
    class_precision: tuple[PrecisionChange, ...]
    groups: tuple[GroupScoreEffect, ...]
    alike: bool
    search: SearchedSlices
    notes: tuple[str, ...]


def measure_boxes(
    outcomes: tuple[BoxOutcomes, BoxOutcomes],
    scores: tuple[DetectionScores, DetectionScores],
    *,
    models: tuple[str, str],
    image: Codes,
    classes: Sequence[str],
    masks: Mapping[str, Flags],
    features: pl.DataFrame,
    iou: float,
    least_score: float,
) -> BoxComparison:
    """Measure what changed.

    Args:
        outcomes: Of the original and the compressed detector, on the same boxes.
        scores: Theirs, without the same groups of images.
        models: Their names.
        image: Number of each box's image, shape (N,): the boxes of one are a cluster.
        classes: Names, in the order of `scores`.
        masks: Key of each group to its boxes, bool, shape (N,).
        features: What may define a slice, N rows; no columns for no search.
        iou: As for `outcomes`.
        least_score: As for `outcomes`.
    """
    before, after = outcomes
    images = len(before.false_alarms)
    found = score_table(before.found, after.found, image)
    codes = answer_codes(before.found, after.found)
    changed = flips(np.zeros(len(image), np.intp), *codes, clusters=image)
    effects = group_effects(found, masks)
    whole, search = found.change(), sliced(features, found, found.clusters, False)
    return BoxComparison(
        models=models,
        images=images,
        boxes=len(image),
        iou=iou,
        least_score=least_score,
        found=whole,
        found_at_ten=mean_change(before.share, after.share, clusters=image),
        false_alarms=mean_change(before.false_alarms, after.false_alarms),
        flips=tuple(Flip(one.kind, one.share.value * len(image), one.share) for one in changed),
        precision=_precision(_of_all(*scores), images),
        class_precision=_precision(_of_classes(*scores, classes), images),
        groups=effects,
        alike=all_lose_alike(whole.change, effects, lower_is_better=False),
        search=search,
        notes=search.notes,
    )


def box_chance_note(
    found: Flags, dealt: Mapping[str, Flags], image: Codes, name: str
) -> AdmissionNote | None:
    """Refuse a PASS where a detector is not shown to be better than guessing.

    Args:
        found: Which boxes the baseline finds, a column a model, shape (N, K).
        dealt: From `dealt_outcomes`, the columns of all models beside one another.
        image: Number of each box's image, shape (N,).
        name: What the baseline is called.

    Returns:
        The note; None where it finds more boxes than with its answers dealt, at 95%.
    """
    for way, boxes in dealt.items():
        change = mean_change(boxes, found, clusters=image).change
        if change.low > 0:
            continue
        how, cause = DEALT[way]
        sure = "no" if not change.value > 0 else "not surely"
        few = "" if sure == "no" else f"{change.n:,} images are too few to tell, or "
        sentence = (
            f"{name} finds {100 * found.mean():.1f}% of the boxes, {sure} better than with {how} "
            f"({100 * boxes.mean():.1f}%): {few}{cause}"
        )
        return AdmissionNote(rule="chance", subject=name, sentence=sentence, blocks_pass=True)
    return None


Rates = Iterable[tuple[str, float, float, Floats | None]]


def _of_all(before: DetectionScores, after: DetectionScores) -> Rates:
    for name, value in before.value.items():
        known = name in before.without
        lost = after.without[name] - before.without[name] if known else None
        yield name, value, after.value[name], lost


def _of_classes(before: DetectionScores, after: DetectionScores, names: Sequence[str]) -> Rates:
    lost = (after.class_without - before.class_without).T
    of_class = zip(names, before.of_class, after.of_class, lost, strict=True)
    return (row for row in of_class if np.isfinite(row[1]))


def _precision(rates: Rates, images: int) -> tuple[PrecisionChange, ...]:
    """Each number, and its change, whose values without each group of images are known."""
    rows = []
    for name, before, after, lost in rates:
        value = float(after - before)
        if lost is None:
            reason = "no interval is computed for boxes of one size"
            change = undefined(reason, value=value, n=images, members=1)
        else:
            change = jackknife(value, lost, images=images)
        rows.append(PrecisionChange(name, float(before), float(after), change))
    return tuple(rows)


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

    def estimate(value: float, without: Floats, runs: Sequence[Floats], members: int) -> Estimate:
        return jackknife(
            float(value), without, images=images, runs=runs, members=members, note=few_runs(members)
        )

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
            "dense": estimate(d.mean(), d_without.mean(axis=1), [d], len(d)),
            "compressed": estimate(c.mean(), c_without.mean(axis=1), [c], len(c)),
            "change": estimate(c.mean() - d.mean(), lost, runs, members),
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
