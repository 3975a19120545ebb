"""COCO's files as tables: instances, labels of images, captions, results of a detector.

Called in the process that reads files from outside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.unreadable import UNREADABLE

__all__ = [
    "DETECTIONS",
    "SCHEMAS",
    "caption_table",
    "detection_table",
    "label_tables",
    "truth_table",
]

BOX = dict.fromkeys(("left", "top", "width", "height"), pl.Float64)
SCHEMAS: dict[str, dict[str, Any]] = {
    "images": {"id": pl.String, "file_name": pl.String, "width": pl.Float64, "height": pl.Float64},
    "categories": {"id": pl.String, "name": pl.String},
    "annotations": {"id": pl.String, "image_id": pl.String, "category_id": pl.String}
    | BOX
    | {"area": pl.Float64, "iscrowd": pl.Boolean},
}
NAMES = dict.fromkeys(("file_name", "category_name"), pl.String)  # null where a tool writes none
DETECTIONS: dict[str, Any] = (
    {"image_id": pl.String, "category_id": pl.String} | BOX | {"score": pl.Float64} | NAMES
)
ROWS: dict[str, dict[str, Any]] = {
    "detections": DETECTIONS,
    "labels": {"image_id": pl.String, "category_id": pl.String},
    "captions": {"image_id": pl.String, "caption": pl.String},
}
WAY_OUT = "export it again as COCO does"


def truth_table(path: Path, called: str) -> pl.DataFrame:
    """Read instances: one row, whose columns `SCHEMAS` are lists of rows.

    Args:
        path: The file.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _instances(path, called)
    tables = {
        "images": _table(content["images"], "images", _image, called, "image"),
        "categories": _table(content["categories"], "categories", _category, called, "category"),
        "annotations": _table(
            content["annotations"], "annotations", _annotation, called, "annotation"
        ),
    }
    return pl.DataFrame({name: [table.to_struct()] for name, table in tables.items()})


def label_tables(path: Path, called: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Read instances without their boxes, which annotations then need not have.

    Args:
        path: The file.
        called: What messages call it.

    Returns:
        Images and categories as `SCHEMAS` has them; `image_id` and `category_id` of annotations.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _instances(path, called)
    return (
        _table(content["images"], "images", _image, called, "image"),
        _table(content["categories"], "categories", _category, called, "category"),
        _table(content["annotations"], "labels", _label, called, "annotation"),
    )


def caption_table(path: Path, called: str) -> pl.DataFrame:
    """Read captions: a row an annotation, with `image_id` and `caption`.

    Args:
        path: The file.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _loaded(path, called)
    if not isinstance(content, dict) or "annotations" not in content:
        raise DataError(
            f"{printable(called)} must hold the key annotations of COCO's captions, got "
            f"{_shown(content)}; {WAY_OUT}"
        )
    return _table(content["annotations"], "captions", _caption, called, "caption")


def _instances(path: Path, called: str) -> Mapping[str, Any]:
    content = _loaded(path, called)
    if not isinstance(content, dict) or not set(SCHEMAS) <= set(content):
        raise DataError(
            f"{printable(called)} must hold the keys images, categories and annotations of COCO, "
            f"got {_shown(content)}; {WAY_OUT}"
        )
    return content


def detection_table(path: Path, called: str) -> pl.DataFrame:
    """Read results: a row a detection, with the columns of `DETECTIONS`.

    Args:
        path: COCO's results; its instances with a score in each annotation, as annotation tools
            export predictions; or what torchvision's detectors return, a dictionary an image.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _loaded(path, called)
    rows = _results(content)
    if not isinstance(rows, list):
        raise DataError(
            f"{printable(called)} must hold a list of detections, each with image_id, category_id, "
            f"bbox and score, got {_shown(content)}; {WAY_OUT}"
        )
    return _table(rows, "detections", _detection, called, "detection")


def _results(content: Any) -> Any:
    """Detections as a list with an entry each; what is none of these forms stays as it is."""
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        return _with_names(content)
    if isinstance(content, dict) and content and all(map(_is_image, content.values())):
        content = [{"image_id": key, **image} for key, image in content.items()]
    if isinstance(content, list) and content and _is_image(content[0]):
        return [row for image in content for row in _of_image(image)]
    return content


def _with_names(content: Mapping[str, Any]) -> Any:
    """Annotations of a whole dataset, each with the names of its image and category."""
    names = []
    for key, name in (("images", "file_name"), ("categories", "name")):
        listed = content.get(key)
        entries = (
            [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        )
        names.append({str(one.get("id")): one.get(name) for one in entries})
    return [
        {"file_name": names[0].get(str(one.get("image_id"))),
         "category_name": names[1].get(str(one.get("category_id"))), **one}
        if isinstance(one, dict)
        else one
        for one in content["annotations"]
    ]  # fmt: skip


def _is_image(entry: Any) -> bool:
    return isinstance(entry, dict) and {"boxes", "labels", "scores"} <= entry.keys()


def _of_image(image: Any) -> Iterator[Any]:
    """Each detection of an image as torchvision has it: corners of boxes, labels and scores."""
    try:
        for box, label, score in zip(image["boxes"], image["labels"], image["scores"], strict=True):
            left, top, right, bottom = box
            sides = [left, top, right - left, bottom - top]
            yield {"image_id": image["image_id"], "category_id": label, "bbox": sides,
                   "score": score}  # fmt: skip
    except (KeyError, TypeError, ValueError):
        yield image  # which `_detection` refuses


def _loaded(path: Path, called: str) -> Any:
    try:
        with path.open("rb") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be decoded"
        raise DataError(
            f"{printable(called)} must hold JSON, and does not ({why}): it may have been cut off; "
            "copy it again"
        ) from error


def _shown(content: Any) -> str:
    if isinstance(content, dict):
        keys = printable(", ".join(map(str, [*content][:10])))
        return f"an object with {keys}" if keys else "an empty object"
    return "a list" if isinstance(content, list) else f"{type(content).__name__}"


def _table(
    entries: Any,
    schema: str,
    row: Callable[[Mapping[str, Any]], Sequence[Any]],
    called: str,
    what: str,
) -> pl.DataFrame:
    """Each entry as a row, or a sentence about the first that is none."""
    columns = SCHEMAS[schema] if schema in SCHEMAS else ROWS[schema]
    if (
        isinstance(entries, list)
        and "left" in columns
        and (table := _boxes(entries, columns)) is not None
    ):
        return table
    rows: list[Sequence[Any]] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        try:
            rows.append(row(entry))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            fault = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise DataError(
                f"{printable(called)} must describe each {what} as COCO does, and number "
                f"{number:,} does not ({printable(fault)[:120]}); {WAY_OUT}"
            ) from error
    return pl.DataFrame(rows, schema=columns, orient="row")


def _boxes(entries: list[Any], schema: Mapping[str, Any]) -> pl.DataFrame | None:
    """Boxes as columns, five times as fast as rows; None where an entry is not as usual."""
    columns: dict[str, Any] = {}
    usual = {"area": math.nan, "iscrowd": 0} | dict.fromkeys(NAMES)
    try:
        boxes = np.array([one["bbox"] for one in entries])
        if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype.kind not in "if":
            return None
        for name in schema:
            if name in BOX:
                columns[name] = boxes[:, len(columns.keys() & BOX.keys())].astype(np.float64)
                continue
            values = [one.get(name, usual[name]) if name in usual else one[name] for one in entries]
            kinds = {int, float} if name in ("area", "score") else {int}
            if not set(map(type, values)) <= ({str, type(None)} if name in NAMES else kinds):
                return None
            held = values if name in NAMES else np.array(values)
            columns[name] = pl.Series(name, held, pl.String if name in NAMES else None)
        return pl.DataFrame(columns).cast(pl.Schema(schema))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, *UNREADABLE):
        return None


def _id(value: Any) -> str:
    """An id as text: 7, 7.0 and "7" are one id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"an id must be a whole number or text, got {value!r:.40}")
    return str(value)


def _box(entry: Mapping[str, Any]) -> Iterable[float]:
    value = entry.get("bbox")
    if value is None:
        held = [key for key in ("segmentation", "keypoints", "segments_info") if key in entry]
        way = "; for masks pycocotools.mask.toBbox computes it" if held else ""
        raise ValueError(f"no bbox{', but ' + held[0] if held else ''}{way}")
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"bbox must be [left, top, width, height], got {value!r:.60}")
    return map(_number, value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, got {value!r:.40}")
    return float(value)


def _image(entry: Mapping[str, Any]) -> Sequence[Any]:
    sides = (_number(entry.get(side, math.nan)) for side in ("width", "height"))
    return (_id(entry["id"]), str(entry.get("file_name", "")), *sides)


def _category(entry: Mapping[str, Any]) -> Sequence[Any]:
    return _id(entry["id"]), str(entry["name"])


def _annotation(entry: Mapping[str, Any]) -> Sequence[Any]:
    return (
        _id(entry["id"]), _id(entry["image_id"]), _id(entry["category_id"]), *_box(entry),
        _number(entry.get("area", math.nan)), bool(entry.get("iscrowd", 0)),
    )  # fmt: skip


def _label(entry: Mapping[str, Any]) -> Sequence[Any]:
    return _id(entry["image_id"]), _id(entry["category_id"])


def _caption(entry: Mapping[str, Any]) -> Sequence[Any]:
    return _id(entry["image_id"]), str(entry["caption"])


def _detection(entry: Mapping[str, Any]) -> Sequence[Any]:
    names = (None if entry.get(name) is None else str(entry[name]) for name in NAMES)
    ids = _id(entry["image_id"]), _id(entry["category_id"])
    return (*ids, *_box(entry), _number(entry["score"]), *names)
