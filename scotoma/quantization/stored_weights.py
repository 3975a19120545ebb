"""In how many bits does an ONNX file store its weights, and how many of them are zero?"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

# Operators with weights: the numbers of the inputs that may hold them, and of their zero point.
WEIGHTED: dict[str, tuple[tuple[int, ...], int]] = {
    "Conv": ((1,), 0), "ConvTranspose": ((1,), 0), "FusedConv": ((1,), 0),
    "Gemm": ((1, 0), 0), "FusedGemm": ((1,), 0), "MatMul": ((1, 0), 0), "FusedMatMul": ((1,), 0),
    "ConvInteger": ((1,), 3), "MatMulInteger": ((1,), 3), "MatMulIntegerToFloat": ((1,), 5),
    "DynamicQuantizeMatMul": ((1,), 3), "QLinearConv": ((3,), 5), "QLinearMatMul": ((3,), 5),
    "QGemm": ((3,), 5), "MatMulNBits": ((1,), 0),
}  # fmt: skip
DEQUANTIZES = "DequantizeLinear"  # its zero point is input 2
PASSING = {"Cast", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose"}
PASSING |= {"Unsqueeze", DEQUANTIZES}
PACKED = {"MatMulNBits"}  # several weights in a byte
BITS: dict[int, int] = {
    TensorProto.DOUBLE: 64, TensorProto.FLOAT: 32, TensorProto.FLOAT16: 16,
    TensorProto.BFLOAT16: 16, TensorProto.INT8: 8, TensorProto.UINT8: 8, TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
}  # fmt: skip


Origin = tuple[onnx.TensorProto, onnx.TensorProto | None, int]  # a tensor, its zero point and axis


class StoredWeights(NamedTuple):
    """Facts about the weights of convolutions and linear layers.

    Attributes:
        bits: Bits that most of them are stored in; None where there are none, or of another type.
        sparsity: Share that is zero, a fraction; None where it cannot be counted.
    """

    bits: int | None
    sparsity: float | None


def stored_weights(model: ModelProto) -> StoredWeights:
    """Measure the weights of a model, whose external data have been read.

    >>> weight = numpy_helper.from_array(np.float32([[0, 1], [2, 0]]), "w")
    >>> node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    >>> graph = onnx.helper.make_graph([node], "one", [], [], [weight])
    >>> stored_weights(onnx.helper.make_model(graph))
    StoredWeights(bits=32, sparsity=0.5)
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            held[node.output[0]] = node.attribute[0].t

    def origin(node: onnx.NodeProto, place: int, zero_point: int) -> Origin | None:
        """The tensor that an input of a node comes from, its zero point and axis."""
        name = node.input[place]
        zero = held.get(node.input[zero_point]) if 0 < zero_point < len(node.input) else None
        axis = 0 if node.op_type in ("QLinearConv", "ConvInteger") else -1
        for _ in range(len(producers) + 1):
            if name in held:
                return held[name], zero, axis
            before = producers.get(name)
            if before is None or before.op_type not in PASSING:
                return None
            if before.op_type == DEQUANTIZES:
                zero = held.get(before.input[2]) if len(before.input) > 2 else None
                axis = _attribute(before, "axis", 1)
            elif before.op_type == "QuantizeLinear":
                zero = None  # of what is stored nothing is quantized
            name = before.input[0]
        return None

    stored: Counter[int | None] = Counter()
    zeros: list[float | None] = []
    seen: set[str] = set()
    for node in model.graph.node:
        places, zero_point = WEIGHTED.get(node.op_type, ((), 0))
        read = (origin(node, place, zero_point) for place in places if place < len(node.input))
        tensor, zero, axis = next(filter(None, read), (None, None, 0))
        if tensor is None or (tensor.name and tensor.name in seen):
            continue
        seen.add(tensor.name)
        if node.op_type in PACKED:
            size = _attribute(node, "K", 0) * _attribute(node, "N", 0)
            stored[_attribute(node, "bits", 4)] += size
            zeros.append(None)
            continue
        try:
            values = numpy_helper.to_array(tensor)
            zeros.append(_zeros(values, zero, axis))
        except (KeyError, TypeError, ValueError):  # data and shape that do not fit
            return StoredWeights(None, None)
        stored[BITS.get(tensor.data_type)] += values.size
    total = sum(stored.values())
    if not total:
        return StoredWeights(None, None)
    counted = [count for count in zeros if count is not None]
    sparsity = sum(counted) / total if len(counted) == len(zeros) else None
    return StoredWeights(stored.most_common(1)[0][0], sparsity)


def _zeros(values: NDArray[Any], zero: onnx.TensorProto | None, axis: int) -> float | None:
    """How many values stand for zero; None where their zero points are of blocks."""
    if zero is None:
        return float((values.astype(np.float32) == 0).sum())
    points = numpy_helper.to_array(zero).astype(np.float32).reshape(-1)
    if points.size == 1 or not points.any():
        return float((values.astype(np.float32) == points[0]).sum())
    if not -values.ndim <= axis < values.ndim or points.size != values.shape[axis]:
        return None
    shape = [1] * values.ndim
    shape[axis] = points.size
    return float((values.astype(np.float32) == points.reshape(shape)).sum())


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(one.i) for one in node.attribute if one.name == name), default)
