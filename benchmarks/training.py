"""How fast are populations trained, and what does deterministic mode cost?

    python benchmarks/training.py speed --members 40
    python benchmarks/training.py deterministic --turns 9

`speed` stands beside plain eager PyTorch, one model after the other. CPU-1: tiny convnets on the
embedded 8x8 digits. CPU-2: ResNet-8 on 32x32 images, batch 128; a tenth of the members, half the
steps. Both train the same networks for the same steps on the same images; rates are member-steps a
second, with everything that starting takes. With `--busy` a process spins beside ours for a third
figure.

The cost of `deterministic` is CPU time with the mode over CPU time without it, in turns within one
process, so that what else the machine does falls on both. Qian et al. (2021) report 14 to 21% on a
GPU. Runs of one seed are compared by the SHA-256 of their weights, over threads, precisions and
places in a stack. What a GPU reaches is measured by `gpu_audit.py`.
"""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from cases import run
from PIL import Image

from scotoma.config import Recipe, default_config, parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.run import Run
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training, normalise
from scotoma.training.models import build_model
from scotoma.training.optimiser import learning_rate
from scotoma.training.placement import device_name, training_device
from scotoma.training.population import train_populations
from scotoma.training.randomness import member_seed, minibatch
from scotoma.training.task import classification

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


def speed(members: int = 40, steps: int = 600, only: str = "", busy: bool = False) -> None:
    """Member-steps a second, ours and plainly; `--only` CPU-1 or CPU-2."""
    for name, text, count, length in (
        ("CPU-1", DIGITS, members, steps),
        ("CPU-2", IMAGES, max(2, members // 10), steps // 2),
    ):
        if only not in ("", name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            config = parse_config(text.format(steps=length, members=count), name)
            run = Run.create(Path(folder) / "run", config)
            examples = load_examples(run.config) if name == "CPU-1" else synthetic()
            examples.write(run.examples)
            plain = plainly(run, examples, max(2, count // 10))
            ours = populations(run, count)
            print(
                f"{name}: plain eager {plain:.1f} member-steps/s, ours {ours:.1f} "
                f"({count} members of {length} steps): {ours / plain:.2f} times",
                flush=True,
            )
            if busy:
                spinner = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
                spinner.start()
                beside = populations(run, count)
                spinner.terminate()
                print(f"{name}: with one core busy {beside / ours:.2f} of that", flush=True)


SEED = 7
CLASSES = 10
Data = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # images, uint8, (N, 3, H, W), and labels


def random_images() -> Data:
    """Random 32x32 images of ten classes."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (1024, 3, 32, 32), dtype=np.uint8)
    return pixels, np.arange(1024) % CLASSES


def weights(
    data: Data,
    *,
    model: str,
    backend: Any,
    steps: int,
    batch: int = 64,
    members: int = 1,
    seeds: Sequence[int] = (),
    precision: Any = "auto",
) -> list[str]:
    """Train members of one seed, or of others, and digest the weights of each."""
    recipe = Recipe(steps=steps, batch_size=batch, precision=precision)
    recipe = recipe.resolved(len(data[1]))
    own = list(seeds) or [SEED] * members
    trained = Training(
        [Member("dense", k, seed) for k, seed in enumerate(own)],
        data[0],
        data[1],
        model=model,
        task=classification(CLASSES, recipe),
        recipe=recipe,
        backend=backend,
        device=training_device(),
    ).run()
    return [
        hashlib.sha256(b"".join(t.numpy().tobytes() for t in one.state.values())).hexdigest()[:12]
        for one in trained
    ]


def cost(name: str, data: Data, way: dict[str, Any], turns: int) -> None:
    """Time training with and without deterministic mode, in turns."""
    times: dict[str, list[float]] = {"default": [], "error": []}
    weights(data, **way)  # warms up
    for turn in range(turns):
        for mode in ("default", "error")[:: 1 if turn % 2 else -1]:
            torch.set_deterministic_debug_mode(mode)
            began = time.process_time()
            weights(data, **way)
            times[mode].append(time.process_time() - began)
    torch.set_deterministic_debug_mode("default")
    ratios = [with_ / without for without, with_ in zip(*times.values(), strict=True)]
    print(
        f"{name}: {statistics.median(times['default']):.2f} s without, "
        f"{statistics.median(times['error']):.2f} s with; ratio {statistics.median(ratios):.3f} "
        f"[{min(ratios):.3f}, {max(ratios):.3f}] over {turns} turns",
        flush=True,
    )


def differences(name: str, data: Data, model: str, steps: int) -> None:
    """Compare runs of one seed under everything that may change a sum's order."""
    print(name)
    base: dict[str, Any] = {"model": model, "backend": "loop", "steps": steps}
    known: dict[str, str] = {}

    def show(what: str, found: Sequence[str]) -> None:
        seen = [known.setdefault(one, what) for one in found]
        before = sorted({one for one in seen if one != what})
        print(f"  {what}: {len(set(found))} different{''.join(f', as {one}' for one in before)}")

    for precision in ("float32", "bfloat16"):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            runs = [weights(data, **base, precision=precision)[0] for _ in range(3)]
            show(f"{precision}, {threads} threads, 3 runs", runs)
        torch.set_num_threads(1)
    if model != "tiny-convnet":
        return
    stacked = base | {"backend": "stacked", "precision": "float32"}
    for members in (1, 2, 5, 10):
        show(f"stacked, {members} of one seed", weights(data, **stacked, members=members))
    for place in (0, 4):
        seeds = [SEED if k == place else 100 + k for k in range(5)]
        show(
            f"stacked, place {place} among 4 others", [weights(data, **stacked, seeds=seeds)[place]]
        )


def deterministic(turns: int = 9) -> None:
    """CPU time with the mode over that without it, and runs of one seed that differ."""
    torch.set_num_threads(1)  # as in the workers of an audit
    print(f"torch {torch.__version__}, {device_name(training_device())}")
    train = load_examples(default_config()).split("train")
    digits, noise = (decode_images(train), train.labels), random_images()
    kinds: tuple[tuple[str, Data, dict[str, Any]], ...] = (
        ("5 tiny convnets stacked, 200 steps", digits,
         {"model": "tiny-convnet", "backend": "stacked", "steps": 200, "members": 5}),
        ("ResNet-8, 20 steps of 128", noise,
         {"model": "resnet8", "backend": "loop", "steps": 20, "batch": 128}),
    )  # fmt: skip
    for name, data, way in kinds if turns else ():
        cost(name, data, way, turns)
    differences("tiny convnet, 100 steps", digits, "tiny-convnet", 100)
    differences("ResNet-8, 5 steps", noise, "resnet8", 5)


if __name__ == "__main__":
    run(__doc__, speed, deterministic)
