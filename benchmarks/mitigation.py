"""How much slower is stacked training with a technique than without?

Members of the embedded digits with dim ink are trained for some steps, plainly and by every
technique in turns, five as one network; the ratio is that of the medians of CPU time. Pruned
members are timed, beside their dense ones where a technique asks for that.

    python benchmarks/mitigation.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from scotoma.config import parse_config
from scotoma.datasets import decode_images
from scotoma.mitigation.groups import training_groups
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training
from scotoma.training.task import classification
from scotoma.training.technique import technique_task

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


def main() -> None:
    """Print milliseconds a step and the ratio to plain training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    ways = {name: prepared(name, asked.steps) for name in ("", *TECHNIQUES)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(asked.turns):
        for name, timed in ways.items():
            times[name].append(timed())
    plain = float(np.median(times[""]))
    print(f"{MEMBERS} members as one, {asked.steps} steps, {asked.turns} turns")
    for name, own in times.items():
        low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
        print(
            f"{name or 'plain':10s} {1000 * middle:6.2f} ms a step "
            f"[{1000 * low:.2f}, {1000 * high:.2f}]  {middle / plain:.2f} times plain"
        )


if __name__ == "__main__":
    main()
