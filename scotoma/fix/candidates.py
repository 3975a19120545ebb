"""The members of an int8 variant with other ranges or scales, or with some layers in float32."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from scotoma.config import Variant
from scotoma.datasets.label_pairs import label_rows
from scotoma.errors import DataError
from scotoma.inference import OURS, Network, Preprocessing, predict_members
from scotoma.inference.engines import read_weights
from scotoma.inference.external import image_input
from scotoma.inference.members import held_members
from scotoma.numbers.inputs import Array, Ints
from scotoma.processes import IsolatedProcess
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.calibration import (
    Ranges,
    calibrated_tensors,
    calibration_images,
    silence_quantizers,
)
from scotoma.quantization.compress import put_in_order, static_ranges
from scotoma.quantization.int8_dynamic import product_nodes, to_int8_dynamic
from scotoma.quantization.int8_static import OPERATORS
from scotoma.quantization.layers import Layer, MixedPrecision, layers_of
from scotoma.run import Run

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


def without_smallest(weight: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    """Set the smallest magnitudes of a weight to zero.

    Args:
        weight: Any shape.
        share: Of its values, a fraction.

    >>> without_smallest(np.float32([[3.0, -1.0], [0.5, 2.0]]), 0.5).tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    pruned = weight.copy()
    count = round(share * weight.size)
    pruned.reshape(-1)[np.argsort(np.abs(weight), axis=None, kind="stable")[:count]] = 0
    return pruned


AUDITED = "as audited"  # ranges or scales of external models
CALIBRATORS = ("minmax", "percentile", "entropy")
SCALES = ("per-channel", "per-layer")  # of the weights of dynamic int8, which has no ranges


@dataclass
class RepairChoices:
    """All that a variant could be.

    Attributes:
        members: Those that it is made of, in float32.
        variant: Whose mode, percentile and weight bits hold.
        network: What members are run as.
        folder: For files of members that are being tried.
        process: Runs external models, as `predict_members` has it.
        layers: Layers of the network.
        shares: How much of each layer `with_layers` prunes, by member; nothing for int8.
    """

    members: FloatMembers
    variant: Variant
    network: Network
    folder: Path
    process: IsolatedProcess | None = None
    layers: tuple[Layer, ...] = ()
    shares: Sequence[Sequence[float]] = ()
    _mixed: MixedPrecision | None = None
    _ranges: dict[tuple[str, int], Ranges] = field(default_factory=dict)
    _sizes: dict[frozenset[int], int] = field(default_factory=dict)
    _pruned: dict[tuple[int, str], NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = self.members.load(0)
        self.layers = layers_of(first)
        self._mixed = MixedPrecision(first, self.layers, reduce_range=self.members.reduce_range)

    @property
    def ranges(self) -> tuple[str, ...]:
        """What may be tried without any layer in float32: of equal ones, the first is taken."""
        return SCALES if self.variant.mode.startswith("dynamic") else CALIBRATORS

    @property
    def audited(self) -> str:
        """What the audit made the variant with: one of `ranges`, or `AUDITED`."""
        if self.variant.kind == "onnx":
            return AUDITED
        by_mode = {"dynamic": SCALES[0], "dynamic-per-layer": SCALES[1]}
        return by_mode.get(self.variant.mode, self.variant.calibrator)

    def nodes(self, float32: Collection[int]) -> tuple[str, ...]:
        """Names of the nodes of some layers, as the quantizer of the variant excludes them."""
        assert self._mixed is not None
        names = self._mixed.nodes(float32)
        return product_nodes(names) if self.ranges is SCALES else tuple(names)

    def member(self, index: int, ranges: str, float32: Collection[int]) -> onnx.ModelProto:
        """Make one member.

        Args:
            index: Which.
            ranges: One of `ranges`.
            float32: Places of the layers that stay in float32.
        """
        assert self._mixed is not None
        own = self.members.load(index)
        if ranges in SCALES:
            return self._dynamic(own, ranges, self.nodes(float32))
        key = (ranges, index)
        if key not in self._ranges:
            by = self.variant.model_copy(update={"calibrator": ranges})
            tensors = calibrated_tensors(own, OPERATORS)
            self._ranges[key] = static_ranges(own, by, self.members.calibration, tensors)
        return self._mixed(own, self._ranges[key], float32)

    def with_layers(self, index: int, layers: Collection[int]) -> onnx.ModelProto:
        """Make one member of which some layers alone are compressed: pruned, or int8.

        Args:
            index: Which.
            layers: Places of the layers.
        """
        if not self.shares:
            first = self.ranges[1] if self.ranges is SCALES else self.ranges[0]
            by = first if self.audited == AUDITED else self.audited
            return self.member(index, by, set(range(len(self.layers))) - set(layers))
        graph = self.members.load(index)
        held = {one.name: one for one in graph.graph.initializer}
        for place in layers:
            name = self.layers[place].weight
            if (index, name) not in self._pruned:  # sorting takes longer than all else
                weight = numpy_helper.to_array(held[name])
                self._pruned[index, name] = without_smallest(weight, self.shares[index][place])
            held[name].CopyFrom(numpy_helper.from_array(self._pruned[index, name], name))
        return graph

    def _dynamic(
        self, member: onnx.ModelProto, scales: str, nodes: tuple[str, ...]
    ) -> onnx.ModelProto:
        """Quantize one member, activations as they come; some nodes stay in float32."""
        self.folder.mkdir(parents=True, exist_ok=True)
        copy = onnx.ModelProto()
        copy.CopyFrom(member)
        quantized = to_int8_dynamic(
            copy, self.folder / "dynamic.onnx", per_channel=scales == SCALES[0],
            reduce_range=self.members.reduce_range, in_float32=nodes,
        )  # fmt: skip
        put_in_order(quantized)
        return quantized

    def size(self, float32: frozenset[int]) -> int:
        """Bytes of the first member with the first of `ranges`, which has no fewer than others."""
        if float32 not in self._sizes:
            self._sizes[float32] = self.member(0, self.ranges[0], float32).ByteSize()
        return self._sizes[float32]

    def write(self, folder: Path, ranges: str, float32: Collection[int]) -> list[Path]:
        """Write all members to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"member-{index:03d}.onnx" for index in range(self.members.count)]
        for index, path in enumerate(paths):
            onnx.save_model(self.member(index, ranges, float32), path)
        return paths

    def predict(self, images: NDArray[np.uint8], ranges: str, float32: Collection[int]) -> Ints:
        """Class ids that all members give some images, a row a label, shape (n * L, K)."""
        paths = self.write(self.folder, ranges, float32)
        return predicted_by(paths, images, self.network, self.process)


def predicted_by(
    paths: list[Path],
    images: NDArray[np.uint8],
    network: Network,
    process: IsolatedProcess | None = None,
) -> Ints:
    """Class ids that some files of members give some images, a row a label, shape (n * L, K)."""
    labels = len(network.thresholds) or 1
    predicted = np.empty((len(images), len(paths), labels), np.int64)
    for answers in predict_members(paths, images, network, process=process):
        predicted[answers.rows, answers.member] = answers.best
    return label_rows(predicted)
