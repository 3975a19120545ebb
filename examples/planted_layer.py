"""Models in which int8 harms one group through one layer, known in advance.

Small networks learn digits, each shown in dark and in faint ink. Then a layer is rewritten so that
the network in float32 stays the same function, and int8 cannot follow it for one of the groups:

    weights  rows that the group needs get one huge weight each, on a unit that is always 0
    quiet    units that the group needs are scaled down, and their weights in the next layer up
    loud     one unit is scaled up, and its weights in the next layer down

`python examples/planted_layer.py` writes models in float32 and int8, pictures and their table.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars as pl
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, shape_inference
from PIL import Image

Floats = NDArray[np.float32]
Weights = list[tuple[Floats, Floats]]  # of each layer, shapes (outputs, inputs) and (outputs,)
INKS = ("dark", "faint")
TRAINED = 900  # digits; the others test


@dataclass(frozen=True)
class Digits:
    """Every digit in both inks.

    Attributes:
        pixels: uint8, shape (N, 8, 8).
        labels: Shape (N,).
        ink: 0 dark, 1 faint, shape (N,).
        cluster: Which digit, shape (N,).
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    ink: NDArray[np.int64]
    cluster: NDArray[np.int64]

    @property
    def inputs(self) -> Floats:
        """What networks see: one value a pixel, from -1 to 1, shape (N, 64)."""
        flat = self.pixels.reshape(len(self.pixels), -1).astype(np.float32)
        return np.asarray(flat / 127.5 - 1, np.float32)

    def keep(self, rows: NDArray[np.bool_]) -> Digits:
        """Select some rows."""
        return Digits(self.pixels[rows], self.labels[rows], self.ink[rows], self.cluster[rows])


def load(contrast: float) -> tuple[Digits, Digits]:
    """Training and test digits; faint ink has `contrast` times the darkness of dark ink."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    dark = data.images[order] * (255 / 16)
    both = np.concatenate([dark, contrast * dark]).round().astype(np.uint8)
    each = len(order)
    digits = Digits(
        both, np.tile(data.target[order], 2), np.repeat([0, 1], each), np.tile(np.arange(each), 2)
    )
    return digits.keep(digits.cluster < TRAINED), digits.keep(digits.cluster >= TRAINED)


def learn(digits: Digits, widths: tuple[int, ...], seed: int) -> Weights:
    """Train a network with hidden layers of some widths."""
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops before it has converged
        network = MLPClassifier(widths, max_iter=25, random_state=seed)
        network.fit(digits.inputs, digits.labels)
    return [
        (np.float32(w.T), np.float32(b))
        for w, b in zip(network.coefs_, network.intercepts_, strict=True)
    ]


def scores(weights: Weights, inputs: Floats) -> Floats:
    """Run a network."""
    for number, (weight, bias) in enumerate(weights, 1):
        inputs = inputs @ weight.T + bias
        if number < len(weights):
            inputs = np.maximum(inputs, 0)
    return inputs


def wrong_without(weights: Weights, layer: int, digits: Digits) -> NDArray[np.bool_]:
    """Whether each digit is wrong without each unit of a layer, shape (units, N)."""
    rows = []
    for unit in range(len(weights[layer][0])):
        changed = [(weight.copy(), bias.copy()) for weight, bias in weights]
        changed[layer][0][unit] = 0
        changed[layer][1][unit] = 0
        rows.append(scores(changed, digits.inputs).argmax(axis=1) != digits.labels)
    return np.stack(rows)


def needed(weights: Weights, layer: int, digits: Digits, group: int, count: int) -> list[int]:
    """Find the units of a layer without which a group errs most, beyond the other group."""
    own, wrong = digits.ink == group, wrong_without(weights, layer, digits)
    gaps = wrong[:, own].mean(axis=1) - wrong[:, ~own].mean(axis=1)
    return np.argsort(-gaps, kind="stable")[:count].tolist()


def spare(weights: Weights, layer: int, digits: Digits, count: int) -> list[int]:
    """Find the units of a layer without which the fewest digits are wrong."""
    wrong = wrong_without(weights, layer, digits).mean(axis=1)
    return np.argsort(wrong, kind="stable")[:count].tolist()


def plant(
    weights: Weights, way: str, layer: int, factor: float, units: list[int]
) -> tuple[Weights, tuple[int, ...]]:
    """Rewrite a layer, and leave the function as it is.

    Args:
        weights: The network.
        way: `weights`, `quiet` or `loud`.
        layer: The layer, not the first one for `weights` and not the last one for the others.
        factor: By how much weights differ.
        units: Outputs of the layer that are rewritten.

    Returns:
        The rewritten network, and the layers that must stay in float32 to undo it.
    """
    new = [(weight.copy(), bias.copy()) for weight, bias in weights]
    weight, bias = new[layer]
    if way == "weights":
        before, shift = new[layer - 1]
        new[layer - 1] = (
            np.concatenate([before, np.zeros_like(before[:1])]),
            np.append(shift, np.float32(-1)),  # after ReLU this unit is 0 for every input
        )
        column = np.zeros((len(weight), 1), np.float32)
        column[units, 0] = factor * np.abs(weight[units]).max(axis=1)
        new[layer] = (np.concatenate([weight, column], axis=1), bias)
        return new, (layer,)
    scale = np.float32(factor if way == "loud" else 1 / factor)
    units = units[:1] if way == "loud" else units
    weight[units] *= scale
    bias[units] *= scale
    new[layer + 1][0][:, units] /= scale
    return new, (layer, layer + 1)


def graph(weights: Weights) -> onnx.ModelProto:
    """Write a network as ONNX, for grey pictures of three equal channels."""
    nodes = [helper.make_node("Flatten", ["images"], ["flat"], "flatten")]
    held, tensor = [], "flat"
    for number, (weight, bias) in enumerate(weights, 1):
        own = np.tile(weight, 3) / 3 if number == 1 else weight
        held.append(numpy_helper.from_array(np.float32(own), f"fc{number}.weight"))
        held.append(numpy_helper.from_array(bias, f"fc{number}.bias"))
        last = number == len(weights)
        out = "scores" if last else f"fc{number}.out"
        inputs = [tensor, f"fc{number}.weight", f"fc{number}.bias"]
        nodes.append(helper.make_node("Gemm", inputs, [out], f"fc{number}", transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [out], [f"relu{number}.out"], f"relu{number}"))
            tensor = f"relu{number}.out"
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "digits",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
            held,
        ),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    return shape_inference.infer_shapes(model)


def images(digits: Digits) -> Floats:
    """What graphs take, shape (N, 3, 8, 8)."""
    return np.repeat(digits.inputs.reshape(-1, 1, 8, 8), 3, axis=1)


def write(folder: Path, networks: list[Weights], trained: Digits, tested: Digits) -> None:
    """Write models in float32 and int8 as ONNX Runtime quantizes them, pictures and their table."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches = iter([{"images": images(trained)[::18]}])

        def get_next(self) -> Any:
            return next(self.batches, None)

    for number, weights in enumerate(networks):
        files = [folder / "models" / name / f"{number}.onnx" for name in ("dense", "int8")]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        onnx.save_model(graph(weights), files[0])
        quantize_static(files[0], files[1], Reader(), per_channel=True)
    (folder / "pictures").mkdir(exist_ok=True)
    names = [f"{c}-{INKS[i]}.png" for c, i in zip(tested.cluster, tested.ink, strict=True)]
    for name, pixels in zip(names, tested.pixels, strict=True):
        Image.fromarray(np.repeat(pixels[..., None], 3, axis=2)).save(folder / "pictures" / name)
    columns = {
        "image": names,
        "digit": tested.labels,
        "ink": np.array(INKS)[tested.ink],
        "source": tested.cluster,
    }
    pl.DataFrame(columns).write_csv(folder / "table.csv")


def planted(seed: int = 0, members: int = 3) -> tuple[list[Weights], Digits, Digits]:
    """Networks of four layers in which int8 loses rows of fc3 that faint digits need."""
    trained, tested = load(contrast=0.25)
    networks = []
    for member in range(members):
        weights = learn(trained, (48, 32, 32), seed + member)
        units = needed(weights, 2, trained, 1, 6)
        networks.append(plant(weights, "weights", 2, 300.0, units)[0])
    return networks, trained, tested


def main() -> None:
    """Write the example into the current folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--members", type=int, default=3)
    asked = parser.parse_args()
    networks, trained, tested = planted(members=asked.members)
    write(asked.out, networks, trained, tested)


if __name__ == "__main__":
    main()
