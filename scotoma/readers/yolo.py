"""YOLO's layout as tables: a text file an image, a line a box, in fractions of the image.

    data.yaml               path, val (folders of images, or lists of them), names
    images/val/0001.jpg
    labels/val/0001.txt     class centre-x centre-y width height, or class and a polygon x y x y ...
    found/0001.txt          class centre-x centre-y width height score

Paths are found as Ultralytics finds them. Called in the process that reads files from outside.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import yaml
from PIL import Image

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.coco import KINDS, PARTS

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".mpo", ".jp2",
            ".avif", ".dng", ".heic", ".heif")  # fmt: skip
MOST_FILES = 1_000_000
MOST_BYTES = 100_000_000  # of one text file
MOST_FRACTION = 10.0  # a box may reach beyond its image; pixels are larger numbers
ON_ITS_SIDE = (5, 6, 7, 8)  # orientations of EXIF by which width and height change places
ORIENTATION = 274  # its tag


def truth_table(path: Path, called: str) -> pl.DataFrame:
    """Read a dataset's labels: one row, as `coco.truth_table` has it, and the boxes that were made.

    Image ids are file names without suffix, class ids those of `names`; sizes are read from the
    pictures' headers. An image without a label file has no box.

    Args:
        path: data.yaml with `names` (or `nc`, their number) and `val` (or `test`): a folder of
            images, a text file that lists them, or several of these, from `path`.
        called: What messages call it.

    Returns:
        Lists of images, categories and annotations, and `polygons`: how many of the boxes are the
        bounding box of a polygon.

    Raises:
        DataError: It names no classes or images, or a line is no box.
    """
    content = _content(path, called)
    names, listed = content.get("names"), content.get("val") or content.get("test")
    places: list[Any] = listed if isinstance(listed, list) else [listed]
    if names is None and isinstance(content.get("nc"), int):
        names = [f"class_{number}" for number in range(min(content["nc"], MOST_FILES))]
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or not all(isinstance(place, str) for place in places):
        raise DataError(
            f"{printable(called)} must hold names (of the classes) and val (a folder of images), "
            f"got {printable(', '.join(map(str, content)))[:100] or 'neither'}; add them"
        )
    root = path.parent / str(content.get("path") or ".")
    pictures = _pictures(root if root.is_dir() else path.parent, places, called)
    points = _keypoint_numbers(content.get("kpt_shape"))
    images, boxes, polygons = [], [], 0
    for picture in pictures:
        width, height = _size(picture)
        images.append((picture.stem, picture.name, float(width), float(height)))
        for number, (label, box, polygon) in _labels(_label_file(picture), points):
            sides = _corner(box, width, height)
            polygons += polygon
            boxes.append((f"{picture.stem} {number}", picture.stem, label, sides, math.nan, False))
    parts: list[list[Any]] = [images, [(str(key), str(name)) for key, name in names.items()], boxes]
    held: dict[str, Any] = {
        name: [pl.DataFrame(rows, schema=KINDS[what], orient="row").to_struct()]
        for (name, what), rows in zip(PARTS.items(), parts, strict=True)
    }
    return pl.DataFrame(held | {"polygons": [polygons]})


def split_places(path: Path) -> list[str]:
    """List where the pictures of a split may be: names below the folder of data.yaml.

    Args:
        path: data.yaml; what it does not say is refused where it is read.
    """
    content = _content(path, path.name)
    listed, home = content.get("val") or content.get("test"), content.get("path")
    roots = {"", home} if isinstance(home, str) else {""}
    places = [one for one in (listed if isinstance(listed, list) else [listed])
              if isinstance(one, str)]  # fmt: skip
    return sorted(
        posixpath.normpath(posixpath.join(root, one))
        for root in roots
        for place in places
        for one in (place, place.removeprefix("../"))
    )


def pictures_and_labels(
    lists: Iterable[Path], places: Iterable[str], names: Collection[str]
) -> list[str]:
    """Choose the pictures of a split and their labels among the files of a dataset.

    Args:
        lists: Text files among the places, which list pictures.
        places: From `split_places`.
        names: Names of all files.

    >>> pictures_and_labels([], ["images/val"], ["images/val/1.jpg", "images/train/2.jpg",
    ...                                  "labels/val/1.txt", "labels/train/2.txt"])
    ['images/val/1.jpg', 'labels/val/1.txt']
    """
    listed = {posixpath.basename(line.strip()) for file in lists for line in _text(file)}
    below = tuple(f"{place}/" for place in places if place != ".")
    every = "." in places
    pictures = [
        name
        for name in names
        if name.lower().endswith(PICTURES)
        and (every or name.startswith(below) or posixpath.basename(name) in listed)
    ]
    stems = {PurePosixPath(name).stem for name in pictures}
    texts = [name for name in names if name.endswith(".txt") and PurePosixPath(name).stem in stems]
    return [*pictures, *texts]


def _content(path: Path, called: str) -> dict[Any, Any]:
    """Read data.yaml."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{printable(called)} must hold YAML; write it again") from error
    return content if isinstance(content, dict) else {}


def detection_files(folder: Path) -> list[Path]:
    """List the text files of detections in a folder, or in its `labels`, as YOLO writes them."""
    for place in (folder, folder / "labels"):
        if files := [file for file in _files(place) if file.suffix == ".txt"]:
            return sorted(files)
    return []


def detection_table(folder: Path, called: str) -> pl.DataFrame:
    """Read a folder of detections, a text file an image, with the columns of `coco.KINDS`.

    Args:
        folder: Files named as the images; those that are absent hold no detection.
        called: What messages call it.

    Returns:
        Boxes in fractions of their image, which `file_name` says without suffix.

    Raises:
        DataError: A line is no box with a score.
    """
    files = detection_files(folder)
    if not files:
        raise DataError(
            f"{printable(called)} must hold text files of detections, one an image, got none; name "
            "the folder with the labels"
        )
    rows = [
        (None, label, _corner(box, 1.0, 1.0), score, file.stem, None)
        for file in files
        for label, box, score in _scored(file)
    ]
    return pl.DataFrame(rows, schema=KINDS["detection"], orient="row")


def _pictures(root: Path, places: list[str], called: str) -> list[Path]:
    """List the pictures of a split, each once, in the order of their paths."""
    pictures: set[Path] = set()
    for place in places:
        named = root / place
        if not named.exists() and place.startswith("../"):  # as Roboflow exports it
            named = root / place[3:]
        listed = _listed(named, root) if named.is_file() else _files(named, below=True)
        own = {one for one in listed if one.suffix.lower() in PICTURES}
        if not own:
            raise DataError(
                f"{printable(called)} must name a folder of images as val, and "
                f"{printable(place)[:80]} holds none; correct path or val"
            )
        pictures |= own
    by_stem: dict[str, Path] = {}
    for one in sorted(pictures):
        if (other := by_stem.setdefault(one.stem, one)) != one:
            raise DataError(
                f"{printable(called)} must name images by which detections can be told apart, got "
                f"{printable(one.name)[:60]} and {printable(other.name)[:60]} in two places; "
                "rename one, and its labels"
            )
    return list(by_stem.values())


def _listed(file: Path, root: Path) -> Iterator[Path]:
    """The pictures that a text file lists, a path a line: from its folder, or from the root."""
    for line in _text(file):
        if name := line.strip():
            own = file.parent / name
            yield own if own.exists() else root / name


def _files(folder: Path, *, below: bool = False) -> Iterator[Path]:
    number = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            number += 1
            if number > MOST_FILES:
                raise DataError(
                    f"{printable(folder.name)} must hold at most {MOST_FILES:,} files; split it"
                )
            if (file := Path(place, name)).is_file():
                yield file
        if not below:
            return


def _label_file(picture: Path) -> Path:
    """Where YOLO keeps the labels of a picture: `images` in its path is `labels`."""
    parts = list(picture.parent.parts)
    for place in range(len(parts) - 1, -1, -1):
        if parts[place] == "images":
            parts[place] = "labels"
            break
    return Path(*parts, f"{picture.stem}.txt")


def _size(picture: Path) -> tuple[int, int]:
    """Width and height as a viewer shows it."""
    try:
        with Image.open(picture) as opened:
            width, height = opened.size
            on_side = opened.getexif().get(ORIENTATION) in ON_ITS_SIDE
            return (height, width) if on_side else (width, height)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"image {printable(picture.name)[:60]} cannot be read as a picture; replace it"
        ) from error


def _labels(file: Path, points: int) -> Iterator[tuple[int, tuple[str, list[float], bool]]]:
    """Number of each line, its class and box, and whether it was a polygon."""
    for number, line, values in _lines(file):
        label, *shape = values or [-1.0]
        keypoints = points and len(shape) == 4 + points
        box = _bounds(shape[:4] if keypoints else shape)
        if box is None or not _is_class(label):
            raise _no_box(file, number, line, "class, x, y, width, height")
        yield number, (str(int(label)), box, len(shape) > 4 and not keypoints)


def _scored(file: Path) -> Iterator[tuple[str, list[float], float]]:
    for number, line, values in _lines(file):
        label, *shape, score = values if len(values) > 1 else [-1.0, 0.0]
        box = _bounds(shape)
        if box is None or not _is_class(label):
            raise _no_box(file, number, line, "class, x, y, width, height and score")
        yield str(int(label)), box, score


def _no_box(file: Path, number: int, line: str, kinds: str) -> DataError:
    way = "; predict with save_conf=True" if len(line.split()) == 5 and "score" in kinds else ""
    return DataError(
        f"{printable(file.name)[:60]} must hold {kinds} in each line, in fractions of the image, "
        f"got {printable(line)[:60]!r} in line {number:,}{way or '; write it again'}"
    )


def _is_class(label: float) -> bool:
    return label >= 0 and label == int(label)


def _keypoint_numbers(shape: Any) -> int:
    """How many numbers of keypoints stand behind each box of a pose; 0 without `kpt_shape`."""
    known = isinstance(shape, list) and all(isinstance(side, int) for side in shape)
    return math.prod(shape) if known and shape else 0


def _bounds(shape: list[float]) -> list[float] | None:
    """A box as centre and size, of a polygon its bounding box; None where it is neither."""
    if any(abs(side) > MOST_FRACTION for side in shape) or len(shape) < 4 or len(shape) % 2:
        return None
    if len(shape) == 4:
        return shape
    x, y = shape[::2], shape[1::2]
    left, top, right, bottom = min(x), min(y), max(x), max(y)
    return [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]


def _lines(file: Path) -> Iterator[tuple[int, str, list[float]]]:
    """Number and text of each line, and its numbers; none where one is no finite number."""
    if not file.is_file():
        return
    for number, line in enumerate(_text(file), 1):
        try:
            values = [float(part) for part in line.split()]
        except ValueError:
            values = []
        if line.strip():
            yield number, line, values if all(map(math.isfinite, values)) else []


def _text(file: Path) -> list[str]:
    if file.stat().st_size > MOST_BYTES:
        raise DataError(
            f"{printable(file.name)} must take at most {MOST_BYTES / 1e6:g} MB; split it"
        )
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _corner(box: list[float], width: float, height: float) -> list[float]:
    x, y, w, h = box
    return [(x - w / 2) * width, (y - h / 2) * height, w * width, h * height]
