"""Dense members of which some layers are pruned at once, as much as a pruned variant has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from scotoma.steps.repair.candidates import RepairChoices

__all__ = ["PrunedLayers", "without_smallest", "zero_shares"]


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


def zero_shares(weights: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[float]:
    """Share of the values of some weights that are zero, a fraction each.

    >>> zero_shares({"a": np.array([0, 1]), "b": np.ones(3)}, ["b", "a"])
    [0.0, 0.5]
    """
    return [float((weights[name] == 0).mean()) for name in names]


@dataclass
class PrunedLayers:
    """Dense members, and how much of each layer is pruned.

    Attributes:
        dense: The dense members.
        shares: Of each layer's weights, by member.
    """

    dense: RepairChoices
    shares: list[list[float]]
    _pruned: dict[tuple[int, str], NDArray[np.float32]] = field(default_factory=dict)

    def sparsities(self) -> list[float]:
        """Share of each layer's weights that are zero, mean over the members."""
        return [float(share) for share in np.mean(self.shares, axis=0)]

    def write(self, index: int, layers: Collection[int], path: Path) -> None:
        """Write a member with some layers pruned."""
        graph = self.dense.members.load(index)
        held = {one.name: one for one in graph.graph.initializer}
        for place in layers:
            name = self.dense.layers[place].weight
            if (index, name) not in self._pruned:  # sorting takes longer than all else
                weight = numpy_helper.to_array(held[name])
                self._pruned[index, name] = without_smallest(weight, self.shares[index][place])
            held[name].CopyFrom(numpy_helper.from_array(self._pruned[index, name], name))
        onnx.save_model(graph, path)
