"""Hold a network as one ONNX graph that takes the weights of any of its members; without torch."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto

NamedWeights: TypeAlias = Mapping[str, NDArray[Any]]
INPUT, OUTPUT = "images", "scores"
OPSET = 21  # another one changes the bytes of every member
FOLDED = "scotoma.folded"  # key of the pairs in the graph's metadata


class Folded(NamedTuple):
    """A convolution or linear layer and the batch normalisation that goes into it."""

    layer: str
    normalisation: str
    epsilon: float


@dataclass(frozen=True)
class Architecture:
    """One network as a graph.

    Attributes:
        graph: From `images` to `scores` with a free batch size; its initializers bear the names of
            the folded network's parameters and buffers.
        folded: The normalisations that are folded into other layers.
    """

    graph: ModelProto
    folded: tuple[Folded, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Opset, IR version and producer, for the manifest."""
        return {
            "opset": self.graph.opset_import[0].version,
            "ir_version": self.graph.ir_version,
            "producer": f"{self.graph.producer_name} {self.graph.producer_version}".strip(),
        }

    def with_weights(self, weights: NamedWeights) -> ModelProto:
        """Copy the graph and put in the weights of a member.

        Args:
            weights: Parameters and buffers of the member as it was trained, not folded.
        """
        member, own = copy.deepcopy(self.graph), self.fold(weights)
        for initializer in member.graph.initializer:
            values = own.get(initializer.name)
            if values is not None and np.issubdtype(values.dtype, np.floating):
                initializer.CopyFrom(onnx.numpy_helper.from_array(values, initializer.name))
        return member

    def fold(self, weights: NamedWeights) -> dict[str, NDArray[Any]]:
        """Fold the parameters and buffers of a member.

        w' = w g / sqrt(v + e) and b' = (b - m) g / sqrt(v + e) + c, where the normalisation has
        mean m, variance v, scale g and shift c.

        >>> one, two = np.float32([1]), np.float32([2])
        >>> weights = {"0.weight": np.float32([[3, 4]]), "1.weight": two, "1.bias": one}
        >>> weights |= {"1.running_mean": one, "1.running_var": one}
        >>> folded = Architecture(ModelProto(), (Folded("0", "1", 0.0),)).fold(weights)
        >>> {name: value.tolist() for name, value in folded.items()}
        {'0.weight': [[6.0, 8.0]], '0.bias': [-1.0]}
        """
        gone = tuple(f"{pair.normalisation}." for pair in self.folded)
        kept = {name: value for name, value in weights.items() if not name.startswith(gone)}
        for layer, normalisation, epsilon in self.folded:
            mean = weights[f"{normalisation}.running_mean"]
            scale = weights.get(f"{normalisation}.weight", np.ones_like(mean))
            shift = weights.get(f"{normalisation}.bias", np.zeros_like(mean))
            weight = weights[f"{layer}.weight"]
            bias = weights.get(f"{layer}.bias", np.zeros_like(mean))
            # In the order in which torch rounds.
            inverse = 1 / np.sqrt(weights[f"{normalisation}.running_var"] + np.float32(epsilon))
            factor = (scale * inverse).reshape(-1, *[1] * (weight.ndim - 1))
            kept[f"{layer}.weight"] = weight * factor
            kept[f"{layer}.bias"] = (bias - mean) * inverse * scale + shift
        return kept

    def write(self, path: Path) -> None:
        """Write the graph, with the folded pairs in its metadata."""
        written = copy.deepcopy(self.graph)
        written.metadata_props.add(key=FOLDED, value=json.dumps(self.folded))
        onnx.save_model(written, path)

    @classmethod
    def read(cls, path: Path) -> Architecture:
        """Read the file of `write`."""
        graph = onnx.load_model(path, load_external_data=False)
        (pairs,) = (entry.value for entry in graph.metadata_props if entry.key == FOLDED)
        del graph.metadata_props[:]
        return cls(graph, tuple(Folded(*pair) for pair in json.loads(pairs)))
