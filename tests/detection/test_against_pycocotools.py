"""AP and AR are those of pycocotools, on random sets."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path

import pytest

from scotoma.detection.average_precision import detection_scores
from tests.detection.sets import Set, random_set, read

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
