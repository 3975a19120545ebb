"""AP and AR of detectors, where the examples of an audit are boxes."""

from __future__ import annotations

from pydantic import Field

from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import Part, Quantity

__all__ = ["MeasuredDetectors", "PrecisionRow"]


class PrecisionRow(Part):
    """One of COCO's numbers before and after, with detections of every score."""

    name: str = Field(description="`AP`, `AP50`, `AP75`, `AR 1` and so on, as COCO has them.")
    dense: Quantity = Field(description="Mean over the dense detectors, a fraction; n in images.")
    compressed: Quantity = Field(description="Mean over the compressed detectors.")
    change: Quantity = Field(
        description="compressed - dense: leaving out groups of images in turn, and from five "
        "detectors a side over training runs, too. Chance of one detector on one image is in both "
        "parts, which widens it."
    )


class MeasuredDetectors(Part):
    """What is measured and noted while files of detections are read; inside a run only."""

    precision: dict[str, tuple[PrecisionRow, ...]]
    admission: tuple[AdmissionNote, ...] = ()
