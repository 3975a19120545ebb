"""AP and AR of populations: means over detectors, with images and training runs in the interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scotoma.comparison.boxes import jackknife, precision_estimates
from scotoma.detection.average_precision import DetectionScores, detection_scores, image_groups
from tests.detection.sets import random_set, read


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
