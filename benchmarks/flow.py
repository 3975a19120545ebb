"""Would NIFR, the study's N-Flow, make digits fairer? A flow of coupling layers, before training.

    python benchmarks/flow.py --seeds 4

The flow (Kehrenberg et al. 2020, from its formulas) maps a picture to z = (z_s, z_u): negative
log-likelihood, and an adversary that reads the group from z_u against which z_u learns. Every
picture is then decoded with z_s = 0, and a plain network is trained and tested on what comes out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from scotoma.bias import counts
from scotoma.bias.fairness import fairness_metric
from scotoma.config import Recipe, parse_config
from scotoma.datasets import decode_images
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training, normalise
from scotoma.training.task import plain_task

CONFIG = """
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    examples = load_examples(parse_config(CONFIG, "benchmark"))
    train, test = examples.split("train"), examples.split("test")
    groups = (train.table["style"] == "styled").to_numpy().astype(np.int64)
    styles = [(test.table["style"] == style).to_numpy() for style in ("plain", "styled")]
    pixels, shown = decode_images(train), decode_images(test)
    plain = [
        measure(pixels, train.labels, shown, test.labels, styles, s) for s in range(asked.seeds)
    ]
    print(f"plain: accuracy {spread([a for a, _ in plain])}, BA {spread([b for _, b in plain])}")
    for kept, weight in ((1, 0.01), (1, 1.0), (4, 1.0), (16, 1.0)):
        found = []
        for seed in range(asked.seeds):
            own, other, told, error = invariant(
                pixels, groups, shown, kept=kept, weight=weight, steps=asked.steps, seed=seed
            )
            accuracy, bias = measure(own, train.labels, other, test.labels, styles, seed)
            found.append((accuracy, bias, 100 * told, error))
        rows = list(zip(*found, strict=True))
        print(
            f"z_s of {kept} of 64, weight {weight}: accuracy {spread(rows[0])}, BA "
            f"{spread(rows[1])}, group told by z_u {spread(rows[2])}%, inverse off by "
            f"{max(rows[3]):.1e}", flush=True,
        )  # fmt: skip


def spread(values: Any) -> str:
    """Put a mean with its standard deviation."""
    return f"{np.mean(values):.1f} (SD {np.std(values, ddof=1):.1f})"


if __name__ == "__main__":
    main()
