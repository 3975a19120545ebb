"""External models that take images of 8x12 pixels, and the configuration of their audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EXTERNAL = """\
source:
  kind: onnx
  models: models
  images: pictures
  attributes: table.csv
  split: {column: part, train: train, test: test}
label: {column: face}
groups: {sex: {column: sex}}
variants: [dense, {onnx: [small], paired: true, bits: 8}]
population: {models: 2}
tracking: {uri: "off"}
"""


def external_model(path: Path) -> Path:
    """An external model, for two classes and images of 8x12 pixels."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
            helper.make_node("MatMul", ["mean", "weight"], ["scores"]),
        ],
        "mean",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 8, 12))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", 2))],
        [
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
            numpy_helper.from_array(np.ones((3, 2), np.float32), "weight"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(model, path)
    return path
