"""Matching and AP are those of a slow twin that takes one detection after the other."""

from __future__ import annotations

import contextlib
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scotoma.answers.boxes import Detections, GroundTruth
from scotoma.comparison.boxes import jackknife, precision_estimates
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from scotoma.detection.matching import IOUS, match, outcomes
from tests.detection.sets import Set, random_set, read


def iou(one: np.ndarray, other: np.ndarray, crowd: bool) -> float:
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[:2] + one[2:], other[:2] + other[2:])
    shared = float(np.prod(np.clip(high - low, 0, None)))
    own, theirs = one[2] * one[3], other[2] * other[3]
    return shared / (own if crowd else own + theirs - shared) if shared else 0.0


def matched(truth: GroundTruth, found: Detections, least: float) -> dict[int, int]:
    """Detection to the box it finds, by Lin et al. (2014): greedily, by falling score."""
    taken: set[int] = set()
    pairs = {}
    for d in np.argsort(-found.score, kind="stable"):
        best, most = -1, (False, least, -1)
        for g in range(len(truth.box)):
            same = truth.image[g] == found.image[d] and truth.category[g] == found.category[d]
            if not same or (g in taken and not truth.crowd[g]):
                continue
            overlap = iou(found.box[d], truth.box[g], bool(truth.crowd[g]))
            if overlap >= least and (not truth.crowd[g], overlap, g) >= (most if best >= 0 else ()):
                best, most = g, (not truth.crowd[g], overlap, g)
        if best >= 0:
            taken.add(best)
            pairs[int(d)] = best
    return pairs


@pytest.mark.parametrize("seed", range(1, 9))
def test_each_detection_finds_what_the_slow_twin_finds(seed: int, tmp_path: Path) -> None:
    truth, found = read(random_set(seed), tmp_path)
    fast = match(truth, found)
    for t, least in enumerate(IOUS):
        slow = matched(truth, found, min(least, 1 - 1e-10))
        ours = {int(d): int(g) for d, g in zip(fast.pairs.kept, fast.box[t], strict=True) if g >= 0}
        assert ours == slow


def test_a_found_box_does_not_depend_on_detections_below_the_least_score(tmp_path: Path) -> None:
    truth, found = read(random_set(3), tmp_path)
    kept = found.score >= 0.4
    fewer = Detections(found.image[kept], found.category[kept], found.box[kept], found.score[kept])
    one, other = outcomes(truth, found, least_score=0.4), outcomes(truth, fewer, least_score=0.0)
    assert one.found.tolist() == other.found.tolist()
    assert one.false_alarms.tolist() == other.false_alarms.tolist()


def test_without_a_group_of_images_is_the_score_of_the_others(tmp_path: Path) -> None:
    truth, found = read(random_set(7), tmp_path)
    groups = image_groups(truth.images)
    scores = detection_scores(truth, found, groups=groups)
    kept, own = groups[truth.image] != 0, groups[found.image] != 0
    rest = GroundTruth(
        truth.image_ids, truth.image_names, truth.image_sizes, truth.classes, truth.class_ids,
        tuple(np.array(truth.box_ids)[kept]), truth.image[kept], truth.category[kept],
        truth.box[kept], truth.area[kept], truth.crowd[kept],
    )  # fmt: skip
    others = Detections(found.image[own], found.category[own], found.box[own], found.score[own])
    expected = detection_scores(rest, others).value
    for name, values in scores.without.items():
        assert values[0] == pytest.approx(expected[name], nan_ok=True)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=30)
    without = (values.sum() - values) / 29
    found = jackknife(float(values.mean()), without, images=30)
    assert found.se == pytest.approx(values.std(ddof=1) / 30**0.5)


# --- AP and AR are those of pycocotools, on random sets -------------------------------------------


pytest.importorskip("pycocotools")


NAMES = (
    "AP", "AP50", "AP75", "AP small", "AP medium", "AP large", "AR 1", "AR 10", "AR 100",
    "AR small", "AR medium", "AR large",
)  # fmt: skip


def reference(one: Set) -> dict[str, float]:
    """COCO's twelve numbers; nan where no box counts."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = one[0]
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes([dict(row) for row in one[1]]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    numbers = zip(NAMES, evaluation.stats, strict=True)
    return {name: math.nan if number == -1 else float(number) for name, number in numbers}


@pytest.mark.parametrize("seeds", [range(20)])
def test_all_twelve_numbers_agree(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        one = random_set(seed)
        ours = detection_scores(*read(one, tmp_path)).value
        assert ours == pytest.approx(reference(one), abs=1e-6, nan_ok=True), seed


@pytest.mark.thorough
def test_all_twelve_numbers_agree_on_200_sets(tmp_path: Path) -> None:
    test_all_twelve_numbers_agree(range(200), tmp_path)


# AP and AR of populations: means over detectors, with images and training runs in the interval.


def scored(folder: Path, seed: int) -> tuple[DetectionScores, int]:
    truth, found = read(random_set(seed), folder)
    return detection_scores(truth, found, groups=image_groups(truth.images)), truth.images


def shifted(scores: DetectionScores, by: float) -> DetectionScores:
    """A detector that is better by as much on all images."""
    return replace(
        scores,
        value={name: value + by for name, value in scores.value.items()},
        without={name: own + by for name, own in scores.without.items()},
    )


def test_detectors_that_differ_add_their_variance_to_that_of_images(tmp_path: Path) -> None:
    one, images = scored(tmp_path, 3)
    steps = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    dense = [shifted(one, by) for by in steps]
    better = [shifted(one, 0.1 + by) for by in steps]
    ap = precision_estimates(dense, better, images=images)["AP"]
    of_images = jackknife(one.value["AP"], one.without["AP"], images=images)
    assert ap["dense"].value == pytest.approx(one.value["AP"])
    assert ap["dense"].se ** 2 == pytest.approx(of_images.se**2 + steps.var(ddof=1) / 5)
    # The same images: what they do to both cancels, and the runs of both remain.
    assert ap["change"].value == pytest.approx(0.1)
    assert ap["change"].se == pytest.approx(np.sqrt(2 * steps.var(ddof=1) / 5))
    assert ap["change"].members == 5
    paired = precision_estimates(dense, better, images=images, paired=True)["AP"]
    assert not paired["change"].se > 1e-12


def test_one_detector_a_side_has_the_interval_over_images(tmp_path: Path) -> None:
    (one, images), (other, _) = scored(tmp_path, 3), scored(tmp_path, 3)
    worse = replace(other, without={k: 0.9 * v for k, v in other.without.items()})
    ap = precision_estimates([one], [worse], images=images)["AP"]
    alone = jackknife(0.0, worse.without["AP"] - one.without["AP"], images=images)
    assert ap["change"].se == pytest.approx(alone.se)
    assert "one training run" in ap["change"].note
