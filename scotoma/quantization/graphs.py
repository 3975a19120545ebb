"""From a trained network to an ONNX graph: exported once, other members' weights put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx
import torch
from onnx import shape_inference
from torch.fx.experimental.optimization import fuse

__all__ = ["INPUT", "OPSET", "OUTPUT", "Export", "export_graph", "fold", "put_weights"]

INPUT, OUTPUT = "images", "scores"
OPSET = 21  # the first whose DequantizeLinear knows blocks and 4 bits


@dataclass(frozen=True)
class Export:
    """One architecture as a graph.

    Attributes:
        graph: From `images` to `scores` with a free batch size; its initializers bear the names
            of the network's parameters and buffers.
        replaced: The names that other members' weights are put under.
    """

    graph: onnx.ModelProto
    replaced: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """Opset, IR version and producer, for the manifest."""
        return {
            "opset": self.graph.opset_import[0].version,
            "ir_version": self.graph.ir_version,
            "producer": f"{self.graph.producer_name} {self.graph.producer_version}".strip(),
        }


def fold(model: torch.nn.Module) -> torch.nn.Module:
    """The same function with every batch normalisation folded into its convolution.

    One that follows no convolution alone stays, and so do all of a network that torch.fx cannot
    trace.
    """
    try:
        folded: torch.nn.Module = fuse(model.eval())
    except torch.fx.proxy.TraceError:
        return model.eval()
    return folded


def export_graph(model: torch.nn.Module, images: torch.Tensor) -> Export:
    """Export an architecture once.

    Args:
        model: A folded network. Its weights are replaced by noise in the export, so that the
            exporter can neither drop nor merge weights that happen to be equal or zero.
        images: A batch of normalised images, float32, shape (B, 3, H, W).

    Returns:
        The graph, shapes inferred.

    Raises:
        RuntimeError: The exporter made no graph, or one without some of the weights.
    """
    generator = torch.Generator().manual_seed(0)
    trained = {name: value.detach().clone() for name, value in model.state_dict().items()}
    # Positive, for variances are among them.
    noise = {
        name: torch.rand(value.shape, generator=generator) + 0.5
        for name, value in trained.items()
        if value.is_floating_point()
    }
    model.load_state_dict(noise, strict=False)
    try:
        # Where the exporter's optimizer computes with weights (it transposes those of attention),
        # they lose their names: such a network is exported as it stands.
        for optimize in (True, False):
            graph = _exported(model, images, optimize=optimize)
            held = {initializer.name for initializer in graph.graph.initializer}
            missing = sorted(set(noise) - held)
            if not missing:
                break
    finally:
        model.load_state_dict(trained)
    if missing:
        raise RuntimeError(f"the exported graph lost the weights {', '.join(missing)}")
    return Export(shape_inference.infer_shapes(graph), tuple(noise))


def _exported(model: torch.nn.Module, images: torch.Tensor, *, optimize: bool) -> onnx.ModelProto:
    program = torch.onnx.export(
        model,
        (images,),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        input_names=[INPUT],
        output_names=[OUTPUT],
        opset_version=OPSET,
        optimize=optimize,
        verbose=False,
    )
    if program is None:
        raise RuntimeError("torch exported no ONNX program")
    graph: onnx.ModelProto = program.model_proto
    # Shapes of weights among those of activations: quantizers that transpose a weight stumble.
    del graph.graph.value_info[:]
    # The exporter leaves stack traces with the paths of this machine.
    for part in (graph, graph.graph, *graph.graph.node, *graph.graph.initializer):
        del part.metadata_props[:]
    return graph


def put_weights(export: Export, state: dict[str, torch.Tensor]) -> onnx.ModelProto:
    """A copy of an exported graph with a member's folded weights.

    Args:
        export: The architecture's.
        state: Parameters and buffers of the folded member.
    """
    member = onnx.ModelProto()
    member.CopyFrom(export.graph)
    names = set(export.replaced)
    for initializer in member.graph.initializer:
        if initializer.name in names:
            values = state[initializer.name].detach().numpy()
            initializer.CopyFrom(onnx.numpy_helper.from_array(values, initializer.name))
    return member
