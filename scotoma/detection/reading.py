"""Read a ground truth and detections: COCO's JSON, YOLO's text files, arrays of NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from scotoma.config.limits import ReaderLimits
from scotoma.detection import arrays, coco, yolo
from scotoma.detection.boxes import Detections, GroundTruth
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.untrusted import table_apart

__all__ = ["read_detections", "read_ground_truth"]

BOX = ("left", "top", "width", "height")


def read_ground_truth(
    path: Path, *, limits: ReaderLimits | None = None, apart: bool = True
) -> GroundTruth:
    """Read the boxes that annotators drew.

    Args:
        path: COCO's instances JSON, or the data.yaml of a dataset in YOLO's layout.
        limits: Memory and time, as configured.
        apart: Whether to read in another process; not in one that is itself such a process.

    Raises:
        DataError: The file cannot be read, an id is there twice or unknown, or a box is none.
    """
    called = path.name
    if not path.is_file():
        raise DataError(
            f"ground truth {printable(str(path))} is not a file; name COCO's instances JSON, or "
            "data.yaml of a dataset in YOLO's layout"
        )
    read = yolo.truth_table if path.suffix.lower() in (".yaml", ".yml") else coco.truth_table
    table = (
        table_apart(read, path, called, path=path, called=called, limits=limits)
        if apart
        else read(path, called)
    )
    images, categories, boxes = (_part(table, name) for name in coco.SCHEMAS)
    return _ground_truth(images, categories, boxes, called)


def _part(table: pl.DataFrame, name: str) -> pl.DataFrame:
    if not table[name].list.len().item():
        return pl.DataFrame(schema=coco.SCHEMAS[name])
    return table[name].explode().struct.unnest()


def _ground_truth(
    images: pl.DataFrame, categories: pl.DataFrame, boxes: pl.DataFrame, called: str
) -> GroundTruth:
    name = printable(called)
    for table, what in ((images, "image"), (categories, "category"), (boxes, "annotation")):
        if (twice := table.filter(pl.col("id").is_duplicated())).height:
            raise DataError(
                f"{name} must hold each {what} once, got id {printable(twice['id'][0])} twice; "
                "keep one, or number them anew"
            )
    if not images.height or not categories.height:
        raise DataError(f"{name} must hold images and categories, got none; export it again")
    images, categories = _sorted(images), _sorted(categories)
    image = _numbers(boxes["image_id"], images["id"], f"{name}: image_id", "its images")
    category = _numbers(boxes["category_id"], categories["id"], f"{name}: category_id",
                        "its categories")  # fmt: skip
    box = boxes.select(BOX).to_numpy().astype(np.float64)
    _refuse_no_box(box, f"{name}: annotation", boxes["id"])
    sizes = images.select("width", "height").to_numpy().astype(np.float64)
    over = (box[:, :2] < -1) | (box[:, :2] + box[:, 2:] > sizes[image] + 1)
    outside = int(over.any(axis=1).sum())
    note = f"{outside:,} boxes of {name} reach beyond their image, and are taken as they are"
    repeated = categories["name"].is_duplicated()
    named = categories.select(
        pl.when(repeated).then(pl.format("{} ({})", "name", "id")).otherwise("name")
    ).to_series()
    area = boxes["area"].to_numpy().astype(np.float64)
    return GroundTruth(
        image_ids=tuple(images["id"]),
        image_names=tuple(images["file_name"]),
        image_sizes=sizes,
        classes=tuple(named),
        class_ids=tuple(categories["id"]),
        box_ids=tuple(boxes["id"]),
        image=image,
        category=category,
        box=box,
        area=np.where(np.isnan(area), box[:, 2] * box[:, 3], area),
        crowd=boxes["iscrowd"].to_numpy(),
        notes=(note,) if outside else (),
    )


def read_detections(
    path: Path, truth: GroundTruth, *, limits: ReaderLimits | None = None, apart: bool = True
) -> Detections:
    """Read what a detector found.

    Args:
        path: COCO's results JSON, a folder of YOLO's text files, or an .npz of arrays.
        truth: The boxes of the same images.
        limits: Memory and time, as configured.
        apart: As for `read_ground_truth`.

    Raises:
        DataError: The file cannot be read, an image or class is unknown, or a box or score is none.
    """
    called, name = path.name, printable(path.name)
    if path.is_dir():
        table = yolo.detection_table(path, truth, limits, apart=apart)
    elif not path.is_file():
        raise DataError(
            f"detections {printable(str(path))} are neither a file nor a folder; name COCO's "
            "results JSON, a folder of YOLO's text files, or an .npz"
        )
    else:
        read = arrays.detection_table if path.suffix.lower() == ".npz" else coco.detection_table
        table = (
            table_apart(read, path, called, path=path, called=called, limits=limits)
            if apart
            else read(path, called)
        )
    image = _numbers(table["image_id"], pl.Series(truth.image_ids), f"{name}: image_id",
                     "the images of the ground truth")  # fmt: skip
    category = _numbers(table["category_id"], pl.Series(truth.class_ids), f"{name}: category_id",
                        "the categories of the ground truth")  # fmt: skip
    box = table.select(BOX).to_numpy().astype(np.float64)
    score = table["score"].to_numpy().astype(np.float64)
    rows = pl.Series(np.arange(table.height)).cast(pl.String)
    _refuse_no_box(box, f"{name}: detection", rows)
    if not np.isfinite(score).all():
        raise DataError(
            f"{name} must give each detection a score, got none for detection "
            f"{int((~np.isfinite(score)).argmax()):,}; leave it out, or score it"
        )
    notes = (f"{name} holds no detection: every box is missed",) if not table.height else ()
    return Detections(image, category, box, score, notes)


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    """Rows by id: numbers as numbers, as COCO's evaluation takes them."""
    numbers = table["id"].cast(pl.Int64, strict=False)
    return table.sort("id") if numbers.null_count() else table[numbers.arg_sort().to_list()]


def _numbers(ids: pl.Series, known: pl.Series, what: str, where: str) -> np.ndarray:
    """Number of each id among those that are known."""
    ids, table = ids.cast(pl.String), known.cast(pl.String)
    found = ids.to_frame("id").join(
        table.to_frame("id").with_row_index("number"), on="id", how="left", maintain_order="left"
    )["number"]
    if unknown := found.null_count():
        first = str(ids.filter(found.is_null())[0])
        shown = ", ".join(printable(one) for one in table[:5])
        raise DataError(
            f"{what} must be among {where} ({shown}{', ...' if len(table) > 5 else ''}), got "
            f"{printable(first)[:60]} in {unknown:,} of {len(ids):,} rows; use the ids of the same "
            "dataset"
        )
    return found.to_numpy().astype(np.intp)


def _refuse_no_box(box: np.ndarray, what: str, ids: pl.Series) -> None:
    fine = np.isfinite(box).all(axis=1) & (box[:, 2:] >= 0).all(axis=1)
    if not fine.all():
        row = int(fine.argmin())
        shown = ", ".join(f"{side:g}" for side in box[row])
        raise DataError(
            f"{what} {printable(str(ids[row]))[:60]} must have a box of [left, top, width, height] "
            f"in pixels, none of these below 0 in size, got [{shown}]; correct or remove it"
        )
