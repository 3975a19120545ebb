"""Which boxes of a detector's ground truth are found, and how precise are its detections?

A detector reduces to a table: the example is a box of the ground truth, the cluster its image, and
right means found.
"""

from __future__ import annotations

from scotoma.detection.average_precision import (
    DetectionScores,
    detection_scores,
    image_groups,
)
from scotoma.detection.boxes import Detections, GroundTruth
from scotoma.detection.matching import AREAS, IOUS, Matching, match
from scotoma.detection.outcomes import BoxOutcomes, outcomes
from scotoma.detection.reading import read_detections, read_ground_truth
from scotoma.detection.table import (
    FOUND,
    GROUPING,
    MEASURED,
    MISSED,
    BoxReading,
    box_table,
    found_table,
)

__all__ = [
    "AREAS",
    "FOUND",
    "GROUPING",
    "IOUS",
    "MEASURED",
    "MISSED",
    "BoxOutcomes",
    "BoxReading",
    "DetectionScores",
    "Detections",
    "GroundTruth",
    "Matching",
    "box_table",
    "detection_scores",
    "found_table",
    "image_groups",
    "match",
    "outcomes",
    "read_detections",
    "read_ground_truth",
]
