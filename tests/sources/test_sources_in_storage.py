"""Each kind of source in S3, by the commands that users type: the numbers of the same folder here.

The right values are those of the folder on this machine, which other tests hold against the world.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars as pl
import pytest
from PIL import Image

from tests.audit import test_score_audits
from tests.conftest import Storage
from tests.helpers import external_predictions, photographs
from tests.helpers.commands import measured, scotoma
from tests.helpers.external_models import external_model
from tests.helpers.steps import steps_in_this_process
from tests.helpers.synthetic import celeba as synthetic
from tests.sources.test_several_labels import IMSITU, imsitu

pytestmark = pytest.mark.slow

DETECTIONS = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "detections.py"))
PREDICTED = """\
source: {kind: predictions, files: 'HERE/preds/FILES', examples: HERE/EXAMPLES}
label: {column: label, positive: cat}
groups: {sex: {column: sex}}
baseline: fp32
"""
DETECTED = """\
source: {kind: detections, files: 'HERE/FILES', examples: HERE/TRUTH}
groups: {class: {column: class}}
baseline: fp32
"""
COCO = photographs.COCO.replace("data: photographs", "data: HERE/photographs")


def pictures(folder: Path, count: int, size: tuple[int, int] = (12, 8)) -> list[str]:
    """Noise in PNG, as many as asked for; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(folder.name))
    names = [f"{number:03}.png" for number in range(count)]
    for name in names:
        noise = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(noise).save(folder / name)
    return names


def table_of(folder: Path, names: list[str]) -> None:
    rows = {
        "image": names,
        "face": ["no", "yes"] * (len(names) // 2),
        "sex": ["f", "f", "m", "m"] * (len(names) // 4),
        "part": ["train"] * 40 + ["test"] * (len(names) - 40),
    }
    pl.DataFrame(rows).write_csv(folder / "table.csv")


def image_folder(here: Path) -> str:
    table_of(here, pictures(here / "pictures", 100))
    return (
        "source: {kind: image_folder, images: HERE/pictures, attributes: HERE/table.csv, size: 8, "
        "split: {column: part, train: train, test: test}}\n"
        "label: {column: face}\ngroups: {sex: {column: sex}}\nvariants: [dense, {prune: [0.5]}]\n"
    )


def external_models(here: Path) -> str:
    """Weights beside a model, and what Hugging Face leaves there; frost, and another test set."""
    image_folder(here)
    for variant in ("dense", "small"):
        for name in ("a.onnx", "b.onnx"):
            path = external_model(here / "models" / variant / name)
            model = onnx.load(path)
            onnx.save_model(model, path, save_as_external_data=True, size_threshold=0,
                            location=f"{name}.data")  # fmt: skip
    (here / "models" / "config.json").write_text(json.dumps({"id2label": {0: "yes", 1: "no"}}))
    (here / "models" / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 3, "pad": 2})
    )
    pictures(here / "frost", 2, (600, 450))
    for folder in ("first", "no"):
        pictures(here / "others" / folder, 10)
    (here / "others.csv").write_text("folder,class\nfirst,yes\nno,no\n")
    return (
        "source: {kind: onnx, models: HERE/models, images: HERE/pictures, "
        "attributes: HERE/table.csv, split: {column: part, train: train, test: test}}\n"
        "label: {column: face}\ngroups: {sex: {column: sex}}\n"
        "variants: [dense, {onnx: [small], paired: true, bits: 8}]\npopulation: {models: 2}\n"
        "robustness: {profile: scaled, kinds: [frost], severities: [1], frost: HERE/frost, "
        "sets: [{name: others, folder: HERE/others, classes: HERE/others.csv}]}\n"
    )


def parquet(here: Path) -> str:
    names = pictures(here / "pictures", 80, (8, 8))
    rows = pl.DataFrame(
        {
            "image": [{"bytes": (here / "pictures" / name).read_bytes()} for name in names],
            "label": [0, 1] * 40,
            "sex": ["f", "f", "m", "m"] * 20,
        }
    )
    (here / "set" / "data").mkdir(parents=True)
    rows.head(40).write_parquet(here / "set" / "data" / "train-00000-of-00001.parquet")
    rows.tail(40).write_parquet(here / "set" / "data" / "test-00000-of-00001.parquet")
    return (
        "source: {kind: parquet, data: HERE/set, model: tiny-convnet}\nlabel: {column: label}\n"
        "groups: {sex: {column: sex}}\nvariants: [dense, {prune: [0.5]}]\n"
    )


def celeba(here: Path) -> str:
    synthetic.synthetic_celeba(here / "celeba", examples=80, height=27, width=22)
    return (
        "source: {kind: celeba, data: HERE/celeba, size: 16, model: tiny-convnet}\n"
        "label: {column: Blond_Hair, positive: 1}\ngroups: {sex: {column: Male}}\n"
        "variants: [dense, {prune: [0.5]}]\n"
    )


def coco(here: Path) -> str:
    photographs.EXAMPLE["write"](here, train=30, test=20)
    return COCO


def situations(here: Path) -> str:
    imsitu(here)
    return IMSITU.replace("data: imsitu", "data: HERE/imsitu")


def cifar10(here: Path) -> str:
    rng = np.random.default_rng(0)
    (here / "cifar").mkdir()
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        rows = [bytes([k % 10]) + rng.bytes(3072) for k in range(20)]
        (here / "cifar" / name).write_bytes(b"".join(rows))
    return (
        "source: {kind: cifar10, data: HERE/cifar, model: tiny-convnet}\nlabel: {column: label}\n"
        "variants: [dense, {prune: [0.5]}]\n"
    )


def predictions(here: Path) -> str:
    external_predictions.write(here, models=2)
    return PREDICTED.replace("FILES", "{variant}/{model}.csv").replace("EXAMPLES", "examples.csv")


def predictions_with_pictures(here: Path) -> str:
    text = predictions(here)
    table = pl.read_csv(here / "examples.csv")
    names = pictures(here / "pictures", len(table), (8, 8))
    table = table.with_columns(image=pl.Series([f"pictures/{name}" for name in names]))
    table.write_csv(here / "examples.csv")
    return text


def in_parts(here: Path, suffix: str) -> None:
    """Make each table a folder of parts, as Spark writes it."""
    external_predictions.write(here)
    paths = [here / "preds" / name / "seed0.csv" for name in ("fp32", "int8")]
    for path in (here / "examples.csv", *paths):
        whole = pl.read_csv(path)
        target = path.with_suffix(suffix)
        path.unlink()
        target.mkdir()
        for number, part in enumerate((whole.head(100), whole.tail(-100))):
            name = target / f"part-{number:05}{suffix}"
            part.write_csv(name) if suffix == ".csv" else part.write_parquet(name)
        (target / "_SUCCESS").touch()


def predictions_of_spark(here: Path) -> str:
    in_parts(here, ".parquet")
    files = "{variant}/{model}.parquet"
    return PREDICTED.replace("FILES", files).replace("EXAMPLES", "examples.parquet")


def predictions_in_csv_of_spark(here: Path) -> str:
    in_parts(here, ".csv")
    return PREDICTED.replace("FILES", "{variant}/seed0.csv").replace("EXAMPLES", "examples.csv")


def predictions_with_training(here: Path) -> str:
    text = predictions(here)
    shutil.copy(here / "examples.csv", here / "training.csv")
    return text.replace("examples: ", "training: HERE/training.csv, examples: ")


def predictions_on_corrupted_pictures(here: Path) -> str:
    text = predictions(here)
    for variant in ("fp32", "int8"):
        (here / "worse" / variant).mkdir(parents=True)
        for model in ("seed0", "seed1"):
            said = pl.read_csv(here / "preds" / variant / f"{model}.csv")
            said = said.with_columns(corruption=pl.lit("fog"), severity=pl.lit(3))
            said.write_csv(here / "worse" / variant / f"{model}.csv")
    return text + "robustness: {files: 'HERE/worse/{variant}/{model}.csv'}\n"


def detections(here: Path) -> str:
    truth = DETECTIONS["write_truth"](here, images=60)
    (here / "found").mkdir()
    DETECTIONS["write_detections"](here / "found" / "fp32.json", truth, seed=1)
    DETECTIONS["write_detections"](here / "found" / "int8.json", truth, harm=0.9, noise_seed=2)
    return DETECTED.replace("FILES", "found/{variant}.json").replace("TRUTH", "instances.json")


def detections_of_yolo(here: Path) -> str:
    """The same boxes in text files, beside pictures of the right size."""
    detections(here)
    width, height = DETECTIONS["SIDES"]
    truth = json.loads((here / "instances.json").read_text())
    for image in truth["images"]:
        path = here / "images" / "val" / f"{image['id']:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, height)).save(path)
    folders = {"labels/val": truth["annotations"]}
    for side in ("fp32", "int8"):
        folders[f"found/{side}"] = json.loads((here / "found" / f"{side}.json").read_text())
        (here / "found" / f"{side}.json").unlink()
    for folder, rows in folders.items():
        (here / folder).mkdir(parents=True)
        for row in rows:
            x, y, w, h = row["bbox"]
            sides = (x + w / 2) / width, (y + h / 2) / height, w / width, h / height
            line = " ".join(f"{side:.9f}" for side in sides)
            score = f" {row['score']}" if "score" in row else ""
            with (here / folder / f"{row['image_id']:06}.txt").open("a") as file:
                file.write(f"{row['category_id'] - 1} {line}{score}\n")
    names = "[person, bicycle, car, dog]"
    (here / "data.yaml").write_text(f"path: .\nval: images/val\nnames: {names}\n")
    return DETECTED.replace("FILES", "found/{variant}/*.txt").replace("TRUTH", "data.yaml")


def scores(here: Path) -> str:
    test_score_audits.write(here)
    text = test_score_audits.CONFIG
    for name in ("forecasts/", "deliveries.csv"):
        text = text.replace(name, f"HERE/{name}")
    return text


TRAINED = (image_folder, parquet, celeba, coco, situations, cifar10)
EXTERNAL = (
    external_models,
    predictions,
    predictions_of_spark,
    predictions_in_csv_of_spark,
    predictions_with_training,
    predictions_on_corrupted_pictures,
    predictions_with_pictures,
    detections,
    detections_of_yolo,
    scores,
)
Case = Callable[[Path], str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this machine, empty."""
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def in_both_places(case: Case, home: Path, s3: Storage) -> tuple[Path, Path]:
    """Configurations of the same files, in a folder and in S3."""
    here = home / "here"
    here.mkdir()
    text = case(here)
    if "tracking" not in text:
        text += "tracking: {uri: 'off'}\n"
    for path in here.rglob("*"):
        if path.is_file():
            s3.put(f"sets/{path.relative_to(here).as_posix()}", path.read_bytes())
    configs = home / "local.yaml", home / "remote.yaml"
    for config, place in zip(configs, (str(here), s3.uri("sets")), strict=True):
        named = text if "project" in text else f"project: stored\n{text}"
        config.write_text(named.replace("HERE", place))
    return configs


def plain(content: Any, home: Path, s3: Storage) -> Any:
    """Content of JSON in which both places have one name."""
    text = json.dumps(content)
    for place in (s3.uri("sets"), str(home / "here")):
        text = text.replace(place, "HERE")
    return json.loads(text)


@pytest.mark.parametrize("case", [*TRAINED, *EXTERNAL], ids=lambda case: case.__name__)
def test_check_says_of_s3_what_it_says_of_the_folder(
    case: Case, tmp_path: Path, s3: Storage
) -> None:
    found = [
        plain(measured("audit", "--plan", config, "--no-trial", "--quiet"), tmp_path, s3)
        for config in in_both_places(case, tmp_path, s3)
    ]
    for one in found:  # times of this machine
        for key in ("measuring", "network", "steps", "total"):
            one.pop(key, None)
    assert found[0] == found[1]


@pytest.mark.parametrize("case", TRAINED, ids=lambda case: case.__name__)
def test_examples_of_s3_are_those_of_the_folder(case: Case, tmp_path: Path, s3: Storage) -> None:
    tables = []
    for config in in_both_places(case, tmp_path, s3):
        out = tmp_path / config.stem
        with steps_in_this_process(tmp_path):
            code, _, err = scotoma("audit", config, "--out", out, "--step", "prepare")
        assert code == 0, err
        tables.append(pl.read_parquet(out / "examples.parquet"))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("case", EXTERNAL, ids=lambda case: case.__name__)
def test_an_audit_of_s3_finds_what_that_of_the_folder_finds(
    case: Case, tmp_path: Path, s3: Storage
) -> None:
    audits = []
    for config in in_both_places(case, tmp_path, s3):
        out = tmp_path / config.stem
        with steps_in_this_process(tmp_path):
            code, _, err = scotoma("audit", config, "--out", out, "--quiet")
        assert code == 0, err
        content = plain(json.loads((out / "audit.json").read_text()), tmp_path, s3)
        del content["inputs"], content["fingerprint"]["setup"]  # digests, which these objects lack
        shown = len(re.findall("data:image/png", (out / "report.html").read_text()))
        assert shown or case is not predictions_with_pictures
        audits.append((content, shown))
    assert audits[0] == audits[1]
