"""Which layers does a network in float32 have, and which are kept in it, or left there, and why?"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from scotoma.config import Variant
from scotoma.quantization.calibration import Ranges, processor_session
from scotoma.quantization.compress import put_in_order
from scotoma.quantization.int8_static import OPERATORS, StaticPlan, plan_static, quantize_static

# Operator: the number of the input with its weights, and what readers call the layer.
WEIGHTED = {
    "Conv": (1, "conv"),
    "ConvTranspose": (1, "conv"),
    "Gemm": (1, "linear"),
    "MatMul": (1, "linear"),
}


@dataclass(frozen=True)
class Layer:
    """A node with weights, and the nodes without that follow it.

    Attributes:
        name: That of its weight, without `.weight`; with what it is where that is a number.
        weight: The initializer that holds its weights.
        nodes: Names of the nodes that int8-static would quantize.
    """

    name: str
    weight: str
    nodes: tuple[str, ...]


def layers_of(graph: ModelProto) -> tuple[Layer, ...]:
    """List the layers of a network, in the order of its graph.

    What stands before the first weights belongs to the first layer. Two nodes that share a weight
    are one layer.

    Args:
        graph: The network in float32; every node that can be quantized bears a name.

    Returns:
        The layers; none where no node has weights of its own.
    """
    held = {initializer.name for initializer in graph.graph.initializer}
    nodes: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    current = ""
    waiting: list[str] = []
    for node in graph.graph.node:
        place, kind = WEIGHTED.get(node.op_type, (0, ""))
        weight = node.input[place] if kind and len(node.input) > place else ""
        if weight in held:
            current = weight
            kinds.setdefault(weight, kind)
            nodes.setdefault(weight, []).extend(waiting)
            waiting = []
        if node.op_type in OPERATORS:
            (nodes[current] if current else waiting).append(node.name)
    return tuple(
        Layer(_shown(weight, kinds[weight]), weight, tuple(names))
        for weight, names in nodes.items()
    )


def products_of(graph: ModelProto) -> int:
    """Count the multiplications of one image's pass: each weight as often as it is applied.

    Args:
        graph: The network in float32, shapes inferred; a side that no shape says counts as 1.
    """
    held = {one.name: math.prod(one.dims) for one in graph.graph.initializer}
    values = [*graph.graph.value_info, *graph.graph.input, *graph.graph.output]
    sides = {one.name: [side.dim_value or 1 for side in one.type.tensor_type.shape.dim]
             for one in values}  # fmt: skip
    total = 0
    for node in graph.graph.node:
        place, _ = WEIGHTED.get(node.op_type, (0, ""))
        if place and len(node.input) > place and node.input[place] in held:
            shape = sides.get(node.input[0] if node.op_type == "ConvTranspose" else node.output[0])
            places = (shape or [])[2:] if "Conv" in node.op_type else (shape or [])[1:-1]
            total += held[node.input[place]] * math.prod(places)
    return total


def _shown(weight: str, kind: str) -> str:
    """What readers call a layer.

    >>> _shown("features.0.weight", "conv"), _shown("8.weight", "linear")
    ('features.0', 'linear 8')
    """
    name = weight.removesuffix(".weight")
    return f"{kind} {name}" if name.isdigit() else name


class MixedPrecision:
    """Static int8 of one architecture, but for some layers.

    ONNX Runtime's quantizer makes each combination of layers once, for all members.
    """

    def __init__(
        self, architecture: ModelProto, layers: Sequence[Layer], *, reduce_range: bool
    ) -> None:
        """Prepare nothing yet.

        Args:
            architecture: The network in float32, shapes inferred, with any weights.
            layers: Its layers, in the order that places in `float32` mean.
            reduce_range: Weights in 7 bits.
        """
        self.architecture, self.layers = architecture, tuple(layers)
        self.reduce_range = reduce_range
        self._plans: dict[frozenset[int], StaticPlan | None] = {}

    def nodes(self, float32: Collection[int]) -> list[str]:
        """Names of the nodes of some layers: ONNX Runtime's `nodes_to_exclude`."""
        return [name for place in sorted(float32) for name in self.layers[place].nodes]

    def __call__(self, member: ModelProto, ranges: Ranges, float32: Collection[int]) -> ModelProto:
        """Quantize one member.

        Args:
            member: In float32, of this architecture; it is not changed.
            ranges: Of all `calibrated_tensors`.
            float32: Places of the layers that are computed in float32.

        Returns:
            The graph, in the order of `put_in_order`.
        """
        key = frozenset(float32)
        nodes = self.nodes(key)
        if key not in self._plans:
            self._plans[key] = plan_static(
                self.architecture, reduce_range=self.reduce_range, in_float32=nodes
            )
        plan = self._plans[key]
        if plan is not None:
            made = plan.fill(member, ranges)
        else:
            made = quantize_static(
                copy.deepcopy(member), ranges, reduce_range=self.reduce_range, in_float32=nodes
            )
        shield(made, nodes)
        put_in_order(made)
        return made


REQUANTIZED = ("Conv", "ConvTranspose", "Gemm")


def shield(model: ModelProto, nodes: Collection[str]) -> None:
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


def _clip(model: ModelProto, before: onnx.NodeProto, held: dict[str, onnx.TensorProto]) -> str:
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
        processor_session(str(path), "ENABLE_EXTENDED", written=target)
        return onnx.load(target)


def _reason(operator: str, variant: Variant) -> str:
    if variant.kind == "float16":
        return "the processor has no float16 kernel; the weights are rounded to float16"
    if operator.endswith("Normalization"):
        return "its scales differ too much between channels for 8 bits"
    if variant.mode.startswith("dynamic"):
        return "only products are quantized on the fly"
    return f"ONNX Runtime has no int8 kernel for {operator}"
