"""Detections in every form that tools write: the same boxes, the same numbers, through the command.

What is compared with is the same detections in COCO's plainest form.
"""

from __future__ import annotations

import json
import runpy
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.helpers.commands import measured, scotoma, stderr_of, stdout_of

pytestmark = pytest.mark.slow

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "detections.py"))
Rows = list[dict[str, Any]]
Form = Callable[[dict[str, Any], Rows], Any]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("plain")
    truth = EXAMPLE["write_truth"](home, images=60)
    EXAMPLE["write_detections"](home / "fp32.json", truth, seed=1)
    EXAMPLE["write_detections"](home / "int8.json", truth, harm=0.9, seed=1, noise_seed=2)
    return home


@pytest.fixture(scope="module")
def expected(plain: Path) -> dict[str, Any]:
    return numbers(plain, plain / "instances.json", ".json")


def numbers(home: Path, truth: Path, suffix: str) -> dict[str, Any]:
    """What `scotoma compare` measures, and its notes."""
    sides = home / f"fp32{suffix}", home / f"int8{suffix}"
    found = measured("compare", *sides, "--truth", truth)
    (one,) = found["comparisons"]
    told = [note["sentence"] for note in found["admission"]]
    return {**one, "verdict": found["gate"]["verdict"], "notes": told}


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Hold two comparisons against each other."""
    for key in ("found", "found_at_ten", "false_alarms"):
        for side in ("before", "after"):
            mine, theirs = one[key][side]["value"], other[key][side]["value"]
            assert mine == pytest.approx(theirs, abs=1e-9), key
    assert one["verdict"] == other["verdict"]


def renumbered(truth: dict[str, Any], rows: Rows) -> None:
    """Give images ids in another order, and let results have the number in the file name."""
    order = np.random.default_rng(0).permutation(len(truth["images"])) + 1
    new = {image["id"]: int(own) for image, own in zip(truth["images"], order, strict=True)}
    for image in truth["images"]:
        image["id"] = new[image["id"]]
    for box in truth["annotations"]:
        box["image_id"] = new[box["image_id"]]
    for row in rows:
        row["file_name"] = f"{row['image_id']:06}.jpg"


def called_by_stem(truth: dict[str, Any], rows: Rows) -> None:
    for row in rows:
        row["image_id"] = f"{row['image_id']:06}"


def number_of_name(truth: dict[str, Any], rows: Rows) -> None:
    """As Ultralytics writes it where there is no file_name: ids of the truth are others."""
    for entry, key in [*((i, "id") for i in truth["images"]),
                       *((a, "image_id") for a in truth["annotations"])]:  # fmt: skip
        entry[key] += 10_000


def names_with_accents(truth: dict[str, Any], rows: Rows) -> None:
    for image in truth["images"]:
        image["file_name"] = f"val/caf\u00e9_{image['id']}.png"
    for row in rows:
        name = f"caf\u00e9_{row['image_id']}.jpg"
        row["image_id"] = row["file_name"] = unicodedata.normalize("NFD", name)


def windows_paths(truth: dict[str, Any], rows: Rows) -> None:
    renumbered(truth, rows)
    for row in rows:
        row["file_name"] = "D:\\data\\val\\" + row["file_name"]


def classes_from_0(truth: dict[str, Any], rows: Rows) -> None:
    for row in rows:
        row["category_id"] -= 1


def classes_from_1(truth: dict[str, Any], rows: Rows) -> None:
    for entry in truth["categories"]:
        entry["id"] -= 1
    for box in truth["annotations"]:
        box["category_id"] -= 1


def classes_with_gaps(truth: dict[str, Any], rows: Rows) -> None:
    """COCO's 80 classes have ids up to 90; a detector numbers them from 0."""
    gaps = {1: 1, 2: 13, 3: 44, 4: 90}
    for entry in truth["categories"]:
        entry["id"] = gaps[entry["id"]]
    for box in truth["annotations"]:
        box["category_id"] = gaps[box["category_id"]]
    classes_from_0(truth, rows)


def classes_by_name(truth: dict[str, Any], rows: Rows) -> None:
    """As SAHI writes them: ids of the detector, and names."""
    names = {entry["id"]: entry["name"] for entry in truth["categories"]}
    for row in rows:
        row["category_name"] = names[row["category_id"]]
        row["category_id"] = {1: 2, 2: 3, 3: 4, 4: 1}[row["category_id"]]


def as_dataset(truth: dict[str, Any], rows: Rows) -> Any:
    """As FiftyOne exports predictions: a dataset whose annotations have scores."""
    return {key: truth[key] for key in ("images", "categories")} | {"annotations": rows}


def of_torchvision(truth: dict[str, Any], rows: Rows) -> Any:
    by_image: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        own = by_image.setdefault(str(row["image_id"]), {"boxes": [], "labels": [], "scores": []})
        left, top, width, height = row["bbox"]
        own["boxes"].append([left, top, left + width, top + height])
        own["labels"].append(row["category_id"])
        own["scores"].append(row["score"])
    return by_image


def torchvision_list(truth: dict[str, Any], rows: Rows) -> Any:
    held: dict[str, dict[str, list[Any]]] = of_torchvision(truth, rows)
    return [{"image_id": int(key), **own} for key, own in held.items()]


FORMS: dict[str, tuple[Form, str]] = {
    "plain": (lambda truth, rows: None, ""),
    "ids of other images beside file names": (renumbered, "image_id is made from file_name"),
    "paths of Windows": (windows_paths, "image_id is made from file_name"),
    "stems as ids": (called_by_stem, "image_id is a file name"),
    "numbers of names as ids": (number_of_name, "image_id is a file name"),
    "names in NFD": (names_with_accents, "paired by file_name"),
    "classes from 0": (classes_from_0, "numbers classes from 0"),
    "classes from 1": (classes_from_1, "numbers classes from 1"),
    "classes with gaps": (classes_with_gaps, "numbers classes from 0"),
    "classes by name": (classes_by_name, "classes are paired by name"),
    "a dataset with scores": (as_dataset, ""),
    "a dictionary an image": (of_torchvision, ""),
    "a list of images": (torchvision_list, ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_json_gives_the_numbers_of_the_plain_one(
    form: str, plain: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    rewrite, told = FORMS[form]
    for side in ("fp32", "int8"):
        truth = json.loads((plain / "instances.json").read_text())
        rows = json.loads((plain / f"{side}.json").read_text())
        content = rewrite(truth, rows) or rows
        (tmp_path / f"{side}.json").write_text(json.dumps(content))
    (tmp_path / "instances.json").write_text(json.dumps(truth))
    found = numbers(tmp_path, tmp_path / "instances.json", ".json")
    same(found, expected)
    assert any(told in note for note in found["notes"]) or not told
    assert not any("better than" in note for note in found["notes"])


@pytest.fixture(scope="module")
def dataset(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in YOLO's layout: images/val, labels/val, fp32 and int8."""
    home = tmp_path_factory.mktemp("yolo")
    truth = json.loads((plain / "instances.json").read_text())
    images = {image["id"]: image["file_name"].removesuffix(".jpg") for image in truth["images"]}
    for folder in ("images/val", "labels/val", "fp32", "int8"):
        (home / folder).mkdir(parents=True)
    for stem in images.values():
        Image.new("RGB", EXAMPLE["SIDES"]).save(home / f"images/val/{stem}.jpg")
    truth["annotations"] = [box for box in truth["annotations"] if not box["iscrowd"]]
    (home / "instances.json").write_text(json.dumps(truth))
    for place, rows in (
        ("labels/val", truth["annotations"]),
        *((side, json.loads((plain / f"{side}.json").read_text())) for side in ("fp32", "int8")),
    ):
        for row in rows:
            with (home / place / f"{images[row['image_id']]}.txt").open("a") as file:
                score = f" {row['score']}" if "score" in row else ""
                file.write(f"{row['category_id'] - 1} {line(row['bbox'])}{score}\n")
    data(home, "path: .\nval: images/val\nnames: [person, bicycle, car, dog]\n")
    return home


def line(box: list[float]) -> str:
    width, height = EXAMPLE["SIDES"]
    x, y, w, h = box
    return f"{(x + w / 2) / width:.9f} {(y + h / 2) / height:.9f} {w / width:.9f} {h / height:.9f}"


def data(home: Path, text: str) -> Path:
    path = home / "data.yaml"
    path.write_text(text)
    return path


def listed(home: Path) -> str:
    names = sorted(file.name for file in (home / "images/val").iterdir())
    (home / "val.txt").write_text("".join(f"./images/val/{name}\n" for name in names))
    return "path: .\nval: val.txt\nnames: [person, bicycle, car, dog]\n"


def in_two_folders(home: Path) -> str:
    for kind in ("images", "labels"):
        (home / kind / "night" / "deep").mkdir(parents=True)
        for file in sorted((home / kind / "val").iterdir()):
            if int(file.stem) % 2:
                file.rename(home / kind / "night" / "deep" / file.name)
    return "val: [images/val, images/night]\nnames: [person, bicycle, car, dog]\n"


def of_roboflow(home: Path) -> str:
    (home / "valid").mkdir()
    for kind in ("images", "labels"):
        (home / kind / "val").rename(home / "valid" / kind)
    return "val: ../valid/images\nnc: 4\nnames: ['person', 'bicycle', 'car', 'dog']\n"


def polygons(home: Path) -> str:
    for file in sorted((home / "labels/val").iterdir())[::3]:
        lines = []
        for row in file.read_text().splitlines():
            label, *numbers = row.split()
            x, y, w, h = map(float, numbers)
            corners = (x - w / 2, y, x, y - h / 2, x + w / 2, y, x, y + h / 2)
            lines.append(" ".join([label, *(f"{side:.9f}" for side in corners)]))
        file.write_text("\n".join(lines))
    return (home / "data.yaml").read_text()


def poses(home: Path) -> str:
    """Three numbers for each of two keypoints behind every box."""
    for file in (home / "labels/val").iterdir():
        rows = file.read_text().splitlines()
        file.write_text("".join(f"{row} 0.5 0.5 2 0.1 0.1 0\n" for row in rows))
    return (home / "data.yaml").read_text() + "kpt_shape: [2, 3]\n"


def in_labels(home: Path) -> str:
    """As `yolo predict save_txt save_conf` leaves it: pictures, and text files in labels."""
    for side in ("fp32", "int8"):
        files = list((home / side).iterdir())
        (home / side / "labels").mkdir()
        for file in files:
            file.rename(home / side / "labels" / file.name)
    return (home / "data.yaml").read_text()


@pytest.mark.parametrize(
    "change", [listed, in_two_folders, of_roboflow, polygons, poses, in_labels, None]
)
def test_each_layout_of_yolo_gives_the_numbers_of_the_plain_one(
    change: Callable[[Path], str] | None,
    dataset: Path,
    plain: Path,
    tmp_path: Path,
) -> None:
    home = tmp_path / "data"
    shutil.copytree(dataset, home)
    if change is not None:
        data(home, change(home))
    found = numbers(home, home / "data.yaml", "")
    whole = numbers(dataset, dataset / "data.yaml", "")
    same(found, whole)
    if change is None:
        same(found, numbers(plain, dataset / "instances.json", ".json"))
    assert any("polygon" in note for note in found["notes"]) is (change is polygons)


def test_a_folder_of_text_files_is_read_beside_coco_s_truth(
    dataset: Path, plain: Path, expected: dict[str, Any]
) -> None:
    same(numbers(dataset, plain / "instances.json", ""), expected)


def test_results_of_ultralytics_are_read_beside_yolo_s_labels(
    dataset: Path, plain: Path, tmp_path: Path
) -> None:
    """Classes count from 1 and images are numbers there, from 0 and file names here."""
    for side in ("fp32", "int8"):
        rows = json.loads((plain / f"{side}.json").read_text())
        for row in rows:
            row["file_name"] = f"{row['image_id']:06}.jpg"
        (tmp_path / f"{side}.json").write_text(json.dumps(rows))
    found = numbers(tmp_path, dataset / "data.yaml", ".json")
    same(found, numbers(dataset, dataset / "data.yaml", ""))
    assert any("numbers classes from 1" in note for note in found["notes"])


def broken(change: Callable[[dict[str, Any], Rows], Any], words: str) -> Any:
    return pytest.param(change, words, id=words)


def each(rows: Rows, **values: Any) -> None:
    for row in rows:
        row.update(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        broken(lambda t, r: each(r, file_name="000001.jpg"), "must name one image, got 2"),
        broken(lambda t, r: each(r, file_name="other.jpg"), "got other.jpg in"),
        broken(lambda t, r: r[0].update(category_id=7), "must be among the categories"),
        broken(lambda t, r: each(r, bbox=None, segmentation={"counts": "x", "size": [9, 9]}),
               "pycocotools.mask.toBbox"),
        broken(lambda t, r: each(r, bbox=None, keypoints=[1, 2, 2]), "no 'bbox', but keypoints"),
        broken(lambda t, r: each(t["annotations"], bbox=None, segmentation=[[1, 2, 3, 4, 5, 6]]),
               "no 'bbox', but segmentation"),
        broken(lambda t, r: {"1": {"boxes": [[1, 2, 3]], "labels": [1], "scores": [0.5]}},
               "must describe each detection as COCO does"),
    ],
)  # fmt: skip
def test_what_contradicts_or_is_no_box_is_refused_in_a_sentence(
    change: Form, words: str, plain: Path, tmp_path: Path
) -> None:
    truth = json.loads((plain / "instances.json").read_text())
    rows = json.loads((plain / "fp32.json").read_text())
    content = change(truth, rows) or rows
    (tmp_path / "instances.json").write_text(json.dumps(truth))
    for name in ("fp32", "int8"):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    sides = tmp_path / "fp32.json", tmp_path / "int8.json"
    code, out, err = scotoma("compare", *sides, "--truth", tmp_path / "instances.json")
    assert (code, out) == (4, ""), err
    assert words in " ".join(err.split())
    assert "Traceback" not in err


def test_detectors_that_number_classes_differently_are_refused(plain: Path, tmp_path: Path) -> None:
    rows = json.loads((plain / "fp32.json").read_text())
    classes_from_0({}, rows)
    (tmp_path / "fp32.json").write_text(json.dumps(rows))
    truth = plain / "instances.json"
    err = stderr_of(
        "compare", tmp_path / "fp32.json", plain / "int8.json", "--truth", truth, code=4
    )
    assert "must number classes from 0, as the detections that it is compared" in err
    err = stderr_of(
        "compare", plain / "int8.json", tmp_path / "fp32.json", "--truth", truth, code=4
    )
    assert "must be among the categories" in err


def test_a_pickle_is_never_opened(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "fp32.pt").write_bytes(b"\x80\x04.")
    err = stderr_of(
        "compare",
        tmp_path / "fp32.pt",
        plain / "int8.json",
        "--truth",
        plain / "instances.json",
        code=4,
    )
    assert "is pickled" in err


# --- cases that strangers met ---------------------------------------------------------------------


def test_results_of_other_images_are_paired_by_file_name(shared: Path) -> None:
    home = shared / "data" / "cases" / "detections-other-images"
    sides = home / "fp32.json", home / "int8.json"
    out = stdout_of("compare", *sides, "--truth", home / "instances.json", "--gate", code=1)
    assert "found: 94.88% to 83." in out
    assert "FAIL" in out
    (one,) = measured("compare", *sides, "--truth", home / "instances.json")["comparisons"]
    right = home / "fp32_by_name.json", home / "int8_by_name.json"
    (other,) = measured("compare", *right, "--truth", home / "instances.json")["comparisons"]
    for key in ("found", "false_alarms", "precision", "class_precision", "flips"):
        assert one[key] == other[key], key


@pytest.mark.parametrize("case", ["yolo-polygons", "yolo-roboflow", "yolo-val-txt"])
def test_yolo_s_layouts_are_read(case: str, shared: Path) -> None:
    home = shared / "data" / "cases" / case
    out = stdout_of("compare", home / "fp32", home / "int8", "--truth", home / "data.yaml")
    assert "found: 95.56% to 87.78%: \N{MINUS SIGN}7.78 points [\N{MINUS SIGN}14.3" in out
