"""Top-5 accuracy of a label of 100 classes, from models to the paper's table, by the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow

CLASSES = [f"kind {number:02d}" for number in range(100)]
CONFIG = f"""\
source: {{kind: onnx, models: models, images: pictures, attributes: table.csv, classes: {CLASSES}}}
label: {{column: kind}}
groups: {{side: {{column: side}}}}
variants: [dense, {{onnx: [small], paired: true, bits: 8}}]
population: {{models: 2}}
tracking: {{uri: "off"}}
"""


def save_model(path: Path, weight: np.ndarray) -> None:
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["images"], ["flat"]),
         helper.make_node("MatMul", ["flat", "weight"], ["scores"])],
        "linear",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 4, 4))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", 100))],
        [numpy_helper.from_array(weight.astype(np.float32), "weight")],
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    opset = helper.make_opsetid("", 20)
    onnx.save_model(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)


def test_top_5_of_100_classes_is_that_of_the_models_own_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (400, 4, 4, 3), dtype=np.uint8)
    inputs = (pixels.transpose(0, 3, 1, 2) / 255).astype(np.float32)
    truth = rng.normal(size=(48, 100))
    labels = (inputs.reshape(400, 48) @ truth).argmax(axis=1)
    Path("pictures").mkdir()
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(f"pictures/{number}.png")
    table = {"image": [f"{n}.png" for n in range(400)], "kind": [CLASSES[one] for one in labels]}
    pl.DataFrame(table | {"side": ["left", "right"] * 200}).write_csv("table.csv")
    expected = {}
    for variant, noise in (("dense", 0.3), ("small", 0.9)):
        top = []
        for seed in range(2):
            path = Path(f"models/{variant}/{seed}.onnx")
            save_model(path, truth + noise * rng.normal(size=truth.shape))
            scores = onnxruntime.InferenceSession(path).run(None, {"images": inputs})[0]
            best = scores.argsort(axis=1)[:, ::-1][:, :5]
            top.append([(best[:, :k] == labels[:, None]).any(axis=1).mean() for k in (1, 5)])
        expected[variant] = 100 * np.mean(top, axis=0)
    assert expected["dense"][1] - expected["dense"][0] > 10  # top 5 and top 1 lie apart
    Path("audit.yaml").write_text(CONFIG)
    code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 0, err
    code, out, err = scotoma("show", "run", "paper:pie", "--csv")
    assert code == 0, err
    cells = pl.read_csv(out.encode(), infer_schema_length=None).filter(
        pl.col("of").str.starts_with("This run"), table="Tables 2 and 3"
    )
    for variant, values in expected.items():
        own = cells.filter(row=variant)
        for column, value in zip(("top 1", "top 5"), values, strict=True):
            assert own.filter(column=column)["number"].item() == pytest.approx(value, abs=1e-9)
