"""Bits and zeros of weights, as ONNX Runtime's own tools store them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from scotoma.quantization.stored_weights import StoredWeights, stored_weights

pytestmark = pytest.mark.slow


def network(dtype: Any = np.float32) -> onnx.ModelProto:
    """A convolution and a linear layer; 60% of the weights are zero, in every channel."""
    rng = np.random.default_rng(0)
    conv = np.where(np.arange(45).reshape(5, 3, 3, 1) % 5 < 3, 0, rng.normal(size=(5, 3, 3, 1)))
    linear = np.where(np.arange(20).reshape(5, 4) % 5 < 3, 0, rng.normal(size=(5, 4)))
    weights = {"conv.weight": conv, "linear.weight": linear}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["images", "conv.weight"], ["maps"], name="conv"),
            helper.make_node("GlobalAveragePool", ["maps"], ["pooled"], name="pool"),
            helper.make_node("Flatten", ["pooled"], ["flat"], name="flat"),
            helper.make_node("MatMul", ["flat", "linear.weight"], ["scores"], name="linear"),
        ],
        "two layers",
        [helper.make_tensor_value_info("images", kind, ("n", 3, 8, 8))],
        [helper.make_tensor_value_info("scores", kind, ("n", 4))],
        [numpy_helper.from_array(value.astype(dtype), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


class Reader(CalibrationDataReader):
    """A batch of noise."""

    def __init__(self) -> None:
        self.batches = iter([{"images": np.random.default_rng(1).random((9, 3, 8, 8), np.float32)}])

    def get_next(self) -> Any:
        return next(self.batches, None)


def quantized(path: Path, way: str) -> Path:
    target = path.with_name(f"{way}.onnx")
    if way.startswith("dynamic"):
        kind = QuantType.QUInt8 if way.endswith("unsigned") else QuantType.QInt8
        quantize_dynamic(path, target, weight_type=kind)
    else:
        form = QuantFormat.QOperator if "operators" in way else QuantFormat.QDQ
        kind = QuantType.QUInt8 if way.endswith("unsigned") else QuantType.QInt8
        quantize_static(
            path, target, Reader(), quant_format=form, weight_type=kind,
            per_channel="channel" in way,
            activation_type=kind,
        )  # fmt: skip
    return target


@pytest.mark.parametrize(
    "way",
    ["dynamic", "dynamic-unsigned", "qdq", "qdq-channel", "qdq-unsigned", "operators",
     "operators-channel"],
)  # fmt: skip
def test_int8_files_store_8_bits_and_keep_their_zeros(way: str, tmp_path: Path) -> None:
    onnx.save_model(network(), tmp_path / "dense.onnx")
    bits, sparsity = stored_weights(onnx.load(quantized(tmp_path / "dense.onnx", way)))
    assert bits == 8
    assert sparsity is not None
    # Small weights become zero too, a step of 256 wide: at most one or two of 65.
    assert 0.6 <= sparsity <= 0.6 + 2 / 65


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 32), (np.float16, 16), (np.float64, 64)])
def test_float_files_are_counted(dtype: Any, bits: int) -> None:
    assert stored_weights(network(dtype)) == StoredWeights(bits, pytest.approx(0.6))


def test_weights_in_constants_and_behind_transposes_are_found() -> None:
    model = network()
    linear = model.graph.initializer.pop()
    turned = numpy_helper.from_array(numpy_helper.to_array(linear).T.copy(), "turned")
    nodes = [
        helper.make_node("Constant", [], ["held"], value=turned),
        helper.make_node("Transpose", ["held"], ["linear.weight"], perm=[1, 0]),
    ]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    assert stored_weights(model) == StoredWeights(32, pytest.approx(0.6))


def test_what_cannot_be_known_is_empty() -> None:
    model = network()
    del model.graph.node[:]
    assert stored_weights(model) == StoredWeights(None, None)
    packed = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=64, N=8, bits=4,
        block_size=32,
    )  # fmt: skip
    blob = numpy_helper.from_array(np.zeros((8, 2, 16), np.uint8), "b")
    graph = helper.make_graph([packed], "packed", [], [], [blob])
    assert stored_weights(helper.make_model(graph)) == StoredWeights(4, None)


def test_data_that_do_not_fit_their_shape_are_not_counted() -> None:
    model = network()
    model.graph.initializer[1].dims[0] = 7
    assert stored_weights(model) == StoredWeights(None, None)


def test_4_bits_and_a_shared_weight_are_counted_once() -> None:
    weight = helper.make_tensor("w", TensorProto.INT4, (2, 4), [0, 1, 2, 3, 0, 0, 0, 7])
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["float"]),
        helper.make_node("MatMul", ["x", "float"], ["y"]),
        helper.make_node("MatMul", ["z", "float"], ["v"]),
    ]
    model = helper.make_model(helper.make_graph(nodes, "shared", [], [], [weight, scale]))
    assert stored_weights(model) == StoredWeights(4, 0.5)
