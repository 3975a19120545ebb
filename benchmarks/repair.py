"""How much harm is left if layers are chosen by harm, and how much if by tensor error?

Cases are drawn by a seed: a network for digits in dark and faint ink, and a layer in which int8
harms one of the inks (examples/planted_layer.py); none, one or two other layers are decoys, in
which int8 loses rows that few digits need. Layers are chosen by harm on one half of the test
digits, within the bytes that the case allows; tensor errors may spend as many as that choice. The
harm that is left is measured on the other half. Tensor errors are those of ONNX Runtime's
`qdq_loss_debug`, on the training images that calibrate: the signal-to-noise ratio of each layer's
weights and of the tensors that it reads and writes, lowest first. `local` compares a tensor before
and after its quantization, `across` with that of the network in float32.

    python benchmarks/repair.py
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, qdq_loss_debug

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import planted_layer as planting

from scotoma.config.variants import Variant
from scotoma.fix.candidates import FloatMembers, RepairChoices
from scotoma.fix.repair import WORTH, Harm
from scotoma.inference import OURS, Network
from scotoma.quantization.choose_layers import choose_layers

VARIANT = Variant(name="int8", kind="int8", mode="static", bits=8, derived_from="dense")
WIDTHS = (24, 32, 48, 64)
PLANTED = 0.02  # rise of the ink's error on the training digits, at least
NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Case:
    """One drawn case.

    Attributes:
        words: What was drawn.
        networks: Two members.
        layers: Those that are planted.
        room: The allowed bytes, in those of the planted layers.
        trained: Digits that trained and calibrate.
        tested: The others.
    """

    words: str
    networks: list[planting.Weights]
    layers: tuple[int, ...]
    room: float
    trained: planting.Digits
    tested: planting.Digits


def draw(random: np.random.Generator) -> Case:
    """Draw a case; whether int8 does harm in it is not yet known."""
    contrast = float(random.uniform(0.15, 0.5))
    trained, tested = planting.load(contrast)
    widths = tuple(int(w) for w in random.choice(WIDTHS, random.integers(4, 8)))
    way = str(random.choice(["weights", "quiet", "loud"]))
    layer = int(random.integers(1, len(widths)))
    factor = float(np.exp(random.uniform(np.log(20), np.log(500))))
    group, count = int(random.integers(2)), int(random.integers(3, 9))
    others = [
        place for place in range(1, len(widths)) if place not in (layer - 1, layer, layer + 1)
    ]
    decoys = random.permutation(others)[: random.integers(0, 3)].tolist()
    seed = int(random.integers(2**31))
    networks, layers = [], ()
    for member in range(2):
        weights = planting.learn(trained, widths, (seed + member) % 2**31)
        units = planting.needed(weights, layer, trained, group, count)
        changed, layers = planting.plant(weights, way, layer, factor, units)
        for place in decoys:
            idle = planting.spare(changed, place, trained, count)
            changed, _ = planting.plant(changed, "weights", place, factor, idle)
        networks.append(changed)
    words = f"{way} x{factor:.0f}, {planting.INKS[group]}, fc{layer + 1} of {len(widths) + 1}"
    words += f", {len(decoys)} decoys" if len(decoys) != 1 else ", 1 decoy"
    return Case(words, networks, layers, float(random.uniform(1, 1.6)), trained, tested)


class Measured:
    """A case, with int8 of ranges by smallest and largest value."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.graphs = [planting.graph(weights) for weights in case.networks]
        self.calibration = planting.images(case.trained)[::18]
        members = FloatMembers(2, self.graphs.__getitem__, self.calibration, reduce_range=False)
        network = Network("", 10, OURS)
        self.candidates = RepairChoices(members, VARIANT, network, folder / "tried")
        start = self.candidates.size(NONE)
        each = range(len(self.candidates.layers))
        self.sizes = [self.candidates.size(frozenset({place})) - start for place in each]
        self.most = case.room * sum(self.sizes[place] for place in case.layers)

    def wrong(self, digits: planting.Digits, kept: frozenset[int]) -> NDArray[np.bool_]:
        """Whether members are wrong, shape (N, 2)."""
        pixels = np.repeat(digits.pixels[:, None], 3, axis=1)
        predicted = self.candidates.predict(pixels, "minmax", kept)
        return np.asarray(predicted != digits.labels[:, None])

    def float32(self, digits: planting.Digits) -> NDArray[np.bool_]:
        """The same of the networks in float32."""
        every = [planting.scores(w, digits.inputs).argmax(axis=1) for w in self.case.networks]
        return np.asarray(np.stack(every, axis=1) != digits.labels[:, None])

    def rise(self, digits: planting.Digits, kept: frozenset[int]) -> float:
        """The largest rise of an ink's error, a fraction."""
        change = self.wrong(digits, kept).mean(axis=1) - self.float32(digits).mean(axis=1)
        return max(float(change[digits.ink == ink].mean()) for ink in (0, 1))

    def by_harm(self, half: planting.Digits) -> frozenset[int]:
        """What `scotoma fix --by layers` chooses on half of the digits."""
        masks = np.stack([half.ink == ink for ink in (0, 1)])
        own = self.wrong(half, NONE)
        harm = Harm.of(planting.INKS, masks, self.float32(half), own, half.cluster)
        choice = choose_layers(
            lambda kept: harm(self.wrong(half, kept)), self.sizes, self.most, worth=WORTH
        )
        return frozenset(choice.layers)

    def by_tensors(self, error: str, most: int) -> frozenset[int]:
        """The layers of the lowest signal-to-noise ratios that fit into some bytes."""
        ratios = np.mean([self._ratios(member, error) for member in range(2)], axis=0)
        kept: list[int] = []
        for place in np.argsort(ratios, kind="stable").tolist():
            if sum(self.sizes[one] for one in kept) + self.sizes[place] <= most:
                kept.append(place)
        return frozenset(kept)

    def _ratios(self, member: int, error: str) -> list[float]:
        """The lowest ratio of each layer, decibel."""
        files = [self.folder / f"{name}.onnx" for name in ("float32", "int8")]
        onnx.save_model(self.graphs[member], files[0])
        onnx.save_model(self.candidates.member(member, "minmax", NONE), files[1])
        weights = qdq_loss_debug.compute_weight_error(
            qdq_loss_debug.create_weight_matching(*map(str, files))
        )
        activations = []
        for file in files:
            more = file.with_suffix(".more.onnx")
            qdq_loss_debug.modify_model_output_intermediate_tensors(file, more)
            reader = Batches(self.calibration)
            activations.append(qdq_loss_debug.collect_activations(str(more), reader))
        tensors = qdq_loss_debug.compute_activation_error(
            qdq_loss_debug.create_activation_matching(activations[1], activations[0])
        )
        nodes = {node.name: node for node in self.graphs[member].graph.node}
        found = []
        for layer in self.candidates.layers:
            touched = {
                name for node in layer.nodes for name in (*nodes[node].input, *nodes[node].output)
            }
            own = [ratio for name, ratio in weights.items() if name == layer.weight]
            own += [ratios[error] for name, ratios in tensors.items() if name in touched]
            found.append(min(own))
        return found


class Batches(CalibrationDataReader):  # type: ignore[misc]
    """All images in one batch."""

    def __init__(self, images: NDArray[np.float32]) -> None:
        self.batches = iter([{"images": images}])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """Give the batch once."""
        return next(self.batches, None)


def measure(random: np.random.Generator, folder: Path) -> tuple[str, float, list[float], int]:
    """Draw until int8 harms an ink; what is left of it, by each way to choose.

    Returns:
        What was drawn, the harm before, what is left, and how many draws did no harm.
    """
    harmless = 0
    while True:
        drawn = Measured(draw(random), folder)
        if drawn.rise(drawn.case.trained, NONE) >= PLANTED:
            break
        harmless += 1
    choosing = drawn.case.tested.cluster % 2 == 0
    half, other = drawn.case.tested.keep(choosing), drawn.case.tested.keep(~choosing)
    first = drawn.by_harm(half)
    size = sum(drawn.sizes[place] for place in first)
    chosen = [first, *(drawn.by_tensors(error, size) for error in ("qdq_err", "xmodel_err"))]
    left = [drawn.rise(other, kept) for kept in chosen]
    names = [",".join(f"fc{place + 1}" for place in sorted(kept)) or "-" for kept in chosen]
    words = f"{drawn.case.words:46s} {names[0]:12s} {names[1]:12s} {names[2]:12s}"
    return words, drawn.rise(other, NONE), left, harmless


def main() -> None:
    """Print every case and how often each way leaves less."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    left, skipped = [], 0
    print(f"{'planted':46s} {'by harm':12s} {'local':12s} {'across':12s} before   left, points")
    for _ in range(asked.cases):
        with tempfile.TemporaryDirectory() as folder:
            words, before, own, harmless = measure(random, Path(folder))
        left.append(own)
        skipped += harmless
        shown = "  ".join(f"{100 * one:+5.1f}" for one in own)
        print(f"{words} {100 * before:+5.1f}   {shown}", flush=True)
    ours, *others = np.array(left).T
    print(f"{skipped} draws without harm on the training digits were drawn again")
    for name, theirs in zip(("local", "across"), others, strict=True):
        gap = ours - theirs
        print(
            f"against {name}: less harm left in {(gap < 0).sum()}, the same in {(gap == 0).sum()}, "
            f"more in {(gap > 0).sum()} of {len(gap)}; mean {100 * ours.mean():+.2f} points "
            f"against {100 * theirs.mean():+.2f}"
        )


if __name__ == "__main__":
    main()
