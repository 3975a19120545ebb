"""What does deterministic mode cost, and do identical training runs differ without it?

    python benchmarks/deterministic.py --turns 9

The cost is CPU time with the mode over CPU time without it, in turns within one process, so that
what else the machine does falls on both. Qian et al. (2021) report 14 to 21% on a GPU. Runs of one
seed are compared by the SHA-256 of their weights, over threads, precisions and places in a stack.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from scotoma.config import Recipe, default_config
from scotoma.datasets import decode_images
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training
from scotoma.training.placement import device_name, training_device
from scotoma.training.task import classification

SEED = 7
CLASSES = 10
Data = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # images, uint8, (N, 3, H, W), and labels


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=9, help="runs each way; 0 for none")
    asked = parser.parse_args()
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
    for name, data, way in kinds if asked.turns else ():
        cost(name, data, way, asked.turns)
    differences("tiny convnet, 100 steps", digits, "tiny-convnet", 100)
    differences("ResNet-8, 5 steps", noise, "resnet8", 5)


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


if __name__ == "__main__":
    main()
