"""Which gate refuses a release that lost nothing, and which lets a harmed group through?

    python benchmarks/gates.py --releases 100

Draws releases of six tasks of a language model, each item answered several times by the original
and by the candidate: lossless ones, and ones in which a tenth of the items of every task, one
group, lose 20 points, or all of their rate where that is less. Four gates judge the same samples:

- a point a task: NVIDIA ModelOpt's `gate_compare`, which refuses where the mean of any task falls
  by more than one point;
- recovery: llm-compressor's, which passes where the mean over tasks keeps 95%;
- 100 samples: a shuffled hundred of all answers, whose mean may fall by 5 points;
- Scotoma's: `scotoma compare original candidate --group topic` on the same answers, written as
  NeMo-Skills writes them, with the built-in rules and with a margin.

Rates are shares of releases with 95% intervals (Wilson).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

# Items and answers an item, and how able the model is: the mean of a Beta distribution of rates.
TASKS = {
    "GPQA": (198, 16, 0.70), "LCR": (100, 16, 0.60), "SciCode": (338, 8, 0.40),
    "IFBench": (294, 5, 0.60), "HLE": (2158, 1, 0.15), "Tau2": (114, 8, 0.65),
}  # fmt: skip
LOSS, GROUP_SHARE = 0.20, 0.10
SPREAD = 1.5  # a + b of the Beta distribution: most items are nearly always right, or wrong
MARGINS = (None, 0.05)


def release(rng: np.random.Generator, *, harmed: bool) -> dict[str, np.ndarray]:
    """Draw the answers of a release: task, item, group, and whether each model is right."""
    parts = []
    for number, (items, answers, able) in enumerate(TASKS.values()):
        rate = rng.beta(able * SPREAD, (1 - able) * SPREAD, items)
        group = np.zeros(items, bool)
        group[rng.permutation(items)[: round(GROUP_SHARE * items)]] = True
        after = np.where(group & harmed, rate - np.minimum(LOSS, rate), rate)
        repeated = [np.repeat(values, answers) for values in (np.arange(items), group, rate, after)]
        item, member, before, after = repeated
        parts.append(
            {
                "task": np.full(len(item), number),
                "item": item + 10_000 * number,
                "group": member,
                "original": rng.random(len(item)) < before,
                "candidate": rng.random(len(item)) < after,
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def point_a_task(drawn: dict[str, np.ndarray], _: np.random.Generator) -> str:
    """FAIL where the mean of a task falls by more than a point."""
    return "FAIL" if any(fall > 0.01 for _, fall in falls(drawn)) else "PASS"


def recovery(drawn: dict[str, np.ndarray], _: np.random.Generator) -> str:
    """FAIL where the mean over tasks keeps less than 95%."""
    before = np.mean([mean for mean, _ in falls(drawn)])
    after = np.mean([mean - fall for mean, fall in falls(drawn)])
    return "FAIL" if after < 0.95 * before else "PASS"


def hundred(drawn: dict[str, np.ndarray], rng: np.random.Generator) -> str:
    """FAIL where a shuffled hundred of answers falls by more than five points."""
    chosen = rng.permutation(len(drawn["task"]))[:100]
    fall = drawn["original"][chosen].mean() - drawn["candidate"][chosen].mean()
    return "FAIL" if fall > 0.05 else "PASS"


def falls(drawn: dict[str, np.ndarray]) -> Iterator[tuple[float, float]]:
    """The mean of each task, and by how much it falls."""
    for number in range(len(TASKS)):
        own = drawn["task"] == number
        before, after = drawn["original"][own].mean(), drawn["candidate"][own].mean()
        yield float(before), float(before - after)


def write(drawn: dict[str, np.ndarray], folder: Path) -> None:
    """Write the answers of both models as NeMo-Skills does: a file a task and repeat."""
    for number, (task, (items, answers, _)) in enumerate(TASKS.items()):
        own = drawn["task"] == number
        topics = np.where(drawn["group"][own], "own", "rest").reshape(items, answers)[:, 0]
        for model in ("original", "candidate"):
            right = drawn[model][own].reshape(items, answers)
            (folder / model / task).mkdir(parents=True)
            for repeat in range(answers):
                rows = (
                    {
                        "problem": f"{task} {i}",
                        "generation": "",
                        "symbolic_correct": bool(right[i, repeat]),
                        "topic": str(topics[i]),
                    }
                    for i in range(items)
                )
                path = folder / model / task / f"output-rs{repeat}.jsonl"
                path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def ours(folder: Path, margin: float | None) -> tuple[str, bool]:
    """Scotoma's verdict, and whether a FAIL names the group."""
    models = [str(folder / model) for model in ("original", "candidate")]
    asked = ["--group", "topic", "--json", "--quiet"]
    asked += [] if margin is None else ["--margin", str(margin)]
    command = [sys.executable, "-m", "scotoma", "compare", *models, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (gate,) = json.loads(done.stdout)["gate"]["variants"]
    named = any(one["verdict"] == "FAIL" and one["group"] == "topic=own" for one in gate["tests"])
    return gate["verdict"], named


def judged(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """What every gate says of a lossless and a harmed release, a row each."""
    for harmed in (False, True):
        rng = np.random.default_rng([seed, number, harmed])
        drawn = release(rng, harmed=harmed)
        row = {"number": number, "release": "harmed" if harmed else "lossless", "named": False}
        for name, gate in (
            ("a point a task", point_a_task), ("recovery of 95%", recovery),
            ("100 shuffled answers", hundred),
        ):  # fmt: skip
            yield row | {"gate": name, "verdict": gate(drawn, rng)}
        with tempfile.TemporaryDirectory() as folder:
            write(drawn, Path(folder))
            for margin in MARGINS:
                rules = "built-in rules" if margin is None else f"--margin {margin}"
                verdict, named = ours(Path(folder), margin)
                yield row | {"gate": f"Scotoma, {rules}", "verdict": verdict, "named": named}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, help="JSONL of releases judged so far, to go on from")
    asked = parser.parse_args()
    kept = asked.kept.read_text().splitlines() if asked.kept and asked.kept.exists() else []
    releases = [json.loads(line) for line in kept]
    for number in range(len(releases), asked.releases):
        releases.append(list(judged(asked.seed, number)))
        if asked.kept:
            with asked.kept.open("a") as file:
                file.write(f"{json.dumps(releases[-1])}\n")
    n = asked.releases
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in (row for one in releases[:n] for row in one):
        counted = counts.setdefault((row["gate"], row["release"]), Counter())
        counted.update([row["verdict"]] + ["named"] * row["named"])
    print(f"{n} releases of each kind, seed {asked.seed}")
    print(f"{'gate':34}{'release':10}{'FAIL':>24}{'UNSURE':>8}{'group named':>24}")
    for (name, kind), found in sorted(counts.items()):
        named = share(found["named"], n) if name.startswith("Scotoma") else "never"
        print(
            f"{name:34}{kind:10}{share(found['FAIL'], n):>24}{found['UNSURE'] / n:>8.1%}{named:>24}"
        )


def share(count: int, n: int) -> str:
    """A share with its 95% interval."""
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return f"{count / n:.1%} [{low:.1%}, {high:.1%}]"


if __name__ == "__main__":
    main()
