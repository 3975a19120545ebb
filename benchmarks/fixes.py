"""What do fixes cost, what do they leave, and would one more help?

    python benchmarks/fixes.py techniques
    python benchmarks/fixes.py layers
    python benchmarks/fixes.py flow --seeds 4

`techniques`: members of the embedded digits with dim ink are trained for some steps, plainly and by
every technique in turns, five as one network; the ratio is that of the medians of CPU time. Pruned
members are timed, beside their dense ones where a technique asks for that.

`layers`: how much harm is left if layers are chosen by harm, and how much if by tensor error? Cases
are drawn by a seed: a network for digits in dark and faint ink, and a layer in which int8 harms one
of the inks (examples/planted_layer.py); none, one or two other layers are decoys, in which int8
loses rows that few digits need. Layers are chosen by harm on one half of the test digits, within
the bytes that the case allows; tensor errors may spend as many as that choice. The harm that is
left is measured on the other half. Tensor errors are those of ONNX Runtime's `qdq_loss_debug`, on
the training images that calibrate: the signal-to-noise ratio of each layer's weights and of the
tensors that it reads and writes, lowest first. `local` compares a tensor before and after its
quantization, `across` with that of the network in float32.

`flow`: would NIFR, the study's N-Flow, make digits fairer? The flow (Kehrenberg et al. 2020, from
its formulas) maps a picture to z = (z_s, z_u): negative log-likelihood, and an adversary that reads
the group from z_u against which z_u learns. Every picture is then decoded with z_s = 0, and a plain
network is trained and tested on what comes out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from cases import run
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, qdq_loss_debug
from torch import nn
from torch.nn import functional

from scotoma.bias import counts
from scotoma.bias.fairness import fairness_metric
from scotoma.config import Recipe, parse_config
from scotoma.config.variants import Variant
from scotoma.datasets import decode_images
from scotoma.fix.candidates import FloatMembers, RepairChoices
from scotoma.fix.repair import WORTH, Harm
from scotoma.inference import OURS, Network
from scotoma.mitigation.groups import training_groups
from scotoma.quantization.choose_layers import choose_layers
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training, normalise
from scotoma.training.task import classification, plain_task
from scotoma.training.technique import technique_task

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import planted_layer as planting

MEMBERS = 5
TECHNIQUES = (
    "RS", "SUBG", "DD1", "DI2", "UC", "GR", "group-dro", "JTT", "L2", "ALM", "distil", "CEAG",
)  # fmt: skip
CONFIG = """
source: {{kind: digits-s, styled: dim}}
label: {{column: {label}}}
groups: {{style: {{column: style}}}}
variants: [dense, {{prune: [0.8]}}]
population: {{models: 5, forked: true}}
{more}
"""


def prepared(technique: str, steps: int) -> Callable[[], float]:
    """Train until the masks change, and return what times the steps after that."""
    own = "" if technique in ("JTT", "distil") else ", attribute: style"
    more = f"mitigation: {{technique: {technique}{own}}}" if technique else ""
    label = "parity" if technique in ("L2", "ALM") else "digit"
    config = parse_config(CONFIG.format(label=label, more=more), "benchmark")
    examples = load_examples(config).split("train")
    images, labels, classes = decode_images(examples), examples.labels, len(examples.classes)
    recipe = config.source.recipe.model_copy(update={"steps": 10 * steps, "precision": "float32"})
    task, attributes = classification(classes, recipe), np.empty((len(labels), 0), np.int64)
    if config.mitigation is not None:
        groups = training_groups(config, examples)
        task = technique_task(config.mitigation, recipe, labels, groups, classes)
        attributes = groups.codes[:, None]

    def training(sparsity: float, dense: dict[str, torch.Tensor] | None = None) -> Training:
        return Training(
            [Member("timed", k, k, sparsity) for k in range(MEMBERS)], images, labels,
            model="tiny-convnet", task=task, recipe=recipe, attributes=attributes, dense=dense,
        )  # fmt: skip

    dense = training(0.0)
    trunk = dense.advance(dense.start(), recipe.mask_updates[0])
    beside = {**trunk.parameters, **trunk.buffers} if task.reference else None
    pruned = training(0.8, beside)
    warm = pruned.advance(trunk, trunk.step + 2)

    def timed() -> float:
        began = time.process_time()
        pruned.advance(warm, warm.step + steps)
        return (time.process_time() - began) / steps

    return timed


def techniques(steps: int = 40, turns: int = 7) -> None:
    """Milliseconds a step of stacked training with each technique, and times plain training."""
    torch.set_num_threads(1)
    ways = {name: prepared(name, steps) for name in ("", *TECHNIQUES)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, timed in ways.items():
            times[name].append(timed())
    plain = float(np.median(times[""]))
    print(f"{MEMBERS} members as one, {steps} steps, {turns} turns")
    for name, own in times.items():
        low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
        print(
            f"{name or 'plain':10s} {1000 * middle:6.2f} ms a step "
            f"[{1000 * low:.2f}, {1000 * high:.2f}]  {middle / plain:.2f} times plain"
        )


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


def measured_case(random: np.random.Generator, folder: Path) -> tuple[str, float, list[float], int]:
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


def layers(cases: int = 20, seed: int = 0) -> None:
    """How often less harm is left if layers are chosen by harm than if by tensor error."""
    random = np.random.default_rng(seed)
    left, skipped = [], 0
    print(f"{'planted':46s} {'by harm':12s} {'local':12s} {'across':12s} before   left, points")
    for _ in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            words, before, own, harmless = measured_case(random, Path(folder))
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


FLOW_CONFIG = """
source: {kind: digits-s, styled: dim}
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.8]}]
"""
LAYERS, WIDTH = 8, 128
Pixels = NDArray[np.uint8]


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned round and scaled."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        """Keep x."""
        context.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Turn the gradient round."""
        return -context.scale * slope, None


class Flow(nn.Module):
    """Affine coupling layers over random halves of the pixels."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.masks: list[torch.Tensor] = []
        for _ in range(LAYERS // 2):
            half = (torch.randperm(size) < size // 2).float()
            self.masks += [half, 1 - half]
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                          nn.Linear(WIDTH, 2 * size)) for _ in self.masks
        )  # fmt: skip
        for net in self.nets:  # begins as the identity
            nn.init.zeros_(net[-1].weight)
            nn.init.zeros_(net[-1].bias)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode rows (N, D), with the logarithm of the volume's change, shape (N,)."""
        volume = x.new_zeros(len(x))
        for mask, net in zip(self.masks, self.nets, strict=True):
            scale, shift = self._moves(mask, net, x)
            x, volume = x * scale.exp() + shift, volume + scale.sum(1)
        return x, volume

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """Invert `forward`."""
        for mask, net in zip(reversed(self.masks), reversed(self.nets), strict=True):
            scale, shift = self._moves(mask, net, z)
            z = (z - shift) * (-scale).exp()
        return z

    @staticmethod
    def _moves(
        mask: torch.Tensor, net: nn.Module, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scale, shift = net(x * mask).chunk(2, 1)
        return torch.tanh(scale) * (1 - mask), shift * (1 - mask)


def invariant(
    train: Pixels, groups: NDArray[np.int64], test: Pixels, *, kept: int, weight: float,
    steps: int, seed: int,
) -> tuple[Pixels, Pixels, float, float]:  # fmt: skip
    """Decode both splits with z_s = 0; and the share of groups that z_u tells, and the error."""
    torch.manual_seed(seed)
    x, codes = torch.from_numpy(train[:, 0]).float().flatten(1) / 256, torch.from_numpy(groups)
    size = x.shape[1]
    flow = Flow(size)
    adversary = nn.Sequential(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    learned = torch.optim.Adam([*flow.parameters(), *adversary.parameters()], 1e-3)
    hidden = torch.ones(size)
    hidden[:kept] = 0  # z_s
    for _ in range(steps):
        rows = torch.randint(0, len(x), (128,))
        z, volume = flow(x[rows] + torch.rand(128, size) / 16)  # digits have 17 levels
        likelihood = (-0.5 * (z**2).sum(1) + volume).mean() / size
        told = functional.cross_entropy(adversary(Reversed.apply(z * hidden, weight)), codes[rows])
        learned.zero_grad()
        (told - likelihood).backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        learned.step()

    def through(pixels: Pixels) -> tuple[torch.Tensor, torch.Tensor]:
        plain = torch.from_numpy(pixels[:, 0]).float().flatten(1) / 256
        z = flow(plain)[0]
        return z * hidden, flow.decode(z * hidden)

    def pictures(decoded: torch.Tensor, like: Pixels) -> Pixels:
        grey = (256 * decoded).nan_to_num(0).clamp(0, 255).round().byte().numpy()
        return np.repeat(grey.reshape(len(like), 1, *like.shape[2:]), 3, axis=1)

    with torch.no_grad():
        (z, decoded), (_, shown) = through(train), through(test)
        error = (flow.decode(flow(x)[0]) - x).abs().mean().item()
    fresh = nn.Sequential(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
    fits = torch.optim.Adam(fresh.parameters(), 1e-3)
    half = torch.arange(len(z)) % 2 == 0
    for _ in range(500):
        fits.zero_grad()
        functional.cross_entropy(fresh(z[half]), codes[half]).backward()
        fits.step()
    told_share = (fresh(z[~half]).argmax(1) == codes[~half]).float().mean().item()
    return pictures(decoded, train), pictures(shown, test), told_share, error


def measure(
    train: Pixels, labels: NDArray[np.int64], test: Pixels, truth: NDArray[np.int64],
    styles: list[NDArray[np.bool_]], seed: int,
) -> tuple[float, float]:  # fmt: skip
    """Accuracy and amplification of bias of one plain member."""
    recipe = Recipe()
    training = Training(
        [Member("dense", 0, seed)], train, labels, model="tiny-convnet",
        task=plain_task(labels, 10, recipe), recipe=recipe,
    )  # fmt: skip
    state = training.advance(training.start())
    shown = normalise(torch.from_numpy(test)).unsqueeze(0)
    said = training._scores(state.parameters, state.buffers, shown)[0].numpy().argmax(1)[:, None]
    bias = fairness_metric("BA", counts(truth, said, styles, n_classes=10)).overall
    return 100 * float((said[:, 0] == truth).mean()), 100 * float(bias[0])


def spread(values: Any) -> str:
    """Put a mean with its standard deviation."""
    return f"{np.mean(values):.1f} (SD {np.std(values, ddof=1):.1f})"


def flow(seeds: int = 4, steps: int = 2000) -> None:
    """Accuracy and amplification of bias after a flow that hides the group."""
    torch.set_num_threads(1)
    examples = load_examples(parse_config(FLOW_CONFIG, "benchmark"))
    train, test = examples.split("train"), examples.split("test")
    groups = (train.table["style"] == "styled").to_numpy().astype(np.int64)
    styles = [(test.table["style"] == style).to_numpy() for style in ("plain", "styled")]
    pixels, shown = decode_images(train), decode_images(test)
    plain = [measure(pixels, train.labels, shown, test.labels, styles, s) for s in range(seeds)]
    print(f"plain: accuracy {spread([a for a, _ in plain])}, BA {spread([b for _, b in plain])}")
    for kept, weight in ((1, 0.01), (1, 1.0), (4, 1.0), (16, 1.0)):
        found = []
        for seed in range(seeds):
            own, other, told, error = invariant(
                pixels, groups, shown, kept=kept, weight=weight, steps=steps, seed=seed
            )
            accuracy, bias = measure(own, train.labels, other, test.labels, styles, seed)
            found.append((accuracy, bias, 100 * told, error))
        rows = list(zip(*found, strict=True))
        print(
            f"z_s of {kept} of 64, weight {weight}: accuracy {spread(rows[0])}, BA "
            f"{spread(rows[1])}, group told by z_u {spread(rows[2])}%, inverse off by "
            f"{max(rows[3]):.1e}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    run(__doc__, techniques, layers, flow)
