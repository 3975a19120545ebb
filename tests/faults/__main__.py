"""Kill audits at seeded random moments across all steps: `python -m tests.faults [KILLS]`.

Prints how often each fault was tried, what became of it, and what was lost.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.faults.harness import Fault, Outcome, Undisturbed, disturb, undisturbed
from tests.faults.made import TRAINED, predictions_made_elsewhere

KINDS = (
    ("SIGKILL", "tree"),
    ("SIGKILL", "parent"),
    ("SIGKILL", "pipeline"),
    ("SIGKILL", "step"),
    ("SIGKILL", "worker"),
    ("SIGKILL", "guardian"),
    ("SIGTERM", "parent"),
    ("SIGTERM", "pipeline"),
    ("SIGTERM", "step"),
    ("memory", "largest"),
)
CHAIN = 5  # faults that one audit suffers, a command each
MAKING = ("train-dense", "prune-magnitude", "quantize-int8", "predict-batch")


def plan(kills: int, steps: Sequence[str], seed: int) -> list[list[Fault]]:
    """As many faults, of all kinds in turn, at every step in turn; chains in the order of steps."""
    rng = np.random.default_rng(seed)
    at = [*rng.permutation(np.arange(kills) % len(steps))]
    faults = [
        Fault(*KINDS[index % len(KINDS)], step=steps[at[index]], share=float(rng.uniform(0, 1)))
        for index in range(kills)
    ]
    chains = [faults[index : index + CHAIN] for index in range(0, kills, CHAIN)]
    return [sorted(chain, key=lambda fault: steps.index(fault.step)) for chain in chains]


def main(kills: int, seed: int = 0) -> None:
    """A fifth of them while members are made, the others on an audit of predictions."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        home = Path(folder)
        parts = (
            ("trained", TRAINED, kills // 5, MAKING),
            ("predicted", predictions_made_elsewhere(home), kills - kills // 5, ()),
        )
        tried: list[tuple[Fault, Outcome]] = []
        for number, (name, config, own, steps) in enumerate(parts):
            whole = undisturbed(home / name, config)
            for at, chain in enumerate(plan(own, steps or [*whole.steps], seed + number)):
                tried += _chain(chain, whole, home / f"{name}-{at}")
    _table(tried)


def _chain(chain: list[Fault], whole: Undisturbed, out: Path) -> list[tuple[Fault, Outcome]]:
    began = time.monotonic()
    outcomes = disturb(chain, whole, out)
    for fault, outcome in zip(chain, outcomes, strict=True):
        print(f"{fault.kind:8} {outcome.hit:16} in {outcome.during:17} ends {outcome.code}")
    print(f"equal to the undisturbed run, after {time.monotonic() - began:.0f} s", flush=True)
    return list(zip(chain, outcomes, strict=True))


def _table(tried: list[tuple[Fault, Outcome]]) -> None:
    print(f"\n{'fault':8} {'hits':10} {'tried':>5} {'killed':>7} {'sentence':>9} {'went on':>8}")
    for kind, target in KINDS:
        own = [o for f, o in tried if (f.kind, f.target) == (kind, target)]
        ends = Counter(
            "killed" if o.code < 0 else "went on" if o.code == 0 else "sentence" for o in own
        )
        numbers = f"{ends['killed']:7} {ends['sentence']:9} {ends['went on']:8}"
        print(f"{kind:8} {target:10} {len(own):5} {numbers}")
    steps = Counter(outcome.during for _, outcome in tried)
    print(f"{'all':19} {len(tried):5}, taken up again and equal, byte for byte: {len(tried)}")
    print("hit during: " + ", ".join(f"{step} {count}" for step, count in steps.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
