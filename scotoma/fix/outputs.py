"""What does a technique decide on: what members, run again, give each image, or kept scores?"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.inference import Network, PixelArray
from scotoma.inference.engines import (
    OnnxEngine,
    TorchEngine,
    open_engine,
    read_weights,
    runs_as_graph,
)
from scotoma.inference.members import held_members, network_of
from scotoma.inference.population import images_at_once
from scotoma.numbers.inputs import Array
from scotoma.predictions import Predictions, read_scores
from scotoma.processes import progress
from scotoma.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

    from scotoma.inference.engines import Network


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


@contextmanager
def decoded_images(examples: AuditedExamples) -> Iterator[tuple[Path, PixelArray]]:
    """Decode the images of some examples into a file in a folder that goes at the end.

    Args:
        examples: With their images.

    Yields:
        The file, and what it holds: uint8, shape (N, 3, H, W).
    """
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        file = Path(folder, "images.npy")
        decode_images_to(file, examples)
        yield file, np.load(file, mmap_mode="r")


SURE = 5e-4  # of float16 near 1: no kept score is surer than this


def member_outputs(run: Run, variant: str, *, features: bool) -> NDArray[np.float32]:
    """Collect what a technique decides on, float32, shape (K, N, width).

    Args:
        run: Its test examples, in their order.
        variant: Whose members.
        features: The last layer's inputs instead of scores.

    Raises:
        DataError: The run keeps neither members nor scores, or has several labels and features are
            asked for.
    """
    if features and run.config.label.columns:
        raise DataError(
            "dfr fits one layer to one label, and this audit has several; take thresholds, offsets "
            "or ensemble"
        )
    if features and run.config.source.has_models:
        return np.stack(list(_external_features(run, variant)))
    if not run.config.source.trains:
        if features:
            raise DataError(
                "dfr needs the last layer's inputs, and this audit has predictions and no model; "
                "take thresholds, offsets or ensemble, or audit the models as ONNX files"
            )
        every = run.config.keeps_every_score
        return _decided(run, _every_score(run, variant)) if every else _kept_scores(run, variant)
    return _decided(run, np.stack(list(outputs_by_member(run, variant, features=features))))


def _external_features(run: Run, variant: str) -> Iterator[NDArray[np.float32]]:
    """Inputs of the last linear layer of each external model, in a process that may be lost."""
    from scotoma.inference.model_process import call_limited, runtime_process

    examples = AuditedExamples.read(run.examples, split="test")
    members = held_members(run, variant)
    network = network_of(run.config, len(examples.classes))
    progress.start("run members", len(members))
    with decoded_images(examples) as (file, images), runtime_process() as process:
        kept, batch = file.with_name("features.npy"), images_at_once(images)
        for member in members:
            call_limited(
                process, _write_features, member, file, network, kept,
                path=member, network=network, images=batch, batches=-(-len(images) // batch),
            )  # fmt: skip
            yield np.load(kept)
            progress.advance("run members")


def _write_features(member: Path, images: Path, network: Network, kept: Path) -> None:
    """Leave a model's features in a file."""
    np.save(kept, last_features(member, np.load(images, mmap_mode="r"), network))


def _every_score(run: Run, variant: str) -> NDArray[np.float32]:
    """All scores of models that are not run again, as the audit kept them."""
    ids = AuditedExamples.read(run.examples, images=False, split="test").image_ids
    paths = [run.scores(variant, index) for index in range(run.config.models_of(variant))]
    run.fetch(*paths, *(path.with_suffix(".json") for path in paths))
    outputs = []
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{variant} must have its scores, got no {path.name}; repeat the audit, which "
                "makes them again"
            )
        kept, scores = read_scores(path)
        if kept != ids:
            raise DataError(
                f"scores of {variant} must be of the audit's test examples, got others in "
                f"{path.name}; repeat the audit"
            )
        outputs.append(scores)
    return np.stack(outputs)


def _kept_scores(run: Run, variant: str) -> NDArray[np.float32]:
    """Logits (0, s) of two classes, from the probability kept of the predicted one."""
    path = run.predictions(variant)
    run.fetch(path)
    predictions = Predictions.read(path)
    if predictions.scores is None:
        raise DataError(
            "a rule needs scores, and this audit kept none; audit again with keep_scores: true "
            "and a column score in source.files"
        )
    if len(predictions.classes) != 2:
        raise DataError(
            f"a rule needs all {len(predictions.classes)} scores of an example, and this audit "
            "kept that of the predicted class; two classes will do, or an audit with "
            "keep_scores: full"
        )
    p = np.clip(predictions.scores.astype(np.float64), 0.5, 1 - SURE)
    sign = np.where(predictions.predicted == 1, 1, -1)
    margin = sign * np.maximum(np.log(p / (1 - p)), 1e-6)  # a tie stays with the predicted class
    return np.stack([np.zeros_like(margin), margin], axis=-1).swapaxes(0, 1).astype(np.float32)


def _decided(run: Run, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn scores of several labels into those of absent and present, a row a pair."""
    if not run.config.label.columns:
        return outputs
    cut = np.array(list(run.config.label.several.values()))
    margin = (outputs - np.log(cut / (1 - cut))).reshape(len(outputs), -1)  # 0 at the threshold
    return np.stack([np.zeros_like(margin), margin], axis=-1).astype(np.float32)


def outputs_by_member(
    run: Run, variant: str, *, features: bool, split: str = "test"
) -> Iterator[NDArray[np.float32]]:
    """Run the members of a variant again, one after the other.

    Args:
        run: With its members.
        variant: Whose members.
        features: The last layer's inputs instead of scores.
        split: `test` or `train`.

    Yields:
        Outputs of each member, float32, shape (N, width), N the number of images.

    Raises:
        DataError: A member is gone.
    """
    examples = AuditedExamples.read(run.examples, split=split)
    members = held_members(run, variant)
    graph = run.path("shards", "000", "graph.onnx")
    run.fetch(graph)
    network = network_of(run.config, len(examples.several) or len(examples.classes))
    network = replace(network, graph=graph if graph.is_file() else None)
    progress.start("run members", len(members))
    with decoded_images(examples.pictured) as (_, images):
        for member in members:
            yield (last_features if features else all_scores)(member, images, network)
            progress.advance("run members")
