"""COCO as its archives unpack: images in a folder for each split, and annotations beside them."""

from __future__ import annotations

from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from scotoma import storage
from scotoma.config.limits import ReaderLimits
from scotoma.datasets.coco_labels import GENDER, captioned_genders, coco_labels
from scotoma.datasets.image_files import attributes_table
from scotoma.errors import DataError
from scotoma.printable import nearest, printable
from scotoma.processes.untrusted import table_apart
from scotoma.readers.tables import refuse_doubled
from scotoma.sources.annotated import (
    ONE_GENDER,
    AnnotatedSource,
    SplitName,
    refuse_absent_annotations,
)
from scotoma.sources.contract import FolderPlace, MaybeFilePlace

IMAGE_ID = "image_id"
OWN = ("example_id", "image", "split", GENDER)
WHAT = ("instances", "captions")


class CocoSource(AnnotatedSource):
    """COCO as its archives unpack: a folder of images for each split, and annotations beside."""

    kind: Literal["coco"]
    may_have_several_labels: ClassVar[bool] = True
    data: FolderPlace = Field(
        description="Folder with annotations/instances_SPLIT.json, perhaps captions_SPLIT.json, "
        "and images in SPLIT/."
    )
    train: SplitName = Field("train2017", description="Split that members are trained on.")
    test: SplitName = Field("val2017", description="Split that is audited.")
    attributes: MaybeFilePlace = Field(
        None, description="CSV with more columns for images, joined by `image_id`."
    )
    one_gender: bool = Field(False, description=ONE_GENDER.format("captions"))

    def image_folder(self) -> str:
        return self.data

    def annotations(self) -> str:
        return storage.join(self.data, "annotations")

    def annotation_files(self) -> list[str]:
        splits = (self.train, self.test)
        names = [f"annotations/{what}_{name}.json" for what in WHAT for name in splits]
        return [name for name in names if storage.exists(storage.join(self.data, name))]

    def folders_of_images(self) -> tuple[str, ...]:
        return f"{self.train}/", f"{self.test}/"

    def joined(self, table: pl.DataFrame, limits: ReaderLimits) -> pl.DataFrame:
        return table if self.attributes is None else _joined(table, self.attributes, limits)

    def named_files(self, names: list[str]) -> dict[str, storage.StampedFiles]:
        beside = self.attributes
        own = {} if beside is None else {"attributes": storage.StampedFiles.one(beside)}
        return own | super().named_files(names)

    def read_split(self, name: str, limits: ReaderLimits) -> pl.DataFrame:
        instances, captions = (
            storage.join(self.data, f"annotations/{what}_{name}.json") for what in WHAT
        )
        refuse_absent_annotations(
            instances, f"{self.data} must hold annotations/instances_{name}.json"
        )
        with storage.at_hand(instances) as path:
            table = table_apart(
                coco_labels, path, instances, path=path, called=instances, limits=limits
            )
        for taken in {IMAGE_ID, "split"} & set(table.columns):
            raise DataError(
                f"{printable(instances)} has a category {taken!r}, which is a column of every "
                "table; rename the category"
            )
        if storage.exists(captions):
            with storage.at_hand(captions) as path:
                genders = table_apart(
                    captioned_genders, path, captions, path=path, called=captions, limits=limits
                )
            table = table.join(genders, on="example_id", how="left", maintain_order="left")
        return table.rename({"example_id": IMAGE_ID, "image": "example_id"}).with_columns(
            pl.concat_str(pl.lit(f"{name}/"), "example_id").alias("example_id")
        )


def _joined(table: pl.DataFrame, place: str, limits: ReaderLimits) -> pl.DataFrame:
    """Add the columns of a table of attributes."""
    own = attributes_table(place, limits)
    if IMAGE_ID not in own.columns:
        raise DataError(
            f"source.attributes {printable(place)} must have the column {IMAGE_ID!r}, got "
            f"{printable(', '.join(own.columns))}{nearest(IMAGE_ID, own.columns)}; rename a column"
        )
    refuse_doubled(IMAGE_ID, own.columns, place)
    for name in own.columns:
        if name != IMAGE_ID and (name in table.columns or name in OWN):
            raise DataError(
                f"source.attributes {printable(place)} has a column {printable(name)!r}, which the "
                "annotations have too; rename it"
            )
    if twice := own.filter(pl.col(IMAGE_ID).is_duplicated())[IMAGE_ID].to_list():
        raise DataError(
            f"source.attributes {printable(place)} must have one row an image, got two of image "
            f"{printable(str(twice[0]))!r}; keep one of them"
        )
    if unknown := own.join(table, on=IMAGE_ID, how="anti")[IMAGE_ID].to_list():
        raise DataError(
            f"source.attributes {printable(place)} must be of images of the annotations, got "
            f"{len(unknown):,} others, the first {printable(str(unknown[0]))!r}; remove their rows"
        )
    return table.join(own, on=IMAGE_ID, how="left", maintain_order="left")
