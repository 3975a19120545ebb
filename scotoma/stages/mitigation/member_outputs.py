"""What does a trained member give each image: all its scores, or its last layer's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.inference import Network, PixelArray
from scotoma.inference.engines import OnnxEngine, TorchEngine, open_engine, runs_as_graph
from scotoma.inference.population import images_at_once
from scotoma.inference.weights import read_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto

__all__ = ["all_scores", "last_features"]

LINEAR = ("Gemm", "MatMul", "MatMulInteger", "MatMulNBits", "QLinearMatMul", "QGemm", "FusedMatMul")
ON_THE_FLY = "DynamicQuantizeLinear"
QUANTIZERS = (ON_THE_FLY, "QuantizeLinear")


def all_scores(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    """Run a member and keep all scores, shape (N, C)."""
    return _batched(open_engine(member, network).scores, images)


def last_features(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    """Run a member and keep the inputs of its last linear layer, shape (N, features).

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
    name = _last_input(graph)
    if name is None:
        raise DataError(f"{member.name} must have a linear layer for DFR, got none; take offsets")
    del graph.graph.output[:]
    graph.graph.output.append(onnx.ValueInfoProto(name=name))
    engine = OnnxEngine(graph.SerializeToString(), network)
    engine.alone = engine.alone or any(node.op_type == ON_THE_FLY for node in graph.graph.node)
    features = _batched(engine.scores, images)
    return features.reshape(len(features), -1).astype(np.float32)


def _last_input(model: ModelProto) -> str | None:
    """Name the float activations that the last linear layer of a graph reads."""
    producers = {name: node for node in model.graph.node for name in node.output}
    waiting = [model.graph.output[0].name]
    while waiting:
        node = producers.get(waiting.pop(0))
        if node is None:
            continue
        if node.op_type in LINEAR:
            name = node.input[0]
            before = producers.get(name)
            quantized = before is not None and before.op_type in QUANTIZERS
            return str(before.input[0] if before is not None and quantized else name)
        waiting += node.input
    return None


def _features_in_torch(member: Path, images: PixelArray, network: Network) -> NDArray[np.float32]:
    torch = needs("torch", "train", "mitigation")
    engine = TorchEngine(member, network)
    linear = [module for module in engine.model.modules() if isinstance(module, torch.nn.Linear)]
    if not linear:
        raise DataError(f"{member.name} must have a linear layer for DFR, got none; take offsets")
    kept: list[Any] = []
    linear[-1].register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].float().cpu()))

    def features(pixels: PixelArray) -> NDArray[np.float32]:
        engine.scores(pixels)
        return np.asarray(kept.pop().numpy())

    return _batched(features, images)


def _batched(run: Any, images: PixelArray) -> NDArray[np.float32]:
    step = images_at_once(images)
    parts = [
        run(np.ascontiguousarray(images[at : at + step])) for at in range(0, len(images), step)
    ]
    return np.concatenate(parts)
