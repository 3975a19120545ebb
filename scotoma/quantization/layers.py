"""Which layers does a network in float32 have: what holds weights, and what follows it?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnx import ModelProto

from scotoma.quantization.int8_static import OPERATORS

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
