"""Quantize weights to int8, and activations as they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

from scotoma.quantization.calibration import silence_quantizers

PRODUCTS = {"ConvInteger": 0, "MatMulInteger": -1}  # the axis of their weights that is the output's
QUANTIZED, TRANSPOSED = "_quantized", "_Transposed"  # what ONNX Runtime appends to a weight's name


def to_int8_dynamic(
    member: ModelProto,
    path: Path,
    *,
    per_channel: bool,
    reduce_range: bool,
    in_float32: Sequence[str] = (),
) -> ModelProto:
    """Quantize the products of a graph: int8 weights, activations in the range that they have.

    Args:
        member: The graph in float32, shapes inferred; the quantizer changes it.
        path: A file that may be overwritten.
        per_channel: Signed weights, a scale a channel, as TensorFlow Lite has them; else unsigned
            weights with one scale and zero point a layer, as ONNX Runtime's own tool makes them.
        reduce_range: Weights of 7 bits.
        in_float32: Names of nodes that stay as they are, as `product_nodes` gives them.

    Returns:
        The quantized graph.
    """
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in member.graph.initializer}
    turned = {  # that a Gemm transposes; the quantizer, making a MatMul of it, does
        node.input[1]
        for node in member.graph.node
        if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
    }
    add_pre_process_metadata(member)
    with silence_quantizers():
        # ConvInteger on CPU takes unsigned weights only.
        quantize_dynamic(
            member, path, weight_type=QuantType.QUInt8, reduce_range=reduce_range,
            nodes_to_exclude=list(in_float32),
        )  # fmt: skip
    quantized = onnx.load_model(path)
    if per_channel:
        _scale_each_channel(quantized, weights, turned, largest=63 if reduce_range else 127)
    return quantized


def product_nodes(nodes: Sequence[str]) -> tuple[str, ...]:
    """Name nodes as ONNX Runtime's dynamic quantizer does, which makes of a Gemm MatMul and Add.

    >>> product_nodes(["fc1"])
    ('fc1', 'fc1_MatMul')
    """
    return tuple(name for node in nodes for name in (node, f"{node}_MatMul"))


def quantize_channels(
    weight: NDArray[np.float32], axis: int, largest: int = 127
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each channel of a weight to whole multiples of its largest value / `largest`.

    Args:
        weight: Any shape.
        axis: Of the channels.
        largest: Largest integer: 127, or 63 for 7 bits.

    Returns:
        Integers of the shape of `weight`, and scales with 1 for every other axis.

    >>> rounded, scales = quantize_channels(np.float32([[1.0, -0.5], [0.01, 0.0]]), axis=0)
    >>> rounded.tolist(), (127 * scales.ravel()).round(2)
    ([[127, -64], [127, 0]], array([1.  , 0.01], dtype=float32))
    """
    others = tuple(place for place in range(weight.ndim) if place != axis % weight.ndim)
    reach = np.abs(weight).max(axis=others, keepdims=True)
    scales = np.where(reach > 0, reach / largest, 1).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


def _scale_each_channel(
    quantized: ModelProto,
    weights: dict[str, NDArray[np.float32]],
    turned: set[str],
    *,
    largest: int,
) -> None:
    """Give the weights of a quantized graph, in place, a scale a channel.

    Signed weights stand as unsigned ones with their zero in the middle, which is the same integer
    arithmetic. ONNX Runtime keeps the name of a weight that it transposes, and from 1.32 on it
    appends to it.
    """
    tensors = {tensor.name: tensor for tensor in quantized.graph.initializer}
    for node in quantized.graph.node:
        name = node.input[1] if node.op_type in PRODUCTS else ""
        if name not in tensors:  # a product of two activations
            continue
        base = name.removesuffix(QUANTIZED)
        own = weights[base] if base in weights else weights[base.removesuffix(TRANSPOSED)].T
        if base in turned and base + TRANSPOSED + QUANTIZED not in tensors:
            own = own.T
        axis = PRODUCTS[node.op_type]
        rounded, scales = quantize_channels(own, axis, largest)
        zero = largest + 1
        # Scales are multiplied with results, whose channels are their second axis or their last.
        shape = (-1,) if axis else (-1, *(1,) * (own.ndim - 2))
        for kind, value in (
            (QUANTIZED, (rounded.astype(np.int16) + zero).astype(np.uint8)),
            ("_scale", scales.reshape(shape)),
            ("_zero_point", np.array(zero, np.uint8)),
        ):
            tensors[base + kind].CopyFrom(numpy_helper.from_array(value, base + kind))
