"""What does a trained member give each image: all its scores, or its last layer's inputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.inference import Network, PixelArray
from scotoma.inference.engines import OnnxEngine, TorchEngine, open_engine, runs_as_graph
from scotoma.inference.population import images_at_once
from scotoma.inference.weights import read_weights
from scotoma.numbers.inputs import Array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

__all__ = ["all_scores", "last_features"]

CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv", "FusedConv")
LINEAR = ("Gemm", "MatMul", "MatMulInteger", "MatMulNBits", "QLinearMatMul", "QGemm", "FusedMatMul")
ON_THE_FLY = "DynamicQuantizeLinear"
QUANTIZERS = (ON_THE_FLY, "QuantizeLinear")


def all_scores(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    """Run a member and keep all scores, shape (N, C)."""
    return _batched(open_engine(member, network).scores, images)


def last_features(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    """Run a member and keep the inputs of its last linear layer, shape (N, features).

    A convolution of 1x1 pixels is a linear layer of every pixel; its inputs are averaged over the
    picture, as its scores are.

    Raises:
        DataError: It has no linear layer.
    """
    if member.suffix != ".onnx" and not runs_as_graph(network):
        return _features_in_torch(member, images, network)
    onnx = needs("onnx", "train", "mitigation")
    if member.suffix == ".onnx":
        graph = onnx.load(member)
    else:
        from scotoma.quantization.architecture import Architecture

        assert network.graph is not None
        graph = Architecture.read(network.graph).with_weights(read_weights(member))
    from scotoma.inference.external import score_output

    last = _last_linear(graph, score_output(graph, network, member.name))
    if last is None:
        raise _no_linear_layer(member)
    name, convolution = last
    del graph.graph.output[:]
    graph.graph.output.append(onnx.ValueInfoProto(name=name))
    engine = OnnxEngine(graph.SerializeToString(), network)
    engine.alone = engine.alone or any(node.op_type == ON_THE_FLY for node in graph.graph.node)
    return _of_picture(_batched(engine.run, images), convolution=convolution)


def _last_linear(model: ModelProto, output: str) -> tuple[str, bool] | None:
    """Name the float activations that the last linear layer reads, and say if it is a convolution.

    One of 1x1 pixels; no linear layer is looked for before one of more pixels.
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    shapes = {one.name: tuple(one.dims) for one in model.graph.initializer}
    waiting = [output]
    while waiting:
        node = producers.get(waiting.pop(0))
        if node is None:
            continue
        convolution = node.op_type in CONVOLUTIONS
        if node.op_type in LINEAR or (convolution and _kernel(node, producers, shapes) == 1):
            name = node.input[0]
            before = producers.get(name)
            quantized = before is not None and before.op_type in QUANTIZERS
            return str(before.input[0] if before is not None and quantized else name), convolution
        if convolution:
            return None
        waiting += node.input
    return None


def _kernel(
    node: NodeProto, producers: Mapping[str, NodeProto], shapes: Mapping[str, tuple[int, ...]]
) -> int:
    """Pixels that one output of a convolution reads."""
    for attribute in node.attribute:
        if attribute.name == "kernel_shape":
            return math.prod(attribute.ints)
    weight = node.input[3 if node.op_type == "QLinearConv" else 1]
    source = producers.get(weight)  # what turns int8 into float
    return math.prod(shapes.get(source.input[0] if source else weight, (0, 0, 0))[2:])


def _features_in_torch(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    torch = needs("torch", "train", "mitigation")
    engine = TorchEngine(member, network)
    layers = [
        module
        for module in engine.model.modules()
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d)
    ]
    last = layers[-1] if layers else None
    convolution = isinstance(last, torch.nn.Conv2d)
    if last is None or (convolution and math.prod(last.kernel_size) > 1):
        raise _no_linear_layer(member)
    kept: list[Any] = []
    last.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].float().cpu()))

    def features(pixels: PixelArray) -> NDArray[np.float32]:
        engine.scores(pixels)
        return np.asarray(kept.pop().numpy())

    return _of_picture(_batched(features, images), convolution=convolution)


def _of_picture(features: Array, *, convolution: bool) -> NDArray[np.float32]:
    """One row of features a picture; those of a convolution are averaged over its pixels."""
    if convolution:
        features = features.mean(axis=tuple(range(2, features.ndim)))
    return features.reshape(len(features), -1).astype(np.float32)


def _no_linear_layer(member: Path) -> DataError:
    return DataError(
        f"{member.name} must end in a linear layer or a convolution of 1x1 pixels for DFR, got "
        "neither; take offsets"
    )


def _batched(run: Any, images: PixelArray) -> NDArray[np.float32]:
    step = images_at_once(images)
    parts = [run(np.array(images[at : at + step])) for at in range(0, len(images), step)]
    return np.concatenate(parts)
