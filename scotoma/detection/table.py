"""What is known of each box of a ground truth: a table with a row a box, its image as cluster."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.answers.boxes import GroundTruth
from scotoma.detection.matching import AREAS, outcomes, overlaps
from scotoma.numbers.inputs import Codes, Floats
from scotoma.readers.boxes import read_detections, read_ground_truth

FOUND, MISSED = "found", "missed"
GROUPING = ("class", "area", "crowding")  # columns of few values
MEASURED = ("box area", "box aspect", "boxes in image", "overlap", "image width", "image height")
CROWDED = (2, 5, 10)  # boxes of an image at which the next value of `crowding` begins
BIG = 2_000_000  # pairs of boxes of one image whose overlap is computed at once


@dataclass(frozen=True)
class BoxReading:
    """How a file of detections becomes a table of predictions.

    Attributes:
        truth: The ground truth, a path or URI.
        iou: Smallest intersection over union of a box that is found.
        least_score: The score from which on detections are used.
    """

    truth: str
    iou: float
    least_score: float


def found_table(path: Path, reading: BoxReading) -> pl.DataFrame:
    """Say of each box of a ground truth whether a detector finds it.

    Called in the process that reads files from outside.

    Args:
        path: The detections.
        reading: The boxes, and what counts as found.

    Returns:
        `example_id` and `predicted`, which is `found` or `missed`; rows as `box_table` has them.
    """
    truth = read_ground_truth(Path(reading.truth), apart=False)
    detections = read_detections(path, truth, apart=False)
    found = outcomes(truth, detections, iou=reading.iou, least_score=reading.least_score).found
    ids = [truth.box_ids[one] for one in truth.examples]
    return pl.DataFrame({"example_id": ids, "predicted": np.where(found, FOUND, MISSED)})


def box_table(truth: GroundTruth) -> pl.DataFrame:
    """Describe each box that can be found or missed.

    Args:
        truth: The boxes; crowds have no row.

    Returns:
        `example_id`, `image_id`, `image_name`, `label` (always `found`), then text `class`, `area`
        (small, medium or large, as COCO has it) and `crowding` (how many boxes the image has), then
        numbers: `box area` in pixels, `box aspect` (width over height), `boxes in image`,
        `overlap` (largest IoU with another box of the image, whatever its class), `image width`
        and `image height` in pixels, null where they are not known.
    """
    examples = truth.examples
    image, box = truth.image[examples], truth.box[examples]
    number = np.bincount(truth.image, minlength=truth.images)[image]
    area = truth.area[examples]
    sizes = truth.image_sizes[image]
    with np.errstate(divide="ignore", invalid="ignore"):
        aspect = box[:, 2] / box[:, 3]
    kinds = [name for name in AREAS if name != "all"]
    place = np.searchsorted([AREAS[name][1] for name in kinds[:-1]], area)
    return pl.DataFrame(
        {
            "example_id": [truth.box_ids[one] for one in examples],
            "image_id": [truth.image_ids[one] for one in image],
            "image_name": [truth.image_names[one] for one in image],
            "label": [FOUND] * len(examples),
            "class": [truth.classes[one] for one in truth.category[examples]],
            "area": [kinds[one] for one in place],
            "crowding": _crowding(number),
            "box area": area,
            "box aspect": np.where(np.isfinite(aspect), aspect, np.nan),
            "boxes in image": number,
            "overlap": _overlap(truth)[examples],
            "image width": sizes[:, 0],
            "image height": sizes[:, 1],
        },
        schema_overrides=dict.fromkeys(
            ("example_id", "image_id", "image_name", "label", *GROUPING), pl.String
        ),
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


def _crowding(number: Codes) -> list[str]:
    names = ["1 box"]
    names += [f"{low} to {high - 1} boxes" for low, high in itertools.pairwise(CROWDED)]
    names.append(f"{CROWDED[-1]} or more boxes")
    return [names[one] for one in np.searchsorted(CROWDED, number, side="right")]


def _overlap(truth: GroundTruth) -> Floats:
    """The largest IoU of each box with another box of its image."""
    order = np.argsort(truth.image, kind="stable")
    image = truth.image[order]
    start = np.searchsorted(image, image)
    count = np.searchsorted(image, image, side="right") - start
    most = np.zeros(len(image))
    ends = np.cumsum(count)
    begin = 0
    while begin < len(image):
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] - count[begin] + BIG)))
        rows = np.arange(begin, min(end, len(image)))
        one = np.repeat(rows, count[rows])
        first = np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])
        other = np.repeat(start[rows], count[rows]) + np.arange(len(one)) - first
        iou = overlaps(truth.box[order[one]], truth.box[order[other]], np.zeros(len(one), np.bool_))
        np.maximum.at(most, one, np.where(one == other, 0.0, iou))
        begin = end
    found = np.empty(len(image))
    found[order] = most
    return found
