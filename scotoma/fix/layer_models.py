"""Dense members of which some layers are pruned at once, as much as a pruned variant has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from scotoma.config import Variant
from scotoma.config.limits import GIB, ReaderLimits
from scotoma.errors import DataError
from scotoma.fix.candidates import (
    EXTERNAL_IMAGES,
    FloatMembers,
    RepairChoices,
    as_taken,
    float_members,
    predicted_by,
    prepared,
)
from scotoma.fix.refusals import int8_mode
from scotoma.inference import Network
from scotoma.inference.engines import read_weights
from scotoma.inference.members import held_members
from scotoma.processes import IsolatedProcess
from scotoma.processes.untrusted import read_apart
from scotoma.quantization.layers import layers_of, products_of
from scotoma.run import Run
from scotoma.storage.files import bytes_on_disk


def zero_shares(weights: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[float]:
    """Share of the values of some weights that are zero, a fraction each.

    >>> zero_shares({"a": np.array([0, 1]), "b": np.ones(3)}, ["b", "a"])
    [0.0, 0.5]
    """
    return [float((weights[name] == 0).mean()) for name in names]


NONE = np.zeros((0, 3, 1, 1), np.uint8)
INT8 = (
    "Members in float32, with one layer after the other in {mode} int8, beside the same members "
    "whole in float32."
)
PRUNED = (
    "Dense members with one layer after the other pruned by magnitude to the sparsity that it has "
    "in this variant, and not trained again, beside the same members whole."
)


@dataclass
class Compared:
    """Models of one variant, with some of their layers compressed.

    Attributes:
        run: With its members.
        variant: Their variant.
        network: What they are run as.
        folder: For files of models that are being tried.
        names: Names of the layers.
        products: Multiplications that a model takes for an image.
        images: What they are run on, uint8, shape (n, 3, H, W).
        shares: Of zeros in each layer, by model; nothing for int8.
    """

    run: Run
    variant: Variant
    network: Network
    folder: Path
    names: list[str]
    products: int
    images: NDArray[np.uint8] = field(default_factory=lambda: NONE, init=False)
    shares: list[list[float]] = field(default_factory=list, init=False)

    @property
    def sparsities(self) -> list[float] | None:
        """Share of each layer's weights that pruning set to zero; None for int8."""
        if not any(self.shares):
            return None
        return [float(share) for share in np.mean(self.shares, axis=0)]


@dataclass
class TrainedLayers(Compared):
    """Those that the audit trained.

    Attributes:
        choices: The members in float32, and how int8 is made of them.
    """

    choices: RepairChoices

    @property
    def compared(self) -> str:
        """What is compared with what, as a sentence."""
        mode = self.variant.mode.partition("-")[0]
        return PRUNED if self.variant.kind == "prune" else INT8.format(mode=mode)

    @property
    def members(self) -> int:
        """How many members may be run."""
        return self.choices.members.count

    def show(self, images: NDArray[np.uint8], members: int) -> None:
        """Set the images, uint8, shape (n, 3, H, W), and how many members are run on them."""
        self.images = images
        self.choices.members = replace(self.choices.members, count=members)
        if self.variant.kind != "prune":
            return
        paths = held_members(self.run, self.variant.name, members)
        weights = [layer.weight for layer in self.choices.layers]
        self.choices.shares = self.shares = [
            zero_shares(read_weights(path), weights) for path in paths
        ]

    def write(self, layers: frozenset[int], folder: Path) -> list[Path]:
        """Write the members with some layers compressed."""
        paths = [folder / f"member-{index:03d}.onnx" for index in range(self.members)]
        for index, path in enumerate(paths):
            onnx.save_model(self.choices.with_layers(index, layers), path)
        return paths

    def predict(self, paths: list[Path]) -> NDArray[np.int64]:
        """Class ids that some files give, a row a label, shape (n * L, files)."""
        return predicted_by(paths, self.images, self.network)


def trained_layers(run: Run, variant: Variant, network: Network, folder: Path) -> TrainedLayers:
    """Open the members of a variant that the audit trained.

    Args:
        run: With its members.
        variant: int8, or pruned.
        network: What members are run as.
        folder: For files of members that are being tried.

    Raises:
        DataError: Members or their graph are gone.
    """
    pruned = variant.kind == "prune"
    base = variant.model_copy(update={"derived_from": "dense"}) if pruned else variant
    members = float_members(run, base, network, NONE)  # training images calibrate
    choices = RepairChoices(members, variant, network, folder)
    names, products = [layer.name for layer in choices.layers], products_of(members.load(0))
    return TrainedLayers(run, variant, network, folder, names, products, choices)


MOST_BYTES = 16 * 10**9  # of models with some layers compressed, written one after the other
COPIES = 12  # of a model in memory while it is quantized
PATIENCE = 6  # times as many seconds as reading it may take
PRUNED_SHARE = 0.02  # of the weights that are zero, beyond those of the dense model
WAYS = {
    "static": "in static int8, quantized again with the ranges of {images} test images,",
    "dynamic-per-layer": "in dynamic int8, quantized again with one scale a layer,",
    "prune": "pruned by magnitude to the sparsity that it has in this variant",
}


@dataclass(frozen=True)
class _Models:
    """What the other process compresses.

    Attributes:
        variant: That of the models; where they are int8, in their mode.
        network: What models are run as.
        folder: Holds dense models as `prepared` leaves them, and images that calibrate.
        shares: Of zeros in each layer, by model.
    """

    variant: Variant
    network: Network
    folder: Path
    shares: tuple[tuple[float, ...], ...]


@dataclass
class ExternalLayers(Compared):
    """Those that others made.

    Attributes:
        way: How they were compressed, by their own graphs: one of `WAYS`.
        process: Runs them.
    """

    way: str
    process: IsolatedProcess

    @property
    def compared(self) -> str:
        """What is compared with what, as a sentence."""
        way = WAYS[self.way].format(images=min(len(self.images), EXTERNAL_IMAGES))
        return f"Dense models with one layer after the other {way} beside the same models whole."

    @property
    def members(self) -> int:
        """How many models may be run.

        Raises:
            DataError: One alone has too many bytes.
        """
        size = bytes_on_disk(self.run.member(self.variant.derived_from, 0))
        each = (2 * len(self.names) + 1) * size
        if each > MOST_BYTES:
            most = MOST_BYTES / (2 * len(self.names) + 1) / 1e6
            raise DataError(
                f"dense models must have at most {most:.0f} MB for {len(self.names)} layers, got "
                f"{size / 1e6:.0f} MB; take scotoma fix RUN --by layers --variant "
                f"{self.variant.name}"
            )
        return min(self.run.config.models_of(self.variant.name), MOST_BYTES // each)

    def show(self, images: NDArray[np.uint8], members: int) -> None:
        """Set the images, uint8, shape (n, 3, H, W), and how many models are run on them."""
        self.images = images
        np.save(self.folder / "images.npy", images[:EXTERNAL_IMAGES])
        self.shares = []
        for index in range(members):
            paths = _pair(self.run, self.variant, index)
            target = self.folder / f"dense-{index:03d}.onnx"
            self.shares.append(self._apart(_prepared, paths[0], (*paths, target, self.names)))

    def write(self, layers: frozenset[int], folder: Path) -> list[Path]:
        """Write the models with some layers compressed."""
        models = _Models(
            self.variant,
            replace(self.network, limits=None),
            self.folder,
            tuple(map(tuple, self.shares)),
        )
        paths = [folder / f"model-{index:03d}.onnx" for index in range(len(self.shares))]
        for index, path in enumerate(paths):
            dense, _ = _pair(self.run, self.variant, index)
            self._apart(_compressed, dense, (models, index, sorted(layers), path))
        return paths

    def predict(self, paths: list[Path]) -> NDArray[np.int64]:
        """Class ids that some files give, a row a label, shape (n * L, files)."""
        try:
            return predicted_by(paths, self.images, self.network, self.process)
        except RuntimeError as error:
            raise _refused(f"run {self.variant.name} with one layer compressed", error) from error

    def _apart(self, function: Callable[..., Any], path: Path, arguments: tuple[Any, ...]) -> Any:
        return _apart(function, path, arguments, self.run.config.limits)


def external_layers(
    run: Run, variant: Variant, network: Network, folder: Path, process: IsolatedProcess
) -> ExternalLayers:
    """Open the models of an external variant, and tell by their graphs how they were compressed.

    Args:
        run: With its members.
        variant: Of external models.
        network: What they are run as.
        folder: For files of models that are being tried; made here.
        process: Runs them, from `runtime_on_demand`.

    Raises:
        DataError: They are not paired with dense ones, or compressed in another way; reading them
            takes more memory or time than a model may.
    """
    if not variant.derived_from:
        raise DataError(
            f"models of {variant.name} must be paired with dense ones, got none; name both alike "
            "and add paired: true"
        )
    folder.mkdir(parents=True, exist_ok=True)
    dense, compressed = _pair(run, variant, 0)
    target = folder / "dense-000.onnx"
    way, names, products = _apart(
        _opened, compressed, (dense, compressed, target), run.config.limits
    )
    if not names:
        raise DataError(
            f"dense models of {variant.name} must hold weights as initializers, got none; export "
            "them again"
        )
    if not way:
        raise DataError(
            f"models of {variant.name} must be int8 or pruned, got neither a quantized node nor "
            "weights set to zero"
        )
    own = variant if way == "prune" else variant.model_copy(update={"mode": way})
    return ExternalLayers(run, own, network, folder, names, products, way, process)


def _pair(run: Run, variant: Variant, index: int) -> tuple[Path, Path]:
    """The dense model and the compressed one."""
    dense, compressed = (
        held_members(run, name, index + 1)[index] for name in (variant.derived_from, variant.name)
    )
    return dense, compressed


def _apart(
    function: Callable[..., Any], path: Path, arguments: tuple[Any, ...], limits: ReaderLimits
) -> Any:
    """Call a function in another process, within what a file of that size may take."""
    called = f"{path.parent.name}/{path.name}"
    more_gib = COPIES * bytes_on_disk(path) / GIB
    limits = limits.model_copy(
        update={
            "reader_memory_gib": limits.reader_memory_gib + more_gib,
            "reader_seconds": PATIENCE * limits.reader_seconds,
        }
    )
    try:
        return read_apart(function, *arguments, path=path, called=called, limits=limits)
    except RuntimeError as error:
        raise _refused(f"compress the layers of {called}", error) from error


def _refused(task: str, error: RuntimeError) -> DataError:
    reason = str(error).strip().splitlines()[-1][:200]
    return DataError(f"ONNX Runtime must {task}, and refuses it ({reason}); export it again")


# In the other process: results are what JSON can hold.


def _opened(dense: Path, compressed: Path, target: Path) -> tuple[str, list[str], int]:
    """How a model was compressed, empty if in no known way; its layers; `products_of` it."""
    graph = prepared(dense)
    onnx.save_model(graph, target)
    names, products = [layer.name for layer in layers_of(graph)], products_of(graph)
    if mode := int8_mode(compressed):
        return mode, names, products
    own, pruned = _shares(graph), _shares(prepared(compressed))
    more = max((b - a for a, b in zip(own, pruned, strict=False)), default=0.0)
    way = "prune" if len(own) == len(pruned) and more > PRUNED_SHARE else ""
    return way, names, products


def _prepared(dense: Path, compressed: Path, target: Path, names: list[str]) -> list[float]:
    """Prepare a dense model, and return the shares of zeros in the layers of the compressed one."""
    graph = prepared(dense)
    onnx.save_model(graph, target)
    if [layer.name for layer in layers_of(graph)] != names:
        raise DataError(f"dense models must have the same layers, got others in {dense.name}")
    return [] if int8_mode(compressed) else _shares(prepared(compressed))


def _shares(graph: onnx.ModelProto) -> list[float]:
    held = {one.name: numpy_helper.to_array(one) for one in graph.graph.initializer}
    return zero_shares(held, [layer.weight for layer in layers_of(graph)])


def _compressed(models: _Models, index: int, layers: list[int], path: Path) -> None:
    """Write one model with some layers compressed."""
    onnx.save_model(_choices(models).with_layers(index, layers), path)


@lru_cache(maxsize=1)
def _choices(models: _Models) -> RepairChoices:
    images = np.load(models.folder / "images.npy")
    files = [models.folder / f"dense-{index:03d}.onnx" for index in range(len(models.shares))]
    ready = as_taken(files[0], models.network)(images)
    members = FloatMembers(
        len(files), lambda index: onnx.load(files[index]), ready, reduce_range=False
    )
    choices = RepairChoices(members, models.variant, models.network, models.folder)
    if any(models.shares):
        choices.shares = models.shares
    return choices
