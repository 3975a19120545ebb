"""COCO's files as tables: instances, labels of images, captions, results of a detector.

Called in the process that reads files from outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_file, objects

WAY_OUT = "export it again as COCO does"


def truth_table(path: Path, called: str) -> pl.DataFrame:
    """Read instances: one row, whose columns `PARTS` are lists of rows.

    Args:
        path: The file.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _instances(path, called)
    tables = {name: _table(content[name], what, called) for name, what in PARTS.items()}
    return pl.DataFrame({name: [table.to_struct()] for name, table in tables.items()})


def label_tables(path: Path, called: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Read instances without their boxes, which annotations then need not have.

    Args:
        path: The file.
        called: What messages call it.

    Returns:
        Images and categories as `KINDS` has them; `image_id` and `category_id` of annotations.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = _instances(path, called)
    images, categories = (_table(content[name], PARTS[name], called) for name in [*PARTS][:2])
    return images, categories, _table(content["annotations"], "label", called)


def caption_table(path: Path, called: str) -> pl.DataFrame:
    """Read captions: a row an annotation, with `image_id` and `caption`.

    Args:
        path: The file.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = json_file(path, called)
    if not isinstance(content, dict) or "annotations" not in content:
        raise DataError(
            f"{printable(called)} must hold the key annotations of COCO's captions, got "
            f"{_shown(content)}; {WAY_OUT}"
        )
    return _table(content["annotations"], "caption", called)


def _instances(path: Path, called: str) -> Mapping[str, Any]:
    content = json_file(path, called)
    if not isinstance(content, dict) or not set(PARTS) <= set(content):
        raise DataError(
            f"{printable(called)} must hold the keys images, categories and annotations of COCO, "
            f"got {_shown(content)}; {WAY_OUT}"
        )
    return content


def detection_table(path: Path, called: str) -> pl.DataFrame:
    """Read results: a row a detection, with the columns of `KINDS`.

    Args:
        path: COCO's results; its instances with a score in each annotation, as annotation tools
            export predictions; or what torchvision's detectors return, a dictionary an image.
        called: What messages call it.

    Raises:
        DataError: It is no such JSON, or an entry lacks a key.
    """
    content = json_file(path, called)
    rows = _results(content)
    if not isinstance(rows, list):
        raise DataError(
            f"{printable(called)} must hold a list of detections, each with image_id, category_id, "
            f"bbox and score, got {_shown(content)}; {WAY_OUT}"
        )
    return _table(rows, "detection", called)


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
        entries = objects(content.get(key))
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


def _shown(content: Any) -> str:
    if isinstance(content, dict):
        keys = printable(", ".join(map(str, [*content][:10])))
        return f"an object with {keys}" if keys else "an empty object"
    return "a list" if isinstance(content, list) else f"{type(content).__name__}"


def _table(entries: Any, what: str, called: str) -> pl.DataFrame:
    """Each entry as a row, or a sentence about the first that is none."""
    listed = entries if isinstance(entries, list) else [entries]
    return pl.DataFrame([_column(listed, name, what, called) for name in FIELDS[what]])


def _column(entries: list[Any], name: str, what: str, called: str) -> pl.Series:
    read, kind, default = FIELDS[what][name]
    if (column := _usual_column(entries, name, what)) is not None:
        return column
    values = []
    for number, entry in enumerate(entries):
        try:
            value = entry.get(name, default)
            values.append(value if value is default and default is not REQUIRED else read(value))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            fault = str(error)
            if isinstance(entry, dict) and entry.get(name) is None:
                instead = [key for key in INSTEAD if key in entry and name == "bbox"]
                fault = ", but ".join([f"no {name!r}", *instead])
                fault += "; pycocotools.mask.toBbox makes boxes of masks" if instead else ""
            raise DataError(
                f"{printable(called)} must describe each {what} as COCO does, and number "
                f"{number:,} does not ({printable(fault)[:120]}); {WAY_OUT}"
            ) from error
    return pl.Series(name, values, kind)


def _usual_column(entries: list[Any], name: str, what: str) -> pl.Series | None:
    """A column whose values are all as usual, five times as fast; None for any other."""
    read, kind, default = FIELDS[what][name]
    with suppress(AttributeError, ValueError, OverflowError):
        values = [entry.get(name, default) for entry in entries]
        types = set(map(type, values))
        if types <= {str, type(default)} and read is _text:
            return pl.Series(name, values, kind)
        array = np.array(values)
        sides = (4,) if read is _box else ()
        if types <= USUAL[read] and array.dtype.kind in "ifb" and array.shape[1:] == sides:
            return pl.Series(name, array).cast(kind)
    return None


def _id(value: Any) -> str:
    """An id as text: 7, 7.0 and "7" are one id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"an id must be a whole number or text, got {value!r:.40}")
    return str(value)


def _box(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"bbox must be [left, top, width, height], got {value!r:.60}")
    return [_number(side) for side in value]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, got {value!r:.40}")
    return float(value)


def _text(value: Any) -> str:
    if value is REQUIRED:
        raise ValueError("must be text, got none")
    return "" if value is None else str(value)


REQUIRED = object()
INSTEAD = ("segmentation", "keypoints", "segments_info")  # of a box
USUAL: dict[Any, set[type]] = {
    _id: {int}, _number: {int, float}, bool: {int, bool}, _box: {list}, _text: set(),
}  # fmt: skip
BOX = pl.Array(pl.Float64, 4)  # left, top, width, height
ID, TEXT, NAME = (_id, pl.String, REQUIRED), (_text, pl.String, REQUIRED), (_text, pl.String, None)
NUMBER, BOUNDS = (_number, pl.Float64, math.nan), (_box, BOX, REQUIRED)
OF_BOX = {"image_id": ID, "category_id": ID, "bbox": BOUNDS}
FIELDS: dict[str, dict[str, tuple[Any, Any, Any]]] = {  # how a key is read, and without it
    "image": {"id": ID, "file_name": (_text, pl.String, ""), "width": NUMBER, "height": NUMBER},
    "category": {"id": ID, "name": TEXT},
    "annotation": {"id": ID, **OF_BOX, "area": NUMBER, "iscrowd": (bool, pl.Boolean, False)},
    "detection": {**OF_BOX, "score": (_number, pl.Float64, REQUIRED), "file_name": NAME,
                  "category_name": NAME},
    "label": {"image_id": ID, "category_id": ID},
    "caption": {"image_id": ID, "caption": TEXT},
}  # fmt: skip
KINDS = {what: {name: kind for name, (_, kind, _) in own.items()} for what, own in FIELDS.items()}
PARTS = {"images": "image", "categories": "category", "annotations": "annotation"}
