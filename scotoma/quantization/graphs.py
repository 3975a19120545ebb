"""Export a network in torch as an ONNX graph."""

from __future__ import annotations

import onnx
import torch
from onnx import shape_inference
from torch.fx.experimental.optimization import fuse, matches_module_pattern

from scotoma.quantization.architecture import INPUT, OPSET, OUTPUT, Architecture, Folded
from scotoma.quantization.sequential_graph import sequential_graph

# What torch.fx folds.
PATTERNS = [
    (torch.nn.Conv1d, torch.nn.BatchNorm1d),
    (torch.nn.Conv2d, torch.nn.BatchNorm2d),
    (torch.nn.Conv3d, torch.nn.BatchNorm3d),
    (torch.nn.Linear, torch.nn.BatchNorm1d),
]


def fold(model: torch.nn.Module) -> torch.nn.Module:
    """Fold every batch normalisation of a network into its convolution.

    A normalisation stays where it does not follow one convolution alone, or where torch.fx cannot
    trace the network.
    """
    try:
        folded: torch.nn.Module = fuse(model.eval())
    except torch.fx.proxy.TraceError:
        return model.eval()
    return folded


def _folded(model: torch.nn.Module) -> tuple[Folded, ...]:
    """List the pairs that `fold` makes one layer of."""
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except torch.fx.proxy.TraceError:
        return ()
    modules = dict(model.named_modules())
    return tuple(
        Folded(node.args[0].target, node.target, modules[node.target].eps)
        for pattern in PATTERNS
        for node in graph.nodes
        if matches_module_pattern(pattern, node, modules)
        and len(node.args[0].users) == 1
        and modules[node.target].track_running_stats
    )


def export_graph(model: torch.nn.Module, images: torch.Tensor) -> Architecture:
    """Export an architecture once.

    Args:
        model: A network. In the export its weights are noise, so that the exporter can neither drop
            nor merge weights that happen to be equal or zero.
        images: A batch of normalised images, float32, shape (B, 3, H, W).

    Returns:
        The graph, shapes inferred.

    Raises:
        RuntimeError: The exporter made no graph, or one without some of the weights.
    """
    pairs, model = _folded(model.eval()), fold(model)
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
        if plain := sequential_graph(model, images):
            return Architecture(shape_inference.infer_shapes(plain), pairs)
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
    return Architecture(shape_inference.infer_shapes(graph), pairs)


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
