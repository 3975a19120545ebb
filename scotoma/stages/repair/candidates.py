"""The members of an int8 variant with other ranges, or with some layers in float32."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from scotoma.config import Variant
from scotoma.inference import Network, predict_members
from scotoma.quantization.calibration import Ranges, calibrated_tensors
from scotoma.quantization.compress import static_ranges
from scotoma.quantization.int8_static import OPERATORS
from scotoma.quantization.layers import Layer, layers_of
from scotoma.quantization.mixed import MixedPrecision
from scotoma.stages.repair.float_members import FloatMembers

__all__ = ["CALIBRATORS", "RepairChoices"]

CALIBRATORS = ("minmax", "percentile", "entropy")


@dataclass
class RepairChoices:
    """All that a variant could be.

    Attributes:
        members: Those that it is made of, in float32.
        variant: Whose percentile and weight bits hold.
        network: What members are run as.
        folder: For files of members that are being tried.
        layers: Layers of the network.
    """

    members: FloatMembers
    variant: Variant
    network: Network
    folder: Path
    layers: tuple[Layer, ...] = ()
    _mixed: MixedPrecision | None = None
    _ranges: dict[tuple[str, int], Ranges] = field(default_factory=dict)
    _sizes: dict[frozenset[int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = self.members.load(0)
        self.layers = layers_of(first)
        self._mixed = MixedPrecision(first, self.layers, reduce_range=self.members.reduce_range)

    def nodes(self, float32: Collection[int]) -> list[str]:
        """Names of the nodes of some layers."""
        assert self._mixed is not None
        return self._mixed.nodes(float32)

    def member(self, index: int, calibrator: str, float32: Collection[int]) -> onnx.ModelProto:
        """Make one member.

        Args:
            index: Which.
            calibrator: One of `CALIBRATORS`.
            float32: Places of the layers that stay in float32.
        """
        assert self._mixed is not None
        own = self.members.load(index)
        key = (calibrator, index)
        if key not in self._ranges:
            by = self.variant.model_copy(update={"calibrator": calibrator})
            tensors = calibrated_tensors(own, OPERATORS)
            self._ranges[key] = static_ranges(own, by, self.members.calibration, tensors)
        return self._mixed(own, self._ranges[key], float32)

    def size(self, float32: frozenset[int]) -> int:
        """Bytes of the first member; ranges change none."""
        if float32 not in self._sizes:
            self._sizes[float32] = self.member(0, CALIBRATORS[0], float32).ByteSize()
        return self._sizes[float32]

    def write(self, folder: Path, calibrator: str, float32: Collection[int]) -> list[Path]:
        """Write all members to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"member-{index:03d}.onnx" for index in range(self.members.count)]
        for index, path in enumerate(paths):
            onnx.save_model(self.member(index, calibrator, float32), path)
        return paths

    def predict(
        self, images: NDArray[np.uint8], calibrator: str, float32: Collection[int]
    ) -> NDArray[np.int64]:
        """Class ids that all members give some images, shape (n, K)."""
        paths = self.write(self.folder, calibrator, float32)
        return predicted_by(paths, images, self.network)


def predicted_by(
    paths: list[Path], images: NDArray[np.uint8], network: Network
) -> NDArray[np.int64]:
    """Class ids that some files of members give some images, shape (n, K)."""
    predicted = np.empty((len(images), len(paths)), np.int64)
    for answers in predict_members(paths, images, network):
        predicted[answers.rows, answers.member] = answers.predicted
    return predicted
