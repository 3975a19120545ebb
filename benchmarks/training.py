"""How fast are populations trained, beside plain eager PyTorch one model after the other?

    python benchmarks/training.py --members 40

CPU-1: tiny convnets on the embedded 8x8 digits. CPU-2: ResNet-8 on 32x32 images, batch 128. Both
train the same networks for the same steps on the same images; rates are member-steps a second, with
everything that starting takes. With `--busy` a process spins beside ours for a third figure.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch
from PIL import Image

from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.run import Run
from scotoma.sources.reading import load_examples
from scotoma.training.engine import normalise
from scotoma.training.models import build_model
from scotoma.training.optimiser import learning_rate
from scotoma.training.population import train_populations
from scotoma.training.randomness import member_seed, minibatch

DIGITS = """
source: {{kind: digits-s, recipe: {{steps: {steps}}}}}
label: {{column: digit}}
variants: [dense, {{prune: [0.5]}}]
population: {{models: {members}}}
"""
IMAGES = """
source: {{kind: cifar10, data: none, model: resnet8, recipe: {{steps: {steps}, batch_size: 128}}}}
label: {{column: label}}
variants: [dense, {{prune: [0.5]}}]
population: {{models: {members}}}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, default=40, help="tiny convnets; ResNets: a tenth")
    parser.add_argument("--steps", type=int, default=600, help="of a tiny convnet; ResNets: half")
    parser.add_argument("--only", choices=["CPU-1", "CPU-2"])
    parser.add_argument("--busy", action="store_true", help="also with one core busy")
    asked = parser.parse_args()
    for name, text, members, steps in (
        ("CPU-1", DIGITS, asked.members, asked.steps),
        ("CPU-2", IMAGES, max(2, asked.members // 10), asked.steps // 2),
    ):
        if asked.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = Run.create(
                Path(folder) / "run", parse_config(text.format(steps=steps, members=members), name)
            )
            examples = load_examples(run.config) if name == "CPU-1" else synthetic()
            examples.write(run.examples)
            plain = plainly(run, examples, max(2, members // 10))
            ours = populations(run, members)
            print(
                f"{name}: plain eager {plain:.1f} member-steps/s, ours {ours:.1f} "
                f"({members} members of {steps} steps): {ours / plain:.2f} times",
                flush=True,
            )
            if asked.busy:
                spinner = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
                spinner.start()
                beside = populations(run, members)
                spinner.terminate()
                print(f"{name}: with one core busy {beside / ours:.2f} of that", flush=True)


def synthetic() -> AuditedExamples:
    """Random 32x32 images of ten classes."""
    rng = np.random.default_rng(0)
    rows = []
    for index in range(2000):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(buffer, "PNG")
        image = {"bytes": buffer.getvalue(), "path": f"{index}.png"}
        split, label = "train" if index < 1800 else "test", str(index % 10)
        rows.append({"example_id": str(index), "split": split, "label": label, "image": image})
    return AuditedExamples(pl.DataFrame(rows), tuple(map(str, range(10))), (), ())


def populations(run: Run, members: int) -> float:
    """Member-steps a second of this package, from examples to weights on disk."""
    for path in run.population("dense").glob("*"):
        path.unlink()
    began = time.perf_counter()
    train_populations(run, ["dense"], range(members))
    return members * run.config.source.recipe.total_steps / (time.perf_counter() - began)


def plainly(run: Run, examples: AuditedExamples, members: int) -> float:
    """Member-steps a second of a plain loop: one network, torch's optimiser, default threads."""
    recipe, name = run.config.source.recipe, run.config.source.model
    began = time.perf_counter()
    train = examples.split("train")
    images = normalise(torch.from_numpy(decode_images(train)))
    labels = torch.from_numpy(train.labels)
    for index in range(members):
        seed = member_seed(0, "dense", index)
        model = build_model(name, len(examples.classes), seed)
        optimiser = torch.optim.SGD(
            model.parameters(), lr=1.0, momentum=recipe.momentum, nesterov=True,
            weight_decay=recipe.weight_decay,
        )  # fmt: skip
        for step in range(recipe.total_steps):
            rows = minibatch(seed, step, recipe.batch_size, len(labels))
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, recipe)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimiser.step()
    return members * recipe.total_steps / (time.perf_counter() - began)


def spin() -> None:
    """Keep one core busy."""
    while True:
        pass


if __name__ == "__main__":
    main()
