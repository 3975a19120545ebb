"""Export a network in torch as an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse, matches_module_pattern

from scotoma._version import __version__
from scotoma.quantization.architecture import INPUT, OPSET, OUTPUT, Architecture, Folded

# What torch.fx folds.
PATTERNS = [
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
]


def fold(model: nn.Module) -> nn.Module:
    """Fold every batch normalisation of a network into its convolution.

    A normalisation stays where it does not follow one convolution alone, or where torch.fx cannot
    trace the network.
    """
    try:
        folded: nn.Module = fuse(model.eval())
    except torch.fx.proxy.TraceError:
        return model.eval()
    return folded


def _folded(model: nn.Module) -> tuple[Folded, ...]:
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


def export_graph(model: nn.Module, images: Tensor) -> Architecture:
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


def _exported(model: nn.Module, images: Tensor, *, optimize: bool) -> ModelProto:
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
    graph: ModelProto = program.model_proto
    # Shapes of weights among those of activations: quantizers that transpose a weight stumble.
    del graph.graph.value_info[:]
    # The exporter leaves stack traces with the paths of this machine.
    for part in (graph, graph.graph, *graph.graph.node, *graph.graph.initializer):
        del part.metadata_props[:]
    return graph


IR_VERSION = 10  # of opset 21


# One layer as a node: its operator, its attributes, and the shape that a Reshape takes as an input.
_Node = tuple[str, dict[str, Any], tuple[int, ...]]


def sequential_graph(model: nn.Module, images: Tensor) -> ModelProto | None:
    """Write the graph of a network whose layers are called one after the other.

    Args:
        model: Result of `graphs.fold`.
        images: A batch of normalised images, float32, shape (B, 3, H, W).

    Returns:
        The graph of `torch.onnx.export`, but for the names of activations; None where the network
        has other layers than convolution, ReLU, even pooling, flattening and linear.
    """
    layers = _chain(model)
    if layers is None:
        return None
    nodes, held, active, tensor = [], dict(model.state_dict()), images, INPUT
    for place, (name, layer) in enumerate(layers, 1):
        with torch.inference_mode():
            output = layer(active)
        node = _node(layer, active, output)
        if node is None:
            return None
        operator, attributes, shape = node
        inputs = [tensor, *(f"{name}.{own}" for own, _ in layer.named_parameters())]
        if shape:
            held[f"{name}.shape"] = torch.tensor(shape)
            inputs.append(f"{name}.shape")
        tensor = OUTPUT if place == len(layers) else f"{name}.made"
        nodes.append(helper.make_node(operator, inputs, [tensor], name, **attributes))
        active = output
    ends = [
        helper.make_tensor_value_info(end, TensorProto.FLOAT, ["batch", *values.shape[1:]])
        for end, values in ((INPUT, images), (OUTPUT, active))
    ]
    numbers = [numpy_helper.from_array(np.asarray(held[name]), name) for name in held]
    return helper.make_model(
        helper.make_graph(nodes, "network", ends[:1], ends[1:], numbers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="scotoma",
        producer_version=__version__,
    )


def _chain(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """List the layers by name, if each takes the output of the one before it and nothing else."""
    if not isinstance(model, torch.fx.GraphModule):
        return None
    first, *calls, last = model.graph.nodes
    for before, node in zip([first, *calls], [*calls, last], strict=True):
        kind = "output" if node is last else "call_module"
        if node.op != kind or node.args != (before,) or node.kwargs:
            return None
    return [(node.target, model.get_submodule(node.target)) for node in calls]


def _node(layer: Any, active: Tensor, output: Tensor) -> _Node | None:
    """Translate a layer to a node, from its input and its output; None for any other."""
    kind = type(layer)  # a subclass may do something else
    if kind is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
        window = {"kernel_shape": layer.kernel_size, "strides": layer.stride}
        window |= {"dilations": layer.dilation, "pads": layer.padding * 2}
        return "Conv", {"auto_pad": "NOTSET", "group": layer.groups, **window}, ()
    if kind is nn.ReLU:
        return "Relu", {}, ()
    if kind is nn.AdaptiveAvgPool2d:
        height, width = active.shape[2:]
        rows, columns = output.shape[2:]
        if height % rows or width % columns:
            return None
        sides = (height // rows, width // columns)
        window = {"kernel_shape": sides, "strides": sides, "pads": (0, 0, 0, 0)}
        facts = {"auto_pad": "NOTSET", "ceil_mode": 0, "count_include_pad": 1}
        return "AveragePool", facts | window, ()
    if kind is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
        return "Reshape", {"allowzero": 1}, (-1, output.shape[1])
    if kind is nn.Linear:
        return "Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}, ()
    return None
