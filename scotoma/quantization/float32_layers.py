"""Which layers of a compressed graph are still computed in float32, and why?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import ModelProto

from scotoma.config import Variant

# First letters of the operators by which ONNX Runtime computes with few bits.
SMALL = ("QLinear", "ConvInteger", "MatMulInteger", "DynamicQuantize", "QGemm", "MatMulNBits")
# Move or reshape numbers, of whatever type.
MOVING = {
    "Cast", "CastLike", "Concat", "Constant", "DequantizeLinear", "Expand", "Flatten", "Gather",
    "Identity", "MaxPool", "QuantizeLinear", "Reshape", "Shape", "Slice", "Split", "Squeeze",
    "Transpose", "Unsqueeze",
}  # fmt: skip


def float32_layers(graph: ModelProto, path: Path, variant: Variant) -> list[dict[str, Any]]:
    """List the layers that ONNX Runtime computes in float32 when it runs a compressed member.

    They are read from the graph that it has optimised for this processor, not from the file: a
    layer between DequantizeLinear and QuantizeLinear may or may not have a kernel of 8 bits.

    Args:
        graph: The member in float32, whose layers are listed.
        path: The file that `compress` wrote.
        variant: The variant of that file.

    Returns:
        For the manifest: each type of `operator`, the names of its `layers`, and the `reason`, in
        the order of the graph; what only moves numbers is not listed.
    """
    known = {node.name for node in graph.graph.node}
    layers_of: dict[str, list[str]] = {}
    for node in _optimised(path).graph.node:
        moves = node.op_type in MOVING or node.op_type.startswith(SMALL)
        if node.name in known and not moves:
            layers_of.setdefault(node.op_type.removeprefix("Fused"), []).append(node.name)
    return [
        {"operator": operator, "layers": layers, "reason": _reason(operator, variant)}
        for operator, layers in layers_of.items()
    ]


def _optimised(path: Path) -> ModelProto:
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        target = Path(folder, "optimised.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(target)
        options.add_session_config_entry("session.x64quantprecision", "1")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return onnx.load(target)


def _reason(operator: str, variant: Variant) -> str:
    if variant.kind == "float16":
        return "the processor has no float16 kernel; the weights are rounded to float16"
    if operator.endswith("Normalization"):
        return "its scales differ too much between channels for 8 bits"
    if variant.mode.startswith("dynamic"):
        return "only products are quantized on the fly"
    return f"ONNX Runtime has no int8 kernel for {operator}"
