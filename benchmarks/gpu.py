"""How much of a GPU does training reach, and how long do the papers' populations take on it?

    python benchmarks/gpu.py --data CIFAR10_FOLDER
    python benchmarks/gpu.py --miniature

GPU-1: ResNet-18 (CIFAR form), beside one model after the other fed by a DataLoader; the share of
the rate that a large matrix product reaches in the same run. GPU-2: the speedrun network, its
whole recipe with evaluation, and its accuracy after a long one. GPU-3: ResNet-18 at 128x128, 10,000
steps of 256, projected. `--miniature` runs every line of it in a minute or two on a processor; its
figures mean nothing else.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, TensorDataset

from scotoma.config import Recipe, parse_config
from scotoma.datasets import decode_images
from scotoma.sources.reading import load_examples
from scotoma.training.engine import (
    Member,
    TrainedMember,
    Training,
    normalise,
    products_precision,
)
from scotoma.training.models import build_model
from scotoma.training.placement import MEMBERS_IN_FLIGHT, device_name, training_device
from scotoma.training.task import classification

FAST = Recipe(
    epochs=9.9, batch_size=1024, learning_rate=1.5, schedule="linear", warmup=0.23, momentum=0.85,
    weight_decay=0.0013, bias_rate=64, label_smoothing=0.2, augmentation="crop-alternating-flip",
    crop=0.0625, averaging="lookahead", average_decay=0.77, average_every=5, average_ramp=3,
)  # fmt: skip
# Multiplications of a forward pass of one image; a step takes three times as many, and each is two
# floating-point operations.
RESNET18_32 = 555.4e6
LONG = 40  # epochs


@dataclass(frozen=True)
class Data:
    """Images, uint8, shape (N, 3, H, W), and their class ids."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="CIFAR-10 in Parquet; else random pixels")
    parser.add_argument("--miniature", action="store_true", help="few steps of few images")
    asked = parser.parse_args()
    device = training_device()
    if device.type == "cpu" and not asked.miniature:
        parser.error("there is no GPU here; --miniature runs every line on the processor")
    print(f"{device_name(device)}, torch {torch.__version__}")
    train, test = (cifar10(asked.data, split) for split in ("train", "test"))
    members = 2 if asked.miniature else MEMBERS_IN_FLIGHT
    resnet18(train, device, members, asked.miniature)
    speedrun(train, test, device, members, asked.miniature)
    faces(device, members, asked.miniature)


def cifar10(folder: Path | None, split: str) -> Data:
    """One split of CIFAR-10, or of random pixels in its place."""
    if folder is None:
        return pixels(2048, 32)
    text = f"""
source: {{kind: cifar10, data: {folder}}}
label: {{column: label}}
variants: [dense, {{prune: [0.5]}}]
"""
    examples = load_examples(parse_config(text, "benchmark")).split(split)
    return Data(decode_images(examples), examples.labels)


def pixels(count: int, size: int) -> Data:
    """Random images of ten classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 3, size, size), np.uint8)
    return Data(images, rng.integers(0, 10, count))


def resnet18(data: Data, device: torch.device, members: int, miniature: bool) -> None:
    """GPU-1."""
    batch, steps = (16, 2) if miniature else (256, 200)
    recipe = Recipe(steps=steps, batch_size=batch, augmentation="crop-flip")
    ours = rate(data, "cifar-resnet18", recipe, device, members)
    plain = plainly(data, steps, batch, device)
    reached = ours * batch * 6 * RESNET18_32
    peak = product_rate(products_precision(recipe, device), device, 256 if miniature else 8192)
    print(
        f"GPU-1: ours {ours:.1f} member-steps/s, DataLoader and eager {plain:.1f}: "
        f"{ours / plain:.2f} times; {reached / 1e12:.2f} of {peak / 1e12:.2f} TFLOP/s of a "
        f"product: {100 * reached / peak:.0f}%",
        flush=True,
    )


def speedrun(train: Data, test: Data, device: torch.device, members: int, miniature: bool) -> None:
    """GPU-2."""
    changed = {"epochs": None, "steps": 2, "batch_size": 32} if miniature else {}
    recipe = FAST.model_copy(update=changed)
    for models in ("the first, compiled on the way", "the next"):
        began = time.perf_counter()
        trained = training_of(train, "speedrun", recipe, device, members).run()
        shares = [correct(member, test, device) for member in trained]
        wall = (time.perf_counter() - began) / members
        print(
            f"GPU-2: {wall:.2f} s a model with evaluation, accuracy {100 * np.mean(shares):.2f}% "
            f"({members} models: {models})",
            flush=True,
        )
    if not miniature:
        long = recipe.model_copy(update={"epochs": LONG})
        trained = training_of(train, "speedrun", long, device, members).run()
        shares = [correct(member, test, device) for member in trained]
        print(f"GPU-2: {100 * np.mean(shares):.2f}% after {LONG} epochs ({members} models)")


def faces(device: torch.device, members: int, miniature: bool) -> None:
    """GPU-3."""
    batch, steps, size = (8, 2, 32) if miniature else (256, 100, 128)
    data = pixels(2048 if miniature else 20_000, size)
    recipe = Recipe(steps=steps, batch_size=batch, augmentation="flip")
    found = rate(data, "resnet18", recipe, device, members)
    minutes = 180 * 10_000 / found / 60
    print(
        f"GPU-3: {found:.1f} member-steps/s; 180 models of 10,000 steps: {minutes:.0f} min, "
        f"projected from {members} of {steps}",
        flush=True,
    )


def training_of(
    data: Data, model: str, recipe: Recipe, device: torch.device, members: int
) -> Training:
    """Members of the loop backend."""
    resolved = recipe.resolved(len(data.labels))
    return Training(
        [Member("dense", k, k) for k in range(members)], data.images, data.labels, model=model,
        task=classification(10, resolved), recipe=resolved, backend="loop", device=device,
    )  # fmt: skip


def rate(data: Data, model: str, recipe: Recipe, device: torch.device, members: int) -> float:
    """Member-steps a second, once the first step has been compiled and recorded."""
    steps = recipe.steps or 1
    training = training_of(
        data, model, recipe.model_copy(update={"steps": steps + 1}), device, members
    )
    state = training.advance(training.start(), 1)
    wait(device)
    began = time.perf_counter()
    training.advance(state)
    wait(device)
    return members * steps / (time.perf_counter() - began)


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def plainly(data: Data, steps: int, batch: int, device: torch.device) -> float:
    """Steps a second of one model, float32, fed by a DataLoader."""
    fed = TensorDataset(torch.from_numpy(data.images), torch.from_numpy(data.labels))
    loader = DataLoader(fed, batch, shuffle=True, drop_last=True, num_workers=2)
    model = build_model("cifar-resnet18", 10, 0).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    done, began = -1, 0.0
    while done < steps:
        for images, labels in loader:
            if done == 0:
                began = time.perf_counter()
            optimiser.zero_grad()
            scores = model(normalise(images.to(device)))
            torch.nn.functional.cross_entropy(scores, labels.to(device)).backward()
            optimiser.step()
            done += 1
            if done == steps:
                break
    wait(device)
    return steps / (time.perf_counter() - began)


@torch.no_grad()
def correct(member: TrainedMember, data: Data, device: torch.device) -> float:
    """Share of the images whose class a member predicts."""
    model = build_model("speedrun", 10, 0).to(device).eval()
    model.load_state_dict(member.state)
    parts = [
        model(normalise(torch.from_numpy(data.images[at : at + 2000]).to(device))).argmax(1).cpu()
        for at in range(0, len(data.labels), 2000)
    ]
    return float((torch.cat(parts).numpy() == data.labels).mean())


def product_rate(precision: torch.dtype, device: torch.device, size: int) -> float:
    """Floating-point operations a second of a large product in the precision of training."""
    one = torch.randn(size, size, device=device, dtype=precision)
    repeats, best = 10, float("inf")
    for _ in range(3):
        wait(device)
        began = time.perf_counter()
        for _ in range(repeats):
            one @ one
        wait(device)
        best = min(best, time.perf_counter() - began)
    return float(2 * size**3 * repeats / best)


if __name__ == "__main__":
    main()
