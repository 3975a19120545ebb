"""Make members of static int8 in which some layers are computed in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from scotoma.quantization.calibration import Ranges
from scotoma.quantization.compress import put_in_order
from scotoma.quantization.int8_static import StaticPlan, plan_static, quantize_static
from scotoma.quantization.layers import Layer


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
