"""An audit repeated in its folder after its inputs changed measures what is there now."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import numpy_helper
from PIL import Image

from scotoma.datasets import AuditedExamples
from tests.helpers.audits import accuracy
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process
from tests.steps.test_taking_in import model

TRAINED = """\
project: changed
source:
  kind: image_folder
  images: images
  attributes: attributes.csv
  split: {column: part, train: train, test: test, calibrate: calibrate}
  recipe: {steps: 30, batch_size: 16}
label: {column: label}
groups: {side: {column: side}}
variants: [dense, {int8: [static]}]
population: {models: 1, seed: 0}
tracking: {uri: "off"}
"""
PREDICTED = """\
project: changed
source: {kind: predictions, files: 'said/{variant}.csv', examples: examples.csv}
label: {column: label}
groups: {side: {column: side}}
tracking: {uri: "off"}
"""
PARTS = ["train"] * 24 + ["test"] * 24 + ["calibrate"] * 4


def images(home: Path, *, inverted: bool = False) -> None:
    """Bright and dark images, labelled by that."""
    rng = np.random.default_rng(0)
    (home / "images").mkdir(exist_ok=True)
    for row in range(len(PARTS)):
        bright = (row % 2 == 0) != inverted
        pixels = rng.integers(0, 60, (8, 8, 3)) + 150 * bright
        Image.fromarray(pixels.astype(np.uint8)).save(home / "images" / f"{row}.bmp")


def attributes(home: Path, inverted: tuple[str, ...] = ()) -> None:
    """Write the labels; those of some parts inverted."""
    rows = range(len(PARTS))
    labels = [("dark", "bright")[(row % 2 == 0) != (PARTS[row] in inverted)] for row in rows]
    columns = {
        "image": [f"{row}.bmp" for row in rows],
        "part": PARTS,
        "label": labels,
        "side": [("left", "right")[row // 2 % 2] for row in rows],
    }
    pl.DataFrame(columns).write_csv(home / "attributes.csv")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit of images, in `run`."""
    home = tmp_path_factory.mktemp("changed")
    images(home)
    attributes(home)
    (home / "audit.yaml").write_text(TRAINED)
    assert top1(home) == 1
    return home


@pytest.fixture
def home(audited: Path, tmp_path: Path) -> Path:
    """Its copy, whose inputs are changed."""
    return shutil.copytree(audited, tmp_path / "home")


def repeat(home: Path, *options: str) -> tuple[dict[str, Any], str]:
    """audit.json and stderr of the command in the folder `run`."""
    with steps_in_this_process(home):
        code, out, err = scotoma("audit", "audit.yaml", "--out", "run", "--json", *options)
    assert code in (0, 1, 3), err
    return json.loads(out), err


def top1(home: Path) -> float:
    """Accuracy of the dense members, as the repeated audit has it."""
    value: float = accuracy(repeat(home)[0], "dense")["top1"]["value"]
    return value


def step_times(home: Path) -> dict[str, int]:
    """When each step left its record."""
    return {path.stem: path.stat().st_mtime_ns for path in (home / "run" / "steps").iterdir()}


def made_again(home: Path, change: Callable[[], None]) -> tuple[set[str], dict[str, Any], str]:
    """Steps that a repeated audit does again after a change, its audit.json and its stderr."""
    before = step_times(home)
    change()
    audit, err = repeat(home)
    after = step_times(home)
    assert scotoma("verify", home / "run")[0] == 0
    return {name for name in after if after[name] != before.get(name)}, audit, err


MEASURING = {"divergence", "bias", "slices", "verdict", "report"}


def test_labels_of_test_examples_are_measured_again_and_nothing_is_trained(home: Path) -> None:
    before = json.loads((home / "run" / "audit.json").read_text())["inputs"]
    again, audit, err = made_again(home, lambda: attributes(home, inverted=("test",)))
    assert accuracy(audit, "dense")["top1"]["value"] == 0
    now, then = ({row["key"]: row["sha256"] for row in rows} for rows in (audit["inputs"], before))
    assert now["images"] == then["images"]
    assert now["attributes"] != then["attributes"]
    assert again >= MEASURING
    assert not again & {"train-000", "quantize-000", "predict-000"}
    assert (
        "note    source.attributes (attributes.csv) changed since the last audit in this folder: "
        "all is measured again, no model is trained or predicts\n"
    ) in err


def test_labels_of_training_examples_are_learned_again(home: Path) -> None:
    again, audit, err = made_again(home, lambda: attributes(home, inverted=("train",)))
    assert accuracy(audit, "dense")["top1"]["value"] == 0
    assert again >= MEASURING | {"train-000", "quantize-000", "predict-000"}
    assert "models are trained again" in err


def test_calibration_images_are_quantized_with_again(home: Path) -> None:
    def replace() -> None:
        path = home / "images" / f"{PARTS.index('calibrate')}.bmp"
        Image.new("RGB", (8, 8), (255, 0, 255)).save(path)

    weights = home / "run" / "populations" / "int8-static" / "member-000.onnx"
    before = weights.read_bytes()
    again, _, _ = made_again(home, replace)
    assert again >= {"quantize-000"}
    assert "train-000" not in again
    assert weights.read_bytes() != before


def test_replaced_images_are_read_again(home: Path) -> None:
    shutil.rmtree(home / "images")
    again, audit, _ = made_again(home, lambda: images(home, inverted=True))
    assert again >= MEASURING | {"train-000"}
    assert accuracy(audit, "dense")["top1"]["value"] == 1


def test_a_file_of_the_same_size_and_time_is_seen_to_be_another(home: Path) -> None:
    path = home / "images" / f"{PARTS.index('test')}.bmp"
    kept, size = path.stat(), path.stat().st_size

    def replace() -> None:
        inverted = 255 - np.asarray(Image.open(path))
        Image.fromarray(inverted).save(path)
        os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, kept.st_mtime_ns)

    again, audit, _ = made_again(home, replace)
    assert accuracy(audit, "dense")["top1"]["value"] < 1
    assert "predict-000" in again
    assert "train-000" not in again


def test_files_that_were_only_touched_make_nothing_again(home: Path) -> None:
    def touch() -> None:
        for path in [home / "attributes.csv", *(home / "images").iterdir()]:
            path.write_bytes(path.read_bytes())
            os.utime(path, (1e9, 1e9))

    again, _, err = made_again(home, touch)
    assert again == set()
    assert "changed" not in err


@pytest.mark.thorough
def test_another_folder_of_the_same_name_is_another_input(audited: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "here").mkdir()
    found = []
    for home in (audited, tmp_path / "other"):
        if home != audited:
            images(home)
            attributes(home, inverted=("test",))
            (home / "audit.yaml").write_text(TRAINED)
        with steps_in_this_process(tmp_path / "here"):
            code, out, err = scotoma("audit", home / "audit.yaml", "--json")
        assert code in (0, 1, 3), err
        found.append(json.loads(out))
    assert len(list((tmp_path / "here" / "runs").iterdir())) == 1
    assert [accuracy(one, "dense")["top1"]["value"] for one in found] == [1, 0]
    digests = [{row["key"]: row["sha256"] for row in one["inputs"]} for one in found]
    assert digests[0]["images"] == digests[1]["images"]
    assert digests[0]["attributes"] != digests[1]["attributes"]


# --- predictions ----------------------------------------------------------------------------------


def predictions(home: Path, error: float) -> dict[str, bytes]:
    """What two models say of 200 examples, by place."""
    rng = np.random.default_rng(1)
    ids = [str(row) for row in range(200)]
    labels = rng.choice(["cat", "dog"], 200)
    table = pl.DataFrame(
        {"example_id": ids, "label": labels, "side": rng.choice(["left", "right"], 200)}
    )
    files = {"examples.csv": table.write_csv().encode()}
    for variant in ("dense", "int8"):
        other = np.where(labels == "cat", "dog", "cat")
        said = np.where(rng.random(200) < error, other, labels)
        answers = pl.DataFrame({"example_id": ids, "predicted": said})
        files[f"said/{variant}.csv"] = answers.write_csv().encode()
    return files


def test_predictions_in_object_storage_that_were_replaced_are_read_again(
    s3: Any, tmp_path: Path
) -> None:
    text = PREDICTED.replace("'said/", f"'{s3.uri()}/said/").replace(
        "examples: examples.csv", f"examples: '{s3.uri('examples.csv')}'"
    )
    (tmp_path / "audit.yaml").write_text(text)
    for name, content in predictions(tmp_path, 0.05).items():
        s3.put(name, content)
    before = top1(tmp_path)
    assert before > 0.9

    def replace() -> None:
        for name, content in predictions(tmp_path, 0.5).items():
            s3.put(name, content)

    again, audit, err = made_again(tmp_path, replace)
    assert accuracy(audit, "dense")["top1"]["value"] < 0.6
    assert again >= MEASURING | {"prepare-000"}
    assert "note    source.files (2 of 2 files, such as dense.csv) changed since the last" in err


# --- Parquet, models ------------------------------------------------------------------------------


def test_parquet_files_that_were_replaced_are_read_again(tmp_path: Path) -> None:
    def shard(name: str, shift: int) -> None:
        pictures = []
        for row in range(6):
            buffer = io.BytesIO()
            Image.new("RGB", (8, 8), (20 * row, 0, 0)).save(buffer, "PNG")
            pictures.append({"bytes": buffer.getvalue(), "path": f"{row}.png"})
        labels = [(row + shift) % 2 for row in range(6)]
        table = pl.DataFrame({"image": pictures, "label": labels, "side": ["a", "b"] * 3})
        table.write_parquet(tmp_path / "data" / f"{name}.parquet")

    def prepared() -> list[str]:
        with steps_in_this_process(tmp_path):
            code, _, err = scotoma("audit", "audit.yaml", "--out", "run", "--step", "prepare")
        assert code == 0, err
        examples = pl.read_parquet(tmp_path / "run" / "examples.parquet")
        return examples.filter(split="test")["label"].to_list()

    (tmp_path / "data").mkdir()
    (tmp_path / "audit.yaml").write_text(
        "source: {kind: parquet, data: data}\nlabel: {column: label}\n"
        "groups: {side: {column: side}}\nvariants: [dense, {prune: [0.5]}]\n"
    )
    for name in ("train", "test"):
        shard(name, 0)
    before = prepared()
    shard("test", 1)
    assert prepared() == [str(1 - int(label)) for label in before]


def test_weights_beside_a_model_are_inputs_too(tmp_path: Path) -> None:
    home = tmp_path
    images(home)
    attributes(home)
    shutil.rmtree(home / "images")
    (home / "images").mkdir()
    rng = np.random.default_rng(0)
    for row in range(len(PARTS)):
        pixels = rng.integers(0, 60, (6, 6, 3)) + 150 * (row % 2 == 0)
        Image.fromarray(pixels.astype(np.uint8)).save(home / "images" / f"{row}.bmp")

    def weights(sign: float) -> None:
        """Models that say bright, or dark, where an image is bright."""
        for variant in ("dense", "int8"):
            (home / "models" / variant).mkdir(parents=True, exist_ok=True)
            for path in (home / "models" / variant).iterdir():
                path.unlink()
            one = model(0, 0.0)
            for tensor in one.graph.initializer:
                if tensor.name == "weight":
                    held = np.array([[1.0, -1.0], [0.0, 0.0], [0.0, 0.0]], np.float32) * sign
                    tensor.CopyFrom(numpy_helper.from_array(held, "weight"))
            onnx.save_model(
                one,
                home / "models" / variant / "m.onnx",
                save_as_external_data=True,
                location="weights.bin",
                size_threshold=0,
                convert_attribute=False,
            )

    ready = "onnx\n  models: models\n  preprocessing: {mean: [0.5, 0.5, 0.5]}\n"
    (home / "audit.yaml").write_text(
        TRAINED.replace("image_folder\n", ready)
        .replace("  recipe: {steps: 30, batch_size: 16}\n", "")
        .replace("{int8: [static]}", "{onnx: [int8]}")
    )
    weights(1)
    assert top1(home) == 1
    graph = (home / "models" / "dense" / "m.onnx").read_bytes()
    again, audit, err = made_again(home, lambda: weights(-1))
    assert (home / "models" / "dense" / "m.onnx").read_bytes() == graph
    assert accuracy(audit, "dense")["top1"]["value"] == 0
    assert again >= MEASURING | {"import_models-000", "predict-000"}
    assert "prepare" not in again
    assert "weights.bin) changed since the last audit in this folder: models are imported" in err


def test_an_input_that_changes_while_it_is_read_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = step_times(home)
    attributes(home, inverted=("train",))
    whole = AuditedExamples.write_parts

    def write(*arguments: Any) -> None:
        whole(*arguments)
        attributes(home, inverted=("test",))

    with monkeypatch.context() as patch, steps_in_this_process(home):
        patch.setattr(AuditedExamples, "write_parts", write)
        code, out, err = scotoma("audit", "audit.yaml", "--out", "run", "--quiet")
    assert (code, out) == (4, "")
    assert err == (
        "scotoma: source.attributes (attributes.csv) changed after the step prepare read it; let "
        "what writes there end, and repeat the audit\n"
    )
    assert step_times(home) == before
    assert top1(home) == 0
