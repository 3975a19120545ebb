"""Keep ONNX Runtime from quantizing layers that were left in float32.

When it opens a model, its optimizer `WeightBiasQuantization` (since 1.21) quantizes the weights of
any Conv, ConvTranspose or Gemm between DequantizeLinear and QuantizeLinear, with one scale a layer:
what a quantizer had excluded is then worse than before. A Clip at the ends of the range, which
changes no number, stands between the DequantizeLinear and such a layer.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["shield"]

REQUANTIZED = ("Conv", "ConvTranspose", "Gemm")


def shield(model: onnx.ModelProto, nodes: Collection[str]) -> None:
    """Put a Clip before nodes that are to stay in float32, in place.

    Args:
        model: A QDQ graph, with its scales and zero points.
        nodes: Names of nodes.
    """
    held = {one.name: one for one in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    clipped: dict[str, str] = {}
    for node in list(model.graph.node):
        if node.name not in nodes or node.op_type not in REQUANTIZED:
            continue
        tensor = node.input[0]
        before = makers.get(tensor)
        if before is None or before.op_type != "DequantizeLinear":
            continue
        if tensor not in clipped:
            clipped[tensor] = _clip(model, before, held)
        node.input[0] = clipped[tensor]


def _clip(model: onnx.ModelProto, before: onnx.NodeProto, held: dict[str, onnx.TensorProto]) -> str:
    """Add the Clip after one DequantizeLinear; returns what it gives."""
    scale, zero = (numpy_helper.to_array(held[name]) for name in before.input[1:3])
    limits = np.iinfo(zero.dtype)
    name = f"{before.output[0]}_clipped"
    ends = []
    for end, limit in (("lowest", limits.min), ("highest", limits.max)):
        value = np.float32((int(limit) - int(zero)) * np.float32(scale))
        ends.append(f"{name}_{end}")
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), ends[-1]))
    model.graph.node.append(helper.make_node("Clip", [before.output[0], *ends], [name], name))
    return name
