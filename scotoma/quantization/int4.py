"""Put weights into 4 bits: a scale for every block, activations as they were."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["quantize_blocks", "to_int4"]

WEIGHTED = {"Conv": 1, "Gemm": 1, "MatMul": 1}  # operator: number of the input with its weights
SMALLEST = 1024  # weights; below, scales take as much as the bits save


def to_int4(graph: onnx.ModelProto, *, block: int) -> onnx.ModelProto:
    """Put every large weight of Conv, Gemm and MatMul into 4 bits.

    A weight becomes a matrix with one row per output (column for MatMul), `DequantizeLinear` gives
    its blocks their scales back, and ONNX Runtime multiplies in 4 bits where it has the kernel
    (MatMulNBits) and in float32 elsewhere.

    Args:
        graph: A member in float32, opset 21 or later; it is changed.
        block: Weights that share a scale.

    Returns:
        The graph.
    """
    held = {initializer.name: initializer for initializer in graph.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    done: set[str] = set()
    for node in graph.graph.node:
        name = node.input[WEIGHTED[node.op_type]] if node.op_type in WEIGHTED else ""
        if name in held and _size(held[name]) >= SMALLEST:
            if name not in done:
                nodes += _dequantized(graph, held[name], node, block)
                done.add(name)
            node.input[WEIGHTED[node.op_type]] = f"{name}_restored"
        nodes.append(node)
    kept = [initializer for initializer in graph.graph.initializer if initializer.name not in done]
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return graph


def _size(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims)) if tensor.data_type == TensorProto.FLOAT else 0


def _dequantized(
    graph: onnx.ModelProto, weight: onnx.TensorProto, node: onnx.NodeProto, block: int
) -> list[onnx.NodeProto]:
    """Add a weight's 4-bit values and scales to a graph; return the nodes that restore it."""
    values = numpy_helper.to_array(weight)
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    inputs_first = node.op_type == "MatMul" or (node.op_type == "Gemm" and not transposed)
    matrix = values if inputs_first else values.reshape(len(values), -1)
    axis = matrix.ndim - 2 if inputs_first else 1
    quantized, scales = quantize_blocks(np.moveaxis(matrix, axis, -1), block)
    quantized, scales = np.moveaxis(quantized, -1, axis), np.moveaxis(scales, -1, axis)

    name, restored = weight.name, f"{weight.name}_restored"
    graph.graph.initializer.append(_packed(quantized, f"{name}_int4"))
    graph.graph.initializer.append(
        numpy_helper.from_array(np.ascontiguousarray(scales, np.float32), f"{name}_scale")
    )
    reshaped = matrix.shape != values.shape
    nodes = [
        helper.make_node(
            "DequantizeLinear",
            [f"{name}_int4", f"{name}_scale"],
            [f"{name}_matrix" if reshaped else restored],
            name=f"{name}_DequantizeLinear",
            axis=axis,
            block_size=block,
        )
    ]
    if reshaped:
        shape = numpy_helper.from_array(np.array(values.shape, np.int64), f"{name}_shape")
        graph.graph.initializer.append(shape)
        nodes.append(
            helper.make_node(
                "Reshape",
                [f"{name}_matrix", f"{name}_shape"],
                [restored],
                name=f"{name}_Reshape",
            )
        )
    return nodes


def _packed(values: NDArray[np.int8], name: str) -> onnx.TensorProto:
    """Pack two values a byte, the first in the lower half, as ONNX stores INT4."""
    flat = values.ravel()
    flat = np.append(flat, np.zeros(len(flat) % 2, np.int8)).view(np.uint8) & 0xF
    packed = flat[::2] | (flat[1::2] << 4)
    return helper.make_tensor(name, TensorProto.INT4, values.shape, packed.tobytes(), raw=True)


def quantize_blocks(
    weights: NDArray[np.float32], block: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round weights to 4 bits with one scale a block, symmetric about 0.

    Args:
        weights: Shape (..., I); blocks lie along the last axis, and the last may be shorter.
        block: Weights that share a scale.

    Returns:
        Values in [-7, 7], shape (..., I), and scales, shape (..., ceil(I / block)): of a block, the
        largest magnitude over 7, and 1 where all are 0, so that zeros stay zeros.

    >>> values, scales = quantize_blocks(np.array([[0.7, -0.32, 0, 0]], np.float32), 2)
    >>> values.tolist(), scales.round(3).tolist()
    ([[7, -3, 0, 0]], [[0.10000000149011612, 1.0]])
    """
    blocks = -(-weights.shape[-1] // block)
    spare = [(0, 0)] * (weights.ndim - 1) + [(0, blocks * block - weights.shape[-1])]
    whole = np.pad(weights, spare).reshape(*weights.shape[:-1], blocks, block)
    scales = np.abs(whole).max(axis=-1) / np.float32(7)
    scales = np.where(scales == 0, np.float32(1), scales)
    values = np.rint(whole / scales[..., None]).astype(np.int8)
    flat = values.reshape(*weights.shape[:-1], blocks * block)
    return flat[..., : weights.shape[-1]], scales
