"""The members that an int8 variant was made of, in float32, and what calibrates them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from scotoma.config import Variant
from scotoma.errors import DataError
from scotoma.inference import OURS, Network, Preprocessing
from scotoma.inference.external import image_input
from scotoma.inference.weights import read_weights
from scotoma.numbers.inputs import Array
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.calibration import silence_quantizers
from scotoma.run import Run
from scotoma.steps.members.calibration_images import calibration_images
from scotoma.steps.members.files import held_members

__all__ = ["FloatMembers", "as_taken", "float_members", "prepared"]

EXTERNAL_IMAGES = 100  # of the half that chooses, which calibrate external models
STREAM = 3_000_017  # of the seed: which of these


@dataclass(frozen=True)
class FloatMembers:
    """Members in float32.

    Attributes:
        count: How many.
        load: Reads one of them as a graph, shapes inferred.
        calibration: Images as they take them, shape (B, ...); none for dynamic int8.
        reduce_range: Weights in 7 bits.
    """

    count: int
    load: Callable[[int], onnx.ModelProto]
    calibration: Array
    reduce_range: bool


def float_members(
    run: Run, variant: Variant, network: Network, choosing: NDArray[np.uint8]
) -> FloatMembers:
    """Open the members that a variant was made of.

    Args:
        run: With its members.
        variant: int8 that the audit made, or external int8 paired with dense.
        network: What they are run as.
        choosing: Images of the half that chooses, uint8, shape (n, 3, H, W): some of them calibrate
            external models, whose training images an audit does not have.

    Raises:
        DataError: A member is gone.
    """
    count = run.config.models_of(variant.name)
    base = held_members(run, variant.derived_from, count)
    if run.config.source.has_models:
        random = np.random.Generator(np.random.Philox(key=[run.config.population.seed, STREAM]))
        some = random.permutation(len(choosing))[:EXTERNAL_IMAGES]
        ready = as_taken(base[0], network)(np.ascontiguousarray(choosing[some]))
        return FloatMembers(count, lambda index: prepared(base[index]), ready, False)
    file = run.path("shards", "000", "graph.onnx")
    run.fetch(file)
    if not file.is_file():
        raise DataError(
            f"{variant.name} must have its network as a graph, got no {file.name}; add int8 or "
            "float16 to the variants and repeat the audit, which exports it"
        )
    architecture = Architecture.read(file)
    ready = np.zeros((0, 3, 1, 1), np.float32)
    if not variant.mode.startswith("dynamic"):
        ready = OURS(calibration_images(run, variant.images, protocol=variant.protocol))
    return FloatMembers(
        count,
        lambda index: architecture.with_weights(read_weights(base[index])),
        ready,
        variant.reduce_range,
    )


def as_taken(path: Path, network: Network) -> Preprocessing:
    """The preprocessing of images that an external model of a file takes."""
    images = image_input(onnx.load(path, load_external_data=False))
    return network.preprocessing if images is None else network.preprocessing.fitted(*images)


def prepared(path: Path) -> onnx.ModelProto:
    """Read an external model as ONNX Runtime wants it before quantization.

    Constants and normalisations are folded, shapes are inferred, and every node has a name.
    """
    from onnxruntime.quantization import quant_pre_process

    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder, silence_quantizers():
        target = Path(folder, "prepared.onnx")
        quant_pre_process(str(path), str(target), skip_symbolic_shape=True)
        model = onnx.load(target)
    taken = {node.name for node in model.graph.node}
    for number, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{number}"
            while node.name in taken:
                node.name += "_"
            taken.add(node.name)
    return model
