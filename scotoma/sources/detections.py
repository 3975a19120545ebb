"""What external detectors find: a box of the ground truth is an example."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.sources.contract import FilePlace
from scotoma.sources.predictions import PredictionsSource

if TYPE_CHECKING:
    from scotoma.detection.table import BoxReading
    from scotoma.predictions.tables import PredictionTable


class DetectionsSource(PredictionsSource):
    """What external detectors find: a box of the ground truth is an example."""

    kind: Literal["detections"]  # type: ignore[assignment]  # a table of predictions in COCO's form
    may_have_several_labels: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Any]] = {
        "label": {"column": "label"}, "cluster": {"column": "image_id"},
    }  # fmt: skip

    files: FilePlace = Field(
        min_length=1,
        description="COCO's results JSON, .npz, or YOLO's text files by pattern: "
        "found/{variant}/{model}.json, found/{variant}/{model}/*.txt.",
    )
    examples: FilePlace = Field(
        min_length=1,
        description="The ground truth: COCO's instances JSON, or data.yaml in YOLO's layout.",
    )
    iou: float = Field(
        0.5, gt=0, le=1, description="Smallest intersection over union of a box that is found."
    )
    min_score: float = Field(0.25, description="Score from which on detections are used.")
    classes: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=lambda: ["found", "missed"], description="What becomes of a box."
    )

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        for name in {"columns", "numbered", "training", "classes", "key"} & {*self.changed()}:
            yield (
                f"source.{name} is for source.kind predictions, and COCO's files need none; "
                "leave it out"
            )

    @property
    def boxes(self) -> BoxReading:
        from scotoma.detection.table import BoxReading

        return BoxReading(self.examples, self.iou, self.min_score)

    def tables(
        self, pattern: str = "", called: str = "", option: str = "source.files"
    ) -> list[PredictionTable]:
        from scotoma.predictions.patterns import find_tables

        return find_tables(pattern or self.files, called=called, option=option, boxes=self.boxes)

    def examples_table(
        self, needed: Mapping[str, str], limits: ReaderLimits = LIMITS
    ) -> pl.DataFrame:
        """Read the boxes of a ground truth as examples; what is written of numbers is text."""
        from scotoma.detection.table import box_table
        from scotoma.readers.boxes import ground_truth_here, read_ground_truth

        if not storage.is_remote(self.examples) and not os.path.isfile(self.examples):
            raise DataError(
                f"source.examples {printable(self.examples)} is not a file; name COCO's instances "
                "JSON"
            )
        table = box_table(read_ground_truth(ground_truth_here(self.examples), limits=limits))
        if not table.height:
            raise DataError(
                f"{printable(self.examples)} must hold a box that is no crowd, got none; add "
                "annotations"
            )
        return table.with_columns(pl.lit("test").alias("split"))
