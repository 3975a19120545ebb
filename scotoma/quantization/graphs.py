"""From a trained network to an ONNX graph: exported once, other members' weights put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx
import torch
from onnx import shape_inference
from torch.fx.experimental.optimization import fuse, matches_module_pattern
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

__all__ = ["INPUT", "OPSET", "OUTPUT", "Export", "Folding", "export_graph", "fold", "put_weights"]

INPUT, OUTPUT = "images", "scores"
OPSET = 21  # the first whose DequantizeLinear knows blocks and 4 bits


State: TypeAlias = dict[str, torch.Tensor]


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


# What torch.fx folds, and the arithmetic of it.
FOLDED = {
    (torch.nn.Conv1d, torch.nn.BatchNorm1d): fuse_conv_bn_weights,
    (torch.nn.Conv2d, torch.nn.BatchNorm2d): fuse_conv_bn_weights,
    (torch.nn.Conv3d, torch.nn.BatchNorm3d): fuse_conv_bn_weights,
    (torch.nn.Linear, torch.nn.BatchNorm1d): fuse_linear_bn_weights,
}


@dataclass(frozen=True)
class Folding:
    """What `fold` does to weights: an architecture is traced once, for all of its members.

    Attributes:
        pairs: Layer, the normalisation that goes into it, its epsilon and the arithmetic.
    """

    pairs: tuple[tuple[str, str, float, Any], ...]

    @classmethod
    def of(cls, model: torch.nn.Module) -> Folding:
        """The pairs that `fold` finds in a network."""
        try:
            graph = torch.fx.symbolic_trace(model).graph
        except torch.fx.proxy.TraceError:
            return cls(())
        modules = dict(model.named_modules())
        return cls(
            tuple(
                (node.args[0].target, node.target, modules[node.target].eps, arithmetic)
                for pattern, arithmetic in FOLDED.items()
                for node in graph.nodes
                if matches_module_pattern(pattern, node, modules)
                and len(node.args[0].users) == 1
                and modules[node.target].track_running_stats
            )
        )

    def __call__(self, state: State) -> State:
        """Parameters and buffers of the folded member, from those of the member."""
        gone = tuple(f"{normalisation}." for _, normalisation, _, _ in self.pairs)
        folded = {name: value for name, value in state.items() if not name.startswith(gone)}
        for layer, normalisation, epsilon, arithmetic in self.pairs:
            folded[f"{layer}.weight"], folded[f"{layer}.bias"] = arithmetic(
                state[f"{layer}.weight"],
                state.get(f"{layer}.bias"),
                state[f"{normalisation}.running_mean"],
                state[f"{normalisation}.running_var"],
                epsilon,
                state.get(f"{normalisation}.weight"),
                state.get(f"{normalisation}.bias"),
            )
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


def put_weights(export: Export, state: State) -> onnx.ModelProto:
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
