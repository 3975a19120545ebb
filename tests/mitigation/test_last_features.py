"""What the last layer of a network reads, where that layer is a convolution of 1x1 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization as oracle

from scotoma.errors import DataError
from scotoma.fix.outputs import all_scores, last_features
from scotoma.inference import Network
from scotoma.mitigation.decide import LastLayer

pytestmark = pytest.mark.slow

IMAGES = np.random.default_rng(1).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8)
NETWORK = Network("onnx", 4)
HEAD = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)


class Calibration(oracle.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.batches = iter([{"images": NETWORK.preprocessing(IMAGES)}])

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[type-arg]
        return next(self.batches, None)


def convolutional(path: Path, *, pooled_first: bool, pixels: int = 1, named: bool = True) -> Path:
    """A convolution, then another as its head, without a linear layer."""
    rng = np.random.default_rng(0)
    body = rng.normal(size=(5, 3, 3, 3)).astype(np.float32) / 5
    head = np.repeat(HEAD, pixels**2, axis=1).reshape(4, 5, pixels, pixels)
    steps = ["pool", "head"] if pooled_first else ["head", "pool"]
    sizes = {"kernel_shape": [pixels, pixels]} if named else {}
    nodes = [
        helper.make_node("Conv", ["images", "body"], ["z"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["z"], ["features"]),
    ]
    last = "features"
    for step in steps:
        kind, inputs = ("GlobalAveragePool", []) if step == "pool" else ("Conv", ["weight", "bias"])
        nodes.append(
            helper.make_node(kind, [last, *inputs], [step], **(sizes if kind == "Conv" else {}))
        )
        last = step
    nodes.append(helper.make_node("Flatten", [last], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "convolutional",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 8, 8))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", 4))],
        [
            numpy_helper.from_array(body, "body"),
            numpy_helper.from_array(head, "weight"),
            numpy_helper.from_array(np.arange(4, dtype=np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("pooled_first", [True, False])
def test_the_dense_head_on_averaged_features_gives_the_scores(
    tmp_path: Path, *, pooled_first: bool, named: bool
) -> None:
    member = convolutional(tmp_path / "m.onnx", pooled_first=pooled_first, named=named)
    features = last_features(member, IMAGES, NETWORK)
    assert features.shape == (20, 5)
    layer = LastLayer.of(HEAD, np.arange(4))
    scores = all_scores(member, IMAGES, NETWORK)
    np.testing.assert_allclose(layer.scores(features), scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["dynamic", "QDQ", "QOperator"])
@pytest.mark.parametrize("pooled_first", [True, False])
def test_int8_heads_read_nearly_the_dense_features(
    tmp_path: Path, kind: str, *, pooled_first: bool
) -> None:
    member = convolutional(tmp_path / "m.onnx", pooled_first=pooled_first)
    made = tmp_path / "int8.onnx"
    if kind == "dynamic":
        oracle.quantize_dynamic(member, made, op_types_to_quantize=["Conv"])
    else:
        oracle.quantize_static(
            member, made, Calibration(), quant_format=oracle.QuantFormat[kind],
            op_types_to_quantize=["Conv", "GlobalAveragePool"],
            activation_type=oracle.QuantType.QUInt8, weight_type=oracle.QuantType.QUInt8,
        )  # fmt: skip
    dense, own = (last_features(path, IMAGES, NETWORK) for path in (member, made))
    assert own.shape == dense.shape
    for feature in range(5):
        assert np.corrcoef(own[:, feature], dense[:, feature])[0, 1] > 0.98


def test_a_head_of_more_pixels_is_no_linear_layer(tmp_path: Path) -> None:
    member = convolutional(tmp_path / "m.onnx", pooled_first=False, pixels=3)
    with pytest.raises(DataError, match=r"must end in a linear layer or a convolution of 1x1"):
        last_features(member, IMAGES, NETWORK)
