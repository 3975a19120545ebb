"""What do annotators and detectors say: COCO's JSON, YOLO's text files, arrays of NumPy?

Images are paired by id, or by file name where results have one; classes by id, name or number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
import polars as pl

from scotoma import storage
from scotoma.answers.boxes import Detections, GroundTruth
from scotoma.answers.note import AdmissionNote
from scotoma.config.limits import ReaderLimits
from scotoma.errors import DataError
from scotoma.numbers.inputs import Codes, Floats
from scotoma.printable import printable
from scotoma.processes.untrusted import read_apart, table_apart
from scotoma.readers import coco, yolo
from scotoma.readers.tables import open_arrays
from scotoma.run.mirror import folder_here, place_here

ARRAYS = {"image_id": 1, "labels": 1, "scores": 1, "boxes": 2}  # name to number of axes
PICKLED = (".pt", ".pth", ".pkl", ".pickle")
AS_WRITTEN = ""  # class ids are those of the ground truth; else they number its classes
FIRSTS = ("0", "1")  # from which class files count otherwise


def ground_truth_here(place: str) -> Path:
    """Bring a ground truth to this machine: its file, with data.yaml in object storage its split.

    Args:
        place: A path, which stands for itself, or an `s3://` URI.
    """
    root, _, name = place.rpartition("/")
    if not storage.is_remote(place) or not place.lower().endswith((".yaml", ".yml")):
        return place_here(place)
    names, first = storage.list_files(root), folder_here(storage.StampedFiles(root, (name,)))
    split = read_apart(yolo.split_places, first / name, path=first / name, called=place)
    lists = [one for one in split if one in names]
    folder = folder_here(storage.StampedFiles(root, (name, *lists)))
    own = yolo.pictures_and_labels([folder / one for one in lists], split, names)
    return folder_here(storage.StampedFiles(root, (name, *lists, *own))) / name


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
    table = _read(read, path, limits, apart)
    images, categories, boxes = (_part(table, name) for name in coco.PARTS)
    polygons = table["polygons"].item() if "polygons" in table.columns else 0
    return _ground_truth(images, categories, boxes, called, polygons)


def read_detections(
    path: Path,
    truth: GroundTruth,
    *,
    limits: ReaderLimits | None = None,
    apart: bool = True,
    numbering: str | None = None,
) -> Detections:
    """Read what a detector found.

    Args:
        path: COCO's results JSON, a folder of YOLO's text files, or an .npz of arrays.
        truth: The boxes of the same images.
        limits: Memory and time, as configured.
        apart: As for `read_ground_truth`.
        numbering: That of other `Detections`, which these are compared with.

    Raises:
        DataError: The file cannot be read, an image or class is unknown, what names images
            contradicts, classes are numbered otherwise, or a box or score is none.
    """
    name = printable(path.name)
    read: Callable[..., pl.DataFrame] = coco.detection_table
    if path.suffix.lower() == ".npz":
        read = array_table
    if path.is_dir():
        read = yolo.detection_table
    elif not path.is_file():
        raise DataError(
            f"detections {printable(str(path))} are neither a file nor a folder; name COCO's "
            "results JSON, a folder of YOLO's text files, or an .npz"
        )
    elif path.suffix.lower() in PICKLED:
        raise DataError(
            f"{name} is pickled, which can run code and is never read; save the arrays with "
            "numpy.savez, or COCO's results as JSON"
        )
    table = _read(read, path, limits, apart)
    image, image_notes = _images(table, truth, name)
    category, own, class_notes = _classes(table, truth, name, numbering)
    box = table["bbox"].to_numpy().reshape(-1, 4).copy()
    if path.is_dir():
        sides = truth.image_sizes[image]
        if np.isnan(sides).any():
            raise DataError(
                f"{name} holds boxes in fractions of images, whose size the ground truth must "
                "give; add width and height to its images"
            )
        box *= np.tile(sides, 2)
    score = table["score"].to_numpy()
    rows = pl.Series(np.arange(table.height)).cast(pl.String)
    _refuse_no_box(box, f"{name}: detection", rows)
    if not np.isfinite(score).all():
        raise DataError(
            f"{name} must give each detection a score, got none for detection "
            f"{int((~np.isfinite(score)).argmax()):,}; leave it out, or score it"
        )
    notes = [*image_notes, *class_notes]
    if not table.height:
        notes.append(_note("reading", name, f"{name} holds no detection: every box is missed"))
    return Detections(image, category, box, score, tuple(notes), own)


def array_table(path: Path, called: str) -> pl.DataFrame:
    """Read what torchvision's detectors return, the tensors of all images one after the other.

    The arrays are `image_id`, `labels` and `scores` of shape (D,) and `boxes` of shape (D, 4):
    [left, top, right, bottom] in pixels. Nothing is unpickled.

    Args:
        path: A file of `numpy.savez`.
        called: What messages call it.

    Raises:
        DataError: It is no such file, or an array is absent or has another shape.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "d.npz"), image_id=[1], labels=[3], scores=[0.5],
    ...              boxes=[[2.0, 2, 6, 5]])
    ...     array_table(Path(folder, "d.npz"), "d.npz").row(0)
    ('1', '3', [2.0, 2.0, 4.0, 3.0], 0.5, None, None)
    """
    name = printable(called)
    with open_arrays(path, name) as file:
        held = {key: file[key] for key in ARRAYS if key in file.files}
    rows = len(held["scores"]) if "scores" in held and held["scores"].ndim else -1
    for key, axes in ARRAYS.items():
        shape = held[key].shape if key in held else None
        wanted = (rows,) if axes == 1 else (rows, 4)
        if shape != wanted or held[key].dtype.kind not in ("iufU" if key == "image_id" else "iuf"):
            got = "none" if shape is None else f"{held[key].dtype} of shape {shape}"
            raise DataError(
                f"{name} must hold the arrays image_id, labels and scores of shape (D,) and boxes "
                f"of shape (D, 4), got {key}: {got}; concatenate the tensors of all images"
            )
    corner, opposite = np.hsplit(held["boxes"].astype(np.float64), 2)
    image, label = (
        pl.Series(ids.astype(np.int64) if ids.dtype.kind == "f" else ids).cast(pl.String)
        for ids in (held["image_id"], held["labels"])
    )
    box = pl.Series(np.hstack([corner, opposite - corner]), dtype=coco.BOX)
    columns = image, label, box, held["scores"].astype(np.float64), None, None
    kinds = coco.KINDS["detection"]
    return pl.DataFrame(dict(zip(kinds, columns, strict=True)), schema=kinds)


def _read(
    read: Callable[..., pl.DataFrame], path: Path, limits: ReaderLimits | None, apart: bool
) -> pl.DataFrame:
    if not apart:
        return read(path, path.name)
    return table_apart(read, path, path.name, path=path, called=path.name, limits=limits)


def _part(table: pl.DataFrame, name: str) -> pl.DataFrame:
    if not table[name].list.len().item():
        return pl.DataFrame(schema=coco.KINDS[coco.PARTS[name]])
    return table[name].explode().struct.unnest()


def _note(
    rule: Literal["reading", "language", "same_examples"], subject: str, sentence: str
) -> AdmissionNote:
    return AdmissionNote(rule=rule, subject=subject, sentence=sentence)


def _ground_truth(
    images: pl.DataFrame,
    categories: pl.DataFrame,
    boxes: pl.DataFrame,
    called: str,
    polygons: int,
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
    box = boxes["bbox"].to_numpy().reshape(-1, 4)
    _refuse_no_box(box, f"{name}: annotation", boxes["id"])
    sizes = images.select("width", "height").to_numpy().astype(np.float64)
    over = (box[:, :2] < -1) | (box[:, :2] + box[:, 2:] > sizes[image] + 1)
    counted = {
        f"{int(over.any(axis=1).sum()):,} boxes of {name} reach beyond their image, and are taken "
        "as they are": over.any(),
        f"{polygons:,} of {boxes.height:,} boxes of {name} are the bounding box of a polygon":
            polygons,
    }  # fmt: skip
    repeated = categories["name"].is_duplicated()
    named = categories.select(
        pl.when(repeated).then(pl.format("{} ({})", "name", "id")).otherwise("name")
    ).to_series()
    area = boxes["area"].to_numpy()
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
        notes=tuple(_note("reading", name, text) for text, some in counted.items() if some),
    )


def _images(
    table: pl.DataFrame, truth: GroundTruth, name: str
) -> tuple[Codes, list[AdmissionNote]]:
    """Number of the image of each detection: by file name where results have one, else by id."""
    ids, files = table["image_id"], table["file_name"]
    by_id = _places(ids, truth.image_ids)
    known = "the images of the ground truth"
    if ids.null_count() == len(ids):
        by_id = pl.Series([None] * len(ids), dtype=pl.UInt32)  # YOLO's files have names alone
    elif files.null_count() == len(files) or not all(truth.image_names):
        if by_id.null_count() and not (by_file := _by_file(ids, truth)).null_count():
            text = f"{name}: image_id is a file name, and images are paired by it"
            return _codes(by_file), [_note("same_examples", name, text)]
        return _numbers(ids, pl.Series(truth.image_ids), f"{name}: image_id", known), []
    by_file = _by_file(files, truth)
    if by_file.null_count():
        unknown = files.filter(by_file.is_null()).drop_nulls()
        first = printable(unknown[0])[:60] if len(unknown) else "none"
        raise DataError(
            f"{name} must name the files of {known}, got {first} in "
            f"{by_file.null_count():,} of {len(files):,} detections; use the same images"
        )
    other = ids.is_not_null() & by_file.ne_missing(by_id)
    pairs = pl.DataFrame({"id": ids, "file": files, "place": by_id}).filter(other)
    for own, file, place in pairs.unique(maintain_order=True).iter_rows():
        if _spellings(own)[-1] != _spellings(file)[-1]:  # an id of its own, not made from the name
            image = "no image" if place is None else printable(truth.image_names[place])[:60]
            raise DataError(
                f"{name}: image_id and file_name must name one image, got {printable(own)[:40]} "
                f"({image} in the ground truth) beside {printable(file)[:60]}; correct one of them"
            )
    text = f"{name}: image_id is made from file_name, and images are paired by file_name"
    if images := pairs.drop_nulls()["file"].n_unique():
        text += f"; in {images:,} images it is another image's id"
    return _codes(by_file), [_note("same_examples", name, text)] if pairs.height else []


def _by_file(files: pl.Series, truth: GroundTruth) -> pl.Series:
    """Place of the image with each file name; null where it is named by none or by several.

    Names are compared as they are, then without folder, without suffix, and as numbers.
    """
    places = pl.Series([None] * len(files), dtype=pl.UInt32)
    known = [name or own for name, own in zip(truth.image_names, truth.image_ids, strict=True)]
    names = {name: _spellings(name) for name in {*files.drop_nulls().unique(), *known}}
    for way in range(4):
        table = [names[name][way] for name in known]
        if len(set(table)) == len(table):
            as_spelled = {name: spelled[way] for name, spelled in names.items()}
            matched = _places(files.replace_strict(as_spelled, return_dtype=pl.String), table)
            if matched.null_count() <= places.null_count():
                places = matched
            if not places.null_count():
                break
    return places


def _spellings(name: str) -> tuple[str, str, str, str]:
    whole = unicodedata.normalize("NFC", name)
    base = _base(whole)
    return whole, base, _stem(base), _number(_stem(base))


def _base(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _stem(base: str) -> str:
    """A file name without the suffix of a picture: what stands behind another dot is kept."""
    stem, dot, suffix = base.rpartition(".")
    return stem if dot + suffix.lower() in yolo.PICTURES else base


def _number(stem: str) -> str:
    return (stem.lstrip("0") or "0") if stem.isdecimal() else stem


def _classes(
    table: pl.DataFrame, truth: GroundTruth, name: str, numbering: str | None
) -> tuple[Codes, str, list[AdmissionNote]]:
    """Number of the class of each detection, from where on classes are numbered, and notes."""
    ids, names = table["category_id"], table["category_name"]
    if names.null_count() < len(names) and not (by_name := _places(names, truth.classes)
                                                ).null_count():  # fmt: skip
        notes = []
        other = by_name.ne_missing(_places(ids, truth.class_ids)).to_numpy()
        if other.any():
            first = int(other.argmax())
            text = (
                f"{name}: category_id {printable(ids[first])[:20]} is called "
                f"{printable(names[first])[:40]}, otherwise than in the ground truth; classes are "
                "paired by name"
            )
            notes = [_note("language", name, text)]
        return _codes(by_name), AS_WRITTEN, notes
    ways = dict(_numberings(ids, truth))
    fits = [way for way, places in ways.items() if not places.null_count()]
    if numbering is None:
        chosen = fits[0] if AS_WRITTEN in fits or len(fits) == 1 else AS_WRITTEN
    else:
        chosen = numbering
    if chosen == AS_WRITTEN:
        known = pl.Series(truth.class_ids)
        where = "the categories of the ground truth"
        return _numbers(ids, known, f"{name}: category_id", where), chosen, []
    if chosen not in fits:
        raise DataError(
            f"{name} must number classes from {chosen}, as the detections that it is compared "
            f"with, got category_id {printable(ids.filter(ways[chosen].is_null())[0])[:20]}; "
            "write the ids of the ground truth in both"
        )
    text = (
        f"{name} numbers classes from {chosen}, otherwise than the ground truth: {chosen} is read "
        f"as {printable(truth.classes[0])[:40]}"
    )
    return _codes(ways[chosen]), chosen, [_note("language", name, text)]


def _numberings(ids: pl.Series, truth: GroundTruth) -> Iterator[tuple[str, pl.Series]]:
    """Ways to read class ids: as they are, or as the place of a class, counted from 0 or 1."""
    yield AS_WRITTEN, _places(ids, truth.class_ids)
    for first in FIRSTS:
        yield first, _places(ids, [str(place + int(first)) for place in range(len(truth.classes))])


def _codes(places: pl.Series) -> Codes:
    return places.to_numpy().astype(np.intp)


def _places(ids: pl.Series, known: Iterable[str]) -> pl.Series:
    """Place of each id among those that are known, null where it is none of them."""
    listed = pl.DataFrame({"id": pl.Series(known, dtype=pl.String)}).with_row_index("place")
    listed = listed.unique("id", keep="first")
    return (
        ids.cast(pl.String)
        .to_frame("id")
        .join(listed, on="id", how="left", maintain_order="left")["place"]
    )


def _numbers(ids: pl.Series, known: pl.Series, what: str, where: str) -> Codes:
    """Place of each id among those that are known, which all must be."""
    table, matched = known.cast(pl.String), _places(ids, known)
    if unknown := matched.null_count():
        first = str(ids.filter(matched.is_null())[0])
        shown = ", ".join(printable(one) for one in table[:5])
        raise DataError(
            f"{what} must be among {where} ({shown}{', ...' if len(table) > 5 else ''}), got "
            f"{printable(first)[:60]} in {unknown:,} of {len(ids):,} rows; use the ids of the same "
            "dataset"
        )
    return _codes(matched)


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    """Rows by id: numbers as numbers, as COCO's evaluation takes them."""
    numbers = table["id"].cast(pl.Int64, strict=False)
    return table.sort("id") if numbers.null_count() else table[numbers.arg_sort().to_list()]


def _refuse_no_box(box: Floats, what: str, ids: pl.Series) -> None:
    fine = np.isfinite(box).all(axis=1) & (box[:, 2:] >= 0).all(axis=1)
    if not fine.all():
        row = int(fine.argmin())
        shown = ", ".join(f"{side:g}" for side in box[row])
        raise DataError(
            f"{what} {printable(str(ids[row]))[:60]} must have a box of [left, top, width, height] "
            f"in pixels, none of these below 0 in size, got [{shown}]; correct or remove it"
        )
