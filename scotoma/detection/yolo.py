"""YOLO's layout as tables: a text file an image, a line a box, in fractions of the image.

    data.yaml               path, val (a folder of images), names
    images/val/0001.jpg
    labels/val/0001.txt     class centre-x centre-y width height
    found/0001.txt          class centre-x centre-y width height score

Called in the process that reads files from outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from PIL import Image

from scotoma.config.limits import ReaderLimits
from scotoma.detection.boxes import GroundTruth
from scotoma.detection.coco import BOX, DETECTIONS, SCHEMAS
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.untrusted import table_apart

__all__ = ["detection_table", "truth_table"]

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")
MOST_FILES = 1_000_000
MOST_BYTES = 10_000_000  # of one text file


def truth_table(path: Path, called: str) -> pl.DataFrame:
    """Read a dataset's labels: one row, as `coco.truth_table` has it.

    Image ids are file names without suffix, class ids those of `names`; sizes are read from the
    pictures' headers. An image without a label file has no box.

    Args:
        path: data.yaml with `names` and `val` (or `test`), a folder of images, from `path`.
        called: What messages call it.

    Raises:
        DataError: It names no classes or images, or a line is no box.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{printable(called)} must hold YAML; write it again") from error
    content = content if isinstance(content, dict) else {}
    names, place = content.get("names"), content.get("val") or content.get("test")
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or not isinstance(place, str):
        raise DataError(
            f"{printable(called)} must hold names (of the classes) and val (a folder of images), "
            f"got {printable(', '.join(map(str, content)))[:100] or 'neither'}; add them"
        )
    root = path.parent / str(content.get("path") or ".")
    if not root.is_dir():
        root = path.parent
    folder = root / place
    pictures = sorted(one for one in _files(folder) if one.suffix.lower() in PICTURES)
    if not pictures:
        raise DataError(
            f"{printable(called)} must name a folder of images as val, and "
            f"{printable(place)[:80]} holds none; correct path or val"
        )
    images, boxes = [], []
    for picture in pictures:
        width, height = _size(picture)
        images.append((picture.stem, picture.name, float(width), float(height)))
        for number, line in _lines(_label_file(picture), 5):
            box = _pixels(line[1:5], width, height)
            boxes.append((f"{picture.stem} {number}", picture.stem, str(int(line[0])), *box,
                          math.nan, False))  # fmt: skip
    parts: dict[str, list[Any]] = {
        "images": images,
        "categories": [(str(key), str(name)) for key, name in names.items()],
        "annotations": boxes,
    }
    tables = {
        name: pl.DataFrame(rows, schema=SCHEMAS[name], orient="row") for name, rows in parts.items()
    }
    return pl.DataFrame({name: [table.to_struct()] for name, table in tables.items()})


def detection_table(
    folder: Path, truth: GroundTruth, limits: ReaderLimits | None = None, *, apart: bool = True
) -> pl.DataFrame:
    """Read a folder of detections, a text file an image, with the columns of `coco.DETECTIONS`.

    Args:
        folder: Files named as the images; those that are absent hold no detection.
        truth: The boxes, with the size of each image.
        limits: Memory and time, as configured.
        apart: Whether to read in another process.

    Raises:
        DataError: A line is no box with a score, or the size of its image is not known.
    """
    first = next(_files(folder), folder)
    table = (
        table_apart(_fractions, folder, path=first, called=folder.name, limits=limits)
        if apart
        else _fractions(folder)
    )
    by_name = {
        Path(name).stem or image_id: (image_id, width, height)
        for image_id, name, (width, height) in zip(
            truth.image_ids, truth.image_names, truth.image_sizes.tolist(), strict=True
        )
    }
    known = pl.DataFrame(
        [(stem, *row) for stem, row in by_name.items()],
        schema={"stem": pl.String, "image_id": pl.String} | dict.fromkeys(("w", "h"), pl.Float64),
        orient="row",
    )
    joined = table.join(known, on="stem", how="left", maintain_order="left")
    if (unknown := joined.filter(pl.col("image_id").is_null())).height:
        raise DataError(
            f"{printable(folder.name)} holds {printable(unknown['stem'][0])[:60]}.txt, which is "
            "named as no image of the ground truth; use the same images"
        )
    if joined.select(pl.col("w").is_nan().any()).item():
        raise DataError(
            f"{printable(folder.name)} holds boxes in fractions of images, whose size the ground "
            "truth must give; add width and height to its images"
        )
    left, top = pl.col("left") - pl.col("width") / 2, pl.col("top") - pl.col("height") / 2
    scaled = joined.select(
        "image_id", "category_id", left * pl.col("w"), top * pl.col("h"),
        pl.col("width") * pl.col("w"), pl.col("height") * pl.col("h"), "score",
    )  # fmt: skip
    return scaled.select(*DETECTIONS)


def _fractions(folder: Path) -> pl.DataFrame:
    rows = [
        (file.stem, str(int(line[0])), *line[1:])
        for file in sorted(_files(folder))
        if file.suffix == ".txt"
        for _, line in _lines(file, 6)
    ]
    schema = {"stem": pl.String, "category_id": pl.String} | BOX | {"score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _files(folder: Path) -> Iterator[Path]:
    for number, file in enumerate(folder.iterdir() if folder.is_dir() else ()):
        if number >= MOST_FILES:
            raise DataError(
                f"{printable(folder.name)} must hold at most {MOST_FILES:,} files; split it"
            )
        if file.is_file():
            yield file


def _label_file(picture: Path) -> Path:
    """Where YOLO keeps the labels of a picture: `images` in its path is `labels`."""
    parts = list(picture.parent.parts)
    for place in range(len(parts) - 1, -1, -1):
        if parts[place] == "images":
            parts[place] = "labels"
            break
    return Path(*parts, f"{picture.stem}.txt")


def _size(picture: Path) -> tuple[int, int]:
    try:
        with Image.open(picture) as opened:
            return opened.size
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"image {printable(picture.name)[:60]} cannot be read as a picture; replace it"
        ) from error


def _lines(file: Path, numbers: int) -> Iterator[tuple[int, list[float]]]:
    """Each line's number and its numbers: class, centre, size and, of detections, score."""
    if not file.is_file():
        return
    if file.stat().st_size > MOST_BYTES:
        raise DataError(
            f"{printable(file.name)} must take at most {MOST_BYTES / 1e6:g} MB; split it"
        )
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines()):
        try:
            values = [float(part) for part in line.split()]
        except ValueError:
            values = []
        if not line.strip():
            continue
        fine = len(values) == numbers and all(map(math.isfinite, values)) and values[0] >= 0
        if not fine or values[0] != int(values[0]):
            kinds = "class, x, y, width, height" + (" and score" if numbers == 6 else "")
            raise DataError(
                f"{printable(file.name)[:60]} must hold {kinds} in each line, got "
                f"{printable(line)[:60]!r} in line {number + 1:,}; write it again"
            )
        yield number + 1, values


def _pixels(box: list[float], width: float, height: float) -> list[float]:
    x, y, w, h = box
    return [(x - w / 2) * width, (y - h / 2) * height, w * width, h * height]
