"""Read images that are published with annotations: one table of all splits, joined with files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from scotoma import storage
from scotoma.config.limits import LIMITS, ReaderLimits
from scotoma.config.sources import CocoSource, ImsituSource
from scotoma.datasets.coco_labels import GENDER, captioned_genders, coco_labels
from scotoma.datasets.folder import SUFFIXES, attributes_table, image_files, read_images
from scotoma.datasets.imsitu import situations
from scotoma.datasets.join import Join, join_images, spelled_as_files
from scotoma.errors import DataError
from scotoma.printable import nearest, printable
from scotoma.readers.tables import refuse_doubled
from scotoma.untrusted import table_apart

__all__ = ["AnnotatedImages", "annotated_image_folder", "annotation_files", "annotations_place"]
__all__ += ["load_annotated"]

IMAGE_ID = "image_id"
IMSITU_IMAGES = "of500_images_resized"
OWN = ("example_id", "image", "split", GENDER)


class AnnotatedImages(NamedTuple):
    """Images of both splits.

    Attributes:
        table: One row an image: `example_id` (its path below the folder of images), `split`, labels
            and attributes, and `image` if images were asked for.
        join: How rows and files match.
        notes: Sentences on what was left out.
    """

    table: pl.DataFrame
    join: Join
    notes: tuple[str, ...]


def load_annotated(
    source: CocoSource | ImsituSource, *, images: bool = True, limits: ReaderLimits = LIMITS
) -> AnnotatedImages:
    """Read annotations of both splits, and the image files that they name.

    Args:
        source: Folder or `s3://` prefix, and its splits.
        images: Whether to read the files. If not, rows without image are counted, not refused.
        limits: Memory and time for reading annotations.

    Returns:
        Of COCO 0 or 1 in a column for each category, `image_id`, `gender` of the captions where
        there are some, and the columns of `source.attributes`; of imSitu `verb` and `gender`.

    Raises:
        DataError: A file cannot be read or does not hold what it should, an image is absent, the
            splits have different categories, or no image names one gender where that is asked for.
    """
    parts = []
    for split, name in (("train", source.train), ("test", source.test)):
        own = (
            _coco(source, name, limits)
            if isinstance(source, CocoSource)
            else _imsitu(source, name, limits)
        )
        parts.append(own.with_columns(pl.lit(split).alias("split")))
    _refuse_other_columns(parts, source)
    table = pl.concat(parts, how="vertical_relaxed")
    below: tuple[str, ...] = ("",)
    if isinstance(source, CocoSource):
        below = (f"{source.train}/", f"{source.test}/")
    if isinstance(source, CocoSource) and source.attributes is not None:
        table = _joined(table, source.attributes, limits)
    folder = annotated_image_folder(source)
    files, _ = image_files(folder, table["example_id"].to_list(), "the annotations")
    table, respelled = spelled_as_files(table, "example_id", files)
    everyone = table["example_id"].to_list()
    notes: tuple[str, ...] = ()
    if source.one_gender:
        table, notes = _of_one_gender(table, source)
    names = table["example_id"].to_list()
    named = set(everyone)
    pictures = [
        name
        for name in files
        if name in named or (name.lower().endswith(SUFFIXES) and name.startswith(below))
    ]
    join = join_images(names, pictures, elsewhere=everyone, respelled=respelled)
    if images:
        if complaint := join.complaint(annotations_place(source), folder):
            raise DataError(complaint)
        table = table.with_columns(read_images(folder, names))
    return AnnotatedImages(table, join, notes)


def annotated_image_folder(source: CocoSource | ImsituSource) -> str:
    """Name the folder that names of images are relative to."""
    is_coco = isinstance(source, CocoSource)
    return source.data if is_coco else storage.join(source.data, IMSITU_IMAGES)


def annotations_place(source: CocoSource | ImsituSource) -> str:
    """What messages call the annotations."""
    is_coco = isinstance(source, CocoSource)
    return storage.join(source.data, "annotations") if is_coco else source.data


def annotation_files(source: CocoSource | ImsituSource) -> list[str]:
    """List the annotations that are read, relative to `source.data`."""
    splits = (source.train, source.test)
    if isinstance(source, ImsituSource):
        return [*(f"{name}.json" for name in splits), "imsitu_space.json"]
    names = [f"annotations/{what}_{name}.json" for what in WHAT for name in splits]
    return [name for name in names if storage.exists(storage.join(source.data, name))]


WHAT = ("instances", "captions")


def _coco(source: CocoSource, name: str, limits: ReaderLimits) -> pl.DataFrame:
    instances, captions = (
        storage.join(source.data, f"annotations/{what}_{name}.json") for what in WHAT
    )
    _refuse_absent(instances, f"{source.data} must hold annotations/instances_{name}.json", source)
    with storage.at_hand(instances) as path:
        table = table_apart(
            coco_labels, path, instances, path=path, called=instances, limits=limits
        )
    for taken in {IMAGE_ID, "split"} & set(table.columns):
        raise DataError(
            f"{printable(instances)} has a category {taken!r}, which is a column of every table; "
            "rename the category"
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


def _imsitu(source: ImsituSource, name: str, limits: ReaderLimits) -> pl.DataFrame:
    file, space = (storage.join(source.data, f"{part}.json") for part in (name, "imsitu_space"))
    for part in (name, "imsitu_space"):
        place = storage.join(source.data, f"{part}.json")
        _refuse_absent(place, f"{source.data} must hold {part}.json", source)
    with storage.at_hand(file) as path, storage.at_hand(space) as nouns:
        larger = max(path, nouns, key=lambda one: one.stat().st_size)
        return table_apart(
            situations, path, nouns, file, space, path=larger, called=file, limits=limits
        )


def _refuse_absent(place: str, rule: str, source: CocoSource | ImsituSource) -> None:
    if not storage.exists(place):
        raise DataError(
            f"source.data {printable(rule)}, and does not; put the annotations there, or name "
            "other splits in source.train and source.test"
        )


def _refuse_other_columns(parts: Sequence[pl.DataFrame], source: CocoSource | ImsituSource) -> None:
    """Refuse a category that only one of the splits knows."""
    train, test = (set(part.columns) for part in parts)
    if lone := sorted(train ^ test):
        here, there = (
            (source.train, source.test) if lone[0] in train else (source.test, source.train)
        )
        what = "captions" if lone[0] == GENDER else f"a category {printable(lone[0])!r}"
        raise DataError(
            f"both splits of {printable(annotations_place(source))} must have the same categories "
            f"and captions, got {what} in {printable(here)} and none in {printable(there)}; export "
            "both alike"
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


def _of_one_gender(
    table: pl.DataFrame, source: CocoSource | ImsituSource
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Keep images that name one gender, and say how many do not."""
    if GENDER not in table.columns:
        raise DataError(
            "source.one_gender reads captions, and there is no "
            f"annotations/captions_{printable(source.train)}.json in {printable(source.data)}; "
            "add the captions, or leave one_gender out"
        )
    kept = table.filter(pl.col(GENDER).is_not_null())
    if not (left := table.height - kept.height):
        return kept, ()
    return kept, (
        f"{left:,} of {table.height:,} images name no gender, or women and men, and are left out",
    )
