"""Kill audits at seeded random moments across all steps: `python -m tests.faults [KILLS]`.

Prints how often each fault was tried, what became of it, and what was lost.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from tests.faults.harness import Fault, Outcome, Undisturbed, disturb, undisturbed
from tests.faults.made import TRAINED, predictions_made_elsewhere

KINDS = (
    ("SIGKILL", "tree"),
    ("SIGKILL", "parent"),
    ("SIGKILL", "child"),
    ("SIGKILL", "server"),
    ("SIGKILL", "guardian"),
    ("SIGTERM", "parent"),
    ("SIGTERM", "child"),
    ("memory", "largest"),
)
POOLED = (("SIGKILL", "worker"),)
CHAIN = 5  # faults that one audit suffers, a command each
MAKING = ("train", "prune", "quantize", "predict")

# Imported by every Python process of an audit: predicting and quantizing are shared out, however
# little there is of them.
SHARED_OUT = """
import importlib.machinery, sys
class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if name not in ("scotoma.inference.population", "scotoma.steps.quantize"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        whole = spec.loader.exec_module
        def exec_module(module):
            whole(module)
            module.ALONE_S, module.WORTH_S = -1, 0
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Finder)
"""


def plan(
    kills: int,
    steps: Sequence[str],
    kinds: Iterator[tuple[str, str]],
    seed: int,
    *,
    reach: float = 1.0,
) -> list[list[Fault]]:
    """As many faults, of all kinds in turn, at every step in turn; chains in the order of steps.

    Each comes at most the share `reach` of its step after what it waits for.
    """
    rng = np.random.default_rng(seed)
    at = [*rng.permutation(np.arange(kills) % len(steps))]
    faults = [
        Fault(*next(kinds), step=steps[at[index]], share=float(rng.uniform(0, reach)))
        for index in range(kills)
    ]
    chains = [faults[index : index + CHAIN] for index in range(0, kills, CHAIN)]
    return [sorted(chain, key=lambda fault: steps.index(fault.step)) for chain in chains]


def main(kills: int, seed: int = 0) -> None:
    """A fifth of them while members are made, a tenth on workers, the others on predictions."""
    tried: list[tuple[Fault, Outcome]] = []
    kinds = cycle(KINDS)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        home = Path(folder)
        trained = undisturbed(home / "trained", TRAINED)
        predicted = undisturbed(home / "predicted", predictions_made_elsewhere(home))
        making, pooled = kills // 5, kills // 10
        chains = [
            *((chain, trained) for chain in plan(making, MAKING, kinds, seed)),
            *(
                (chain, predicted)
                for chain in plan(kills - making - pooled, [*predicted.steps], kinds, seed + 1)
            ),
        ]
        for at, (chain, whole) in enumerate(chains):
            tried += _chain(chain, whole, home / f"{at}")
        (home / "sitecustomize.py").write_text(SHARED_OUT)
        os.environ["PYTHONPATH"] = f"{home}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
        for at, chain in enumerate(plan(pooled, MAKING, cycle(POOLED), seed + 2, reach=0.2)):
            tried += _chain(chain, trained, home / f"pooled-{at}")
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
    for kind, target in (*KINDS, *POOLED):
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
