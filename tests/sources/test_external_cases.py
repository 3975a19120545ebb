"""External models and pictures as people have them, audited by the command that they typed.

The right values were made with ONNX Runtime, Pillow and `transformers`: see their READMEs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tests.helpers.audits import accuracy, rates
from tests.helpers.commands import scotoma

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in which commands run."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def audited(case: Path, home: Path, *source: str) -> dict[str, Any]:
    """The audit.json of a case, whose source has some more lines."""
    if case != home:
        shutil.copytree(case, home, dirs_exist_ok=True, copy_function=shutil.copyfile)
    config = home / "audit.yaml"
    text = config.read_text("utf-8")
    for line in source:
        text = text.replace("source:\n", f"source:\n  {line}\n", 1)
    config.write_text(text, "utf-8")
    code, _, err = scotoma("audit", "--plan", "audit.yaml")
    assert code == 0, err
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 0, err
    audit: dict[str, Any] = json.loads((home / "run" / "audit.json").read_bytes())
    return audit


def accuracies(audit: dict[str, Any]) -> tuple[float, float]:
    dense, int8 = (accuracy(audit, name)["top1"]["value"] for name in ("dense", "int8"))
    return dense, int8


def told(audit: dict[str, Any]) -> str:
    return "; ".join(note["sentence"] for note in audit["admission"])


ALL = "classes: ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']"


@pytest.mark.parametrize(
    ("case", "source", "expected", "sentence"),
    [
        ("class-order-id2label", [], (0.9625, 0.71), "in the order dog, cat (id2label in config."),
        ("class-order-id2label", ["classes: [cat, dog]"], (0.0375, 0.29),
         "in the order cat, dog (source.classes; id2label in config.json says dog, cat)"),
        ("exif-orientation", [], (1, 1),
         "75 of 150 test images carry an EXIF orientation (site a: 75 of 75, b: 0 of 75); they are "
         "turned upright"),
        ("hf-convnext-crop-pct", [], (1, 1), "in the order a_blue, b_green, c_red (the labels as"),
        ("hf-convnext-crop-pct", ["crop: 1.0"], (0.3133, 0.3133),
         "preprocessor_config.json says crop 0.888889 where the audit has 1"),
        ("hf-siglip", [], (1, 1), ""),
        ("hf-vit-squash", [], (1, 1), ""),
        ("image-names-nfd", [], (1, 1), "150 of 150 names in the table spell accents otherwise"),
        ("newest-half-copied", [], (1, 1), ""),
        ("onnx-float16-input", [], (1, 1), ""),
        ("onnx-more-classes", [ALL], (1, 1), "in the order 0, 1, 2, 3, ... (10 in all) (source.c"),
        ("onnx-output-1x1", [], (1, 1), "in the order 0, 1, 2 (the labels by value)"),
        ("onnx-two-outputs", [], (1, 1), "scores are read from logits, one of 2 outputs"),
        ("onnx-two-outputs", ["output: logits"], (1, 1), ""),
        ("onnx-uint8-nhwc", [], (1, 1), ""),
        ("ort-static-int8", [], (1, 1), ""),
    ],
)  # fmt: skip
def test_what_people_have_is_audited(
    case: str,
    source: list[str],
    expected: tuple[float, float],
    sentence: str,
    shared: Path,
    home: Path,
) -> None:
    audit = audited(shared / "data" / "cases" / case, home, *source)
    assert accuracies(audit) == pytest.approx(expected, abs=6e-5)
    assert sentence in told(audit)


def errors_by_site(audit: dict[str, Any]) -> dict[str, float]:
    rows = rates(audit, audit["variants"][1]["name"])
    return {
        row["group"]: row["dense"]["value"]
        for row in rows
        if row["metric"] == "error" and row["group"] != "all"
    }


def test_pictures_may_be_seen_as_they_are_stored(shared: Path, home: Path) -> None:
    audit = audited(shared / "data" / "cases" / "exif-orientation", home, "orientation: stored")
    assert errors_by_site(audit) == pytest.approx({"site=a": 0.6667, "site=b": 0.0}, abs=1e-4)
    assert "site a: 75 of 75, b: 0 of 75); they are not turned" in told(audit)


def test_weights_are_measured(shared: Path, home: Path) -> None:
    """ONNX Runtime's own file: 8 bits; 26 of 27 weights of the convolution are zero."""
    audit = audited(shared / "data" / "cases" / "ort-static-int8", home)
    stored = {one["name"]: (one["bits"], one["sparsity"]) for one in audit["variants"]}
    weight = pytest.approx(78 / 81)
    assert stored == {"dense": (32, weight), "int8": (8, weight)}
    rows = json.loads((home / "run" / "measurements.json").read_bytes())["frontier"]
    assert [(row["bits"], row["sparsity"]) for row in rows] == [(32, weight), (8, weight)]


def test_a_month_counts_once_its_table_is_there(shared: Path, home: Path) -> None:
    shutil.copytree(
        shared / "data" / "cases" / "newest-half-copied", home, dirs_exist_ok=True,
        copy_function=shutil.copyfile,
    )  # fmt: skip
    code, out, err = scotoma("audit", "--plan", "audit.yaml")
    assert code == 0, err
    assert "2026-10" in out + err
    shutil.copyfile(home / "faces/2026-10/people.csv", home / "faces/2026-11/people.csv")
    code, out, err = scotoma("audit", "--plan", "audit.yaml")
    assert code == 0, err
    assert "2026-11" in out + err


def test_the_empty_object_of_a_folder_is_no_month(shared: Path, home: Path, s3: Any) -> None:
    """What put.py of the case puts there, in a bucket of this test."""
    rows = [(i, i % 2, "mf"[i // 2 % 2]) for i in range(200)]
    examples = "example_id,label,sex\n" + "".join(f"{i},{y},{s}\n" for i, y, s in rows)
    predictions = "example_id,predicted\n" + "".join(f"{i},{y}\n" for i, y, _ in rows)
    for month in ("2026-09", "2026-10"):
        s3.put(f"monthly/{month}/ex.csv", examples.encode())
        for variant in ("fp32", "int8"):
            s3.put(f"monthly/{month}/preds/{variant}/m0.csv", predictions.encode())
    s3.put("monthly/2026-11/", b"")
    text = (shared / "data/cases/newest-s3-marker/audit.yaml").read_text()
    (home / "audit.yaml").write_text(text.replace("s3://data", s3.uri()))
    code, _, err = scotoma("audit", "--plan", "audit.yaml")
    assert code == 0, err
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 0, err
    assert json.loads((home / "run" / "newest.json").read_bytes())["name"] == "2026-10"
    variants = json.loads((home / "run" / "audit.json").read_bytes())["variants"]
    assert [(one["bits"], one["sparsity"]) for one in variants] == [(None, None)] * 2


PICTURES = """\
source:
  kind: onnx
  models: models
  images: images
  attributes: table.csv
label: {column: label}
groups: {site: {column: site}}
variants: [dense, {onnx: [int8], paired: true}]
population: {models: 1}
tracking: {uri: "off"}
"""


def tell_red(
    kind: int = TensorProto.FLOAT,
    *,
    last: bool = False,
    red: int = 0,
    full: float = 1.0,
    scores: str = "two",
    metadata: dict[str, str] | None = None,
) -> bytes:
    """A model that tells red pictures from green ones.

    Args:
        kind: Type of its input.
        last: It takes channels last.
        red: The channel that it takes for red; the other of 0 and 2 is empty in these pictures.
        full: The value of a full pixel.
        scores: `two`, `column` for (B, 2, 1), `row` for (B, 1, 2); `logit` or `sigmoid` for one.
        metadata: ONNX's own, of images.
    """
    one = scores in ("logit", "sigmoid")
    weight = np.zeros((3, 1 if one else 2), np.float32)
    weight[red], weight[1] = ([1.0], [-1.0]) if one else ([0.0, 1.0], [1.0, 0.0])
    values = {"weight": 8 * weight / full, "axes": np.array([1, 2] if last else [2, 3], np.int64)}
    nodes = [
        helper.make_node("Cast", ["images"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["numbers", "axes"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "weight"], ["raw"]),
    ]
    sides: list[Any] = ["n", 1 if one else 2]
    if scores == "sigmoid":
        nodes.append(helper.make_node("Sigmoid", ["raw"], ["scores"]))
    elif scores in ("column", "row"):
        place = 2 if scores == "column" else 1
        sides.insert(place, 1)
        values["place"] = np.array([place], np.int64)
        nodes.append(helper.make_node("Unsqueeze", ["raw", "place"], ["scores"]))
    else:
        nodes.append(helper.make_node("Identity", ["raw"], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "red",
        [helper.make_tensor_value_info(
            "images", kind, ("n", 8, 8, 3) if last else ("n", 3, 8, 8)
        )],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, sides)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    helper.set_model_props(model, metadata or {})
    content: bytes = model.SerializeToString()
    return content


def red_and_green(home: Path, dense: bytes, int8: bytes, labels: str = "gr") -> None:
    """Forty pictures, half of them red, and two models."""
    rows = ["image,label,site"]
    (home / "images").mkdir()
    for place in range(40):
        red = place % 2
        colour = (200, 40, 0) if red else (40, 200, 0)
        Image.new("RGB", (8, 8), colour).save(home / "images" / f"{place}.png")
        rows.append(f"{place}.png,{labels[red]},{'ab'[place // 2 % 2]}")
    (home / "table.csv").write_text("\n".join(rows) + "\n")
    (home / "audit.yaml").write_text(PICTURES)
    for name, content in {"dense": dense, "int8": int8}.items():
        (home / "models" / name).mkdir(parents=True)
        (home / "models" / name / "m.onnx").write_bytes(content)


UINT8, DOUBLE = TensorProto.UINT8, TensorProto.DOUBLE


@pytest.mark.parametrize(
    ("dense", "int8", "sentence"),
    [
        (tell_red(scores="sigmoid"), tell_red(scores="logit"),
         "dense: its one score is read as the probability of r; int8: its one score is read as the "
         "logit of r"),
        (tell_red(DOUBLE, scores="row"), tell_red(last=True, scores="column"), ""),
        (tell_red(), tell_red(UINT8, full=255.0),
         "int8: takes uint8, so it is given pixels as they are, not scaled"),
        (tell_red(UINT8, last=True, full=255.0), tell_red(UINT8, full=255.0), ""),
        (tell_red(red=2, metadata={"Image.BitmapPixelFormat": "Bgr8"}),
         tell_red(TensorProto.FLOAT16, red=2), ""),
    ],
)  # fmt: skip
def test_one_score_axes_types_and_channels(
    dense: bytes, int8: bytes, sentence: str, home: Path
) -> None:
    red_and_green(home, dense, int8)
    audit = audited(home, home)
    assert accuracies(audit) == (1, 1)
    assert sentence in told(audit)


def test_a_variant_with_the_classes_in_another_order_is_refused(home: Path) -> None:
    red_and_green(home, tell_red(), tell_red())
    for name, order in {"dense": "gr", "int8": "rg"}.items():
        text = json.dumps({"id2label": dict(enumerate(order))})
        (home / "models" / name / "config.json").write_text(text)
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 4
    assert (
        "int8/m.onnx must have the classes in the order of the dense models, g, r, and id2label in "
        "its config.json says r, g; name the right order in source.classes"
    ) in err


def test_a_draft_says_in_which_order_scores_are_read(shared: Path, home: Path) -> None:
    shutil.copytree(
        shared / "data" / "cases" / "class-order-id2label", home, dirs_exist_ok=True,
        copy_function=shutil.copyfile,
    )  # fmt: skip
    code, _, err = scotoma(
        "init", "table.csv", "--models", "models", "--images", "images", "--label", "label",
        "--out", "draft.yaml",
    )  # fmt: skip
    assert code == 0, err
    assert "read in the order dog, cat (id2label in config.json" in err
    code, _, err = scotoma("audit", "--plan", "draft.yaml")
    assert code == 0, err
