"""Layers of members that the audit trained: in int8, or pruned, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from scotoma.config import Variant
from scotoma.inference import Network
from scotoma.inference.weights import read_weights
from scotoma.quantization.layers import products_of
from scotoma.run import Run
from scotoma.steps.layers.pruned import PrunedLayers, zero_shares
from scotoma.steps.members.files import refuse_absent
from scotoma.steps.repair.candidates import RepairChoices, predicted_by
from scotoma.steps.repair.float_members import float_members

__all__ = ["TrainedLayers", "trained_layers"]

INT8 = (
    "Members in float32, with one layer after the other in {mode} int8, beside the same members "
    "whole in float32."
)
PRUNED = (
    "Dense members with one layer after the other pruned by magnitude to the sparsity that it has "
    "in this variant, and not trained again, beside the same members whole."
)


@dataclass
class TrainedLayers:
    """Members of one variant, with some of their layers compressed.

    Attributes:
        choices: The members in float32, and how int8 is made of them.
        pruned: How they are pruned; None for int8.
        images: What they are run on, uint8, shape (n, 3, H, W).
    """

    run: Run
    choices: RepairChoices
    pruned: PrunedLayers | None = None
    images: NDArray[np.uint8] | None = None

    @property
    def compared(self) -> str:
        """What is compared with what, as a sentence."""
        mode = self.choices.variant.mode.partition("-")[0]
        return PRUNED if self.choices.variant.kind == "prune" else INT8.format(mode=mode)

    @property
    def names(self) -> list[str]:
        """Names of the layers."""
        return [layer.name for layer in self.choices.layers]

    @property
    def members(self) -> int:
        """How many members may be run."""
        return self.choices.members.count

    @property
    def products(self) -> int:
        """Multiplications that a member takes for an image."""
        return products_of(self.choices.members.load(0))

    @property
    def sparsities(self) -> list[float] | None:
        """Share of each layer's weights that pruning set to zero; None for int8."""
        return self.pruned.sparsities() if self.pruned else None

    def show(self, images: NDArray[np.uint8], members: int) -> None:
        """Set the images, uint8, shape (n, 3, H, W), and how many members are run on them."""
        self.images = images
        self.choices.members = replace(self.choices.members, count=members)
        variant = self.choices.variant
        if variant.kind != "prune":
            return
        paths = [self.run.member(variant.name, index) for index in range(members)]
        self.run.fetch(*paths)
        refuse_absent(paths, variant.name)
        weights = [layer.weight for layer in self.choices.layers]
        shares = [zero_shares(read_weights(path), weights) for path in paths]
        self.pruned = PrunedLayers(self.choices, shares)

    def write(self, layers: frozenset[int], folder: Path) -> list[Path]:
        """Write the members with some layers compressed."""
        float32 = frozenset(range(len(self.choices.layers))) - layers
        paths = [folder / f"member-{index:03d}.onnx" for index in range(self.members)]
        for index, path in enumerate(paths):
            if self.pruned:
                self.pruned.write(index, layers, path)
            else:
                onnx.save_model(self.choices.member(index, self.choices.audited, float32), path)
        return paths

    def predict(self, paths: list[Path]) -> NDArray[np.int64]:
        """Class ids that some files give, a row a label, shape (n * L, files)."""
        assert self.images is not None
        return predicted_by(paths, self.images, self.choices.network)


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
    none = np.zeros((0, 3, 1, 1), np.uint8)  # of no use: training images calibrate
    members = float_members(run, base, network, none)
    return TrainedLayers(run, RepairChoices(members, variant, network, folder))
