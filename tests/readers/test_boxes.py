"""Files of boxes: three forms of the same, and one sentence for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scotoma.detection.matching import outcomes
from scotoma.detection.table import BoxReading, box_table
from scotoma.errors import DataError
from scotoma.predictions.patterns import files_of_tables, find_tables
from scotoma.predictions.tables import read_columns
from scotoma.readers.boxes import read_detections, read_ground_truth

TRUTH: dict[str, Any] = {
    "images": [
        {"id": 7, "file_name": "a.jpg", "width": 100, "height": 80},
        {"id": 10, "file_name": "b.jpg", "width": 100, "height": 80},
    ],
    "categories": [{"id": 1, "name": "cat"}, {"id": 90, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 1, "bbox": [10, 10, 20, 20], "area": 400.0,
         "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 90, "bbox": [50, 40, 40, 40], "area": 1500.0,
         "iscrowd": 0},
        {"id": 3, "image_id": 7, "category_id": 90, "bbox": [0, 0, 100, 20], "area": 2000.0,
         "iscrowd": 1},
    ],
}  # fmt: skip
FOUND = [
    {"image_id": 7, "category_id": 1, "bbox": [10, 10, 20, 20], "score": 0.9},
    {"image_id": 7, "category_id": 90, "bbox": [2, 2, 10, 10], "score": 0.8},
    {"image_id": 10, "category_id": 1, "bbox": [2, 2, 10, 10], "score": 0.7},
]


def written(folder: Path, truth: Any, found: Any) -> tuple[Path, Path]:
    paths = folder / "truth.json", folder / "found.json"
    for path, content in zip(paths, (truth, found), strict=True):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return paths


def test_a_crowd_is_no_example_and_takes_detections_without_a_false_alarm(tmp_path: Path) -> None:
    paths = written(tmp_path, TRUTH, FOUND)
    truth = read_ground_truth(paths[0])
    one = outcomes(truth, read_detections(paths[1], truth))
    assert one.found.tolist() == [True, False]
    assert one.false_alarms.tolist() == [0.0, 1.0]  # in the image without a box
    table = box_table(truth)
    assert table["class"].to_list() == ["cat", "dog"]
    assert table["area"].to_list() == ["small", "medium"]
    assert table["crowding"].to_list() == ["2 to 4 boxes", "2 to 4 boxes"]


def test_arrays_and_yolo_s_files_say_the_same(tmp_path: Path) -> None:
    paths = written(tmp_path, TRUTH, FOUND)
    truth = read_ground_truth(paths[0])
    boxes = np.array([row["bbox"] for row in FOUND], float)
    np.savez(
        tmp_path / "found.npz", image_id=[row["image_id"] for row in FOUND],
        labels=[row["category_id"] for row in FOUND], scores=[row["score"] for row in FOUND],
        boxes=np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1),
    )  # fmt: skip
    data = tmp_path / "yolo"
    for folder in ("images/val", "labels/val", "found"):
        (data / folder).mkdir(parents=True)
    for name in "ab":
        Image.new("RGB", (100, 80)).save(data / "images" / "val" / f"{name}.jpg")
    (data / "data.yaml").write_text("path: .\nval: images/val\nnames: {0: cat, 1: dog}\n")

    def line(row: dict[str, Any], score: str) -> str:
        x, y, w, h = row["bbox"]
        kind = int(row["category_id"] == 90)
        return f"{kind} {(x + w / 2) / 100} {(y + h / 2) / 80} {w / 100} {h / 80}{score}\n"

    labels = [line(row, "") for row in TRUTH["annotations"][:2]]
    (data / "labels" / "val" / "a.txt").write_text("".join(labels))
    (data / "found" / "a.txt").write_text(line(FOUND[0], " 0.9"))
    (data / "found" / "b.txt").write_text(line(FOUND[2], " 0.7"))
    arrays = outcomes(truth, read_detections(tmp_path / "found.npz", truth))
    own = read_ground_truth(data / "data.yaml")
    yolo = outcomes(own, read_detections(data / "found", own))
    for one in (arrays, yolo):
        assert one.found.tolist() == [True, False]
        assert one.false_alarms.tolist() == [0.0, 1.0]
    assert np.allclose(own.box, truth.box[:2])
    model = tmp_path / "populations" / "int8" / "seed-1"
    model.parent.mkdir(parents=True)
    (data / "found").rename(model)
    reading = BoxReading(str(data / "data.yaml"), iou=0.5, least_score=0.25)
    pattern = str(tmp_path / "populations" / "{variant}" / "{model}" / "*.txt")
    (table,) = find_tables(pattern, boxes=reading)  # a folder is one model
    assert read_columns(table, "predicted").rows() == [
        ("found", "int8", "seed-1"),
        ("missed", "int8", "seed-1"),
    ]
    names = files_of_tables(pattern, [table]).names
    assert names == ("int8/seed-1/a.txt", "int8/seed-1/b.txt")
    with pytest.raises(DataError, match=r"is one model, and source\.files has several"):
        find_tables(pattern.replace("{model}/*", "seed-1/{model}"), boxes=reading)


def changed(change: Callable[[Any, list[Any]], Any]) -> tuple[Any, Any]:
    truth, found = json.loads(json.dumps(TRUTH)), json.loads(json.dumps(FOUND))
    result = change(truth, found)
    return (truth, result) if isinstance(result, str) else (truth, found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, f: f[0].update(category_id=2), "category_id must be among the categories"),
        (lambda t, f: f[0].update(image_id=8), "image_id must be among the images"),
        (lambda t, f: t["annotations"][0].update(category_id=5), "among its categories"),
        (lambda t, f: t["annotations"][0].update(image_id=5), "among its images"),
        (lambda t, f: t["annotations"][1].update(id=1), "annotation once, got id 1 twice"),
        (lambda t, f: t["images"][1].update(id=7), "image once, got id 7 twice"),
        (lambda t, f: t["categories"][1].update(id=1), "category once, got id 1 twice"),
        (lambda t, f: f[1].pop("score"), "number 1 does not"),
        (lambda t, f: f[1].update(score=float("nan")), "score, got none for detection 1"),
        (lambda t, f: f[1].update(bbox=[0, 0, -3, 5]), "none of these below 0"),
        (lambda t, f: f[1].update(bbox=[0, 0, 5]), "must be [left, top, width, height]"),
        (lambda t, f: f[1].update(bbox="all"), "must be [left, top, width, height]"),
        (lambda t, f: t.pop("annotations"), "keys images, categories and annotations"),
        (lambda t, f: t.update(annotations=4), "number 0 does not"),
        (lambda t, f: '{"a": 1}', "a list of detections"),
        (lambda t, f: '[{"image_id": 7', "the file may have been cut off"),
    ],
)  # fmt: skip
def test_what_is_no_box_is_refused_in_one_sentence(
    change: Callable[[Any, list[Any]], Any], words: str, tmp_path: Path
) -> None:
    paths = written(tmp_path, *changed(change))
    with pytest.raises(DataError) as caught:
        read_detections(paths[1], read_ground_truth(paths[0], apart=False), apart=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_boxes_outside_their_image_and_no_detection_are_said(tmp_path: Path) -> None:
    truth = json.loads(json.dumps(TRUTH))
    truth["annotations"][0]["bbox"] = [90, 10, 20, 20]
    paths = written(tmp_path, truth, [])
    read = read_ground_truth(paths[0], apart=False)
    assert [note.sentence for note in read.notes] == [
        "1 boxes of truth.json reach beyond their image, and are taken as they are"
    ]
    none = read_detections(paths[1], read, apart=False)
    assert [note.sentence for note in none.notes] == [
        "found.json holds no detection: every box is missed"
    ]
    assert not outcomes(read, none).found.any()
