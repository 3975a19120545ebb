"""Dense members of which some layers are pruned at once, as much as a pruned variant has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from scotoma.inference.weights import read_weights
from scotoma.stages.repair.candidates import RepairChoices, predicted_by

__all__ = ["PrunedLayers", "without_smallest"]


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


@dataclass
class PrunedLayers:
    """Dense members, and the files of the pruned ones.

    Attributes:
        dense: The dense members.
        paths: Files of the pruned ones, as many.
    """

    dense: RepairChoices
    paths: list[Path]
    shares: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.shares = []
        for path in self.paths:
            weights = read_weights(path)
            held = (weights[layer.weight] for layer in self.dense.layers)
            self.shares.append([float((weight == 0).mean()) for weight in held])

    def sparsities(self) -> list[float]:
        """Share of each layer's weights that are zero, mean over the members."""
        return [float(share) for share in np.mean(self.shares, axis=0)]

    def predict(self, images: NDArray[np.uint8], layers: frozenset[int]) -> NDArray[np.int64]:
        """Class ids with some layers pruned, shape (n, K)."""
        folder = self.dense.folder
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for index, shares in enumerate(self.shares):
            graph = self.dense.members.load(index)
            held = {one.name: one for one in graph.graph.initializer}
            for place in layers:
                name = self.dense.layers[place].weight
                pruned = without_smallest(numpy_helper.to_array(held[name]), shares[place])
                held[name].CopyFrom(numpy_helper.from_array(pruned, name))
            files.append(folder / f"pruned-{index:03d}.onnx")
            onnx.save_model(graph, files[-1])
        return predicted_by(files, images, self.dense.network)
