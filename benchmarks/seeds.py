"""Does the default audit find who pays, whatever the seed?

    python benchmarks/seeds.py --seeds 0 1 2 3 4

Runs `scotoma audit` once a seed and prints, for each pruned variant, top-1, the growth of the
minority style's error, and how much more of it the minority pays than the majority.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COLUMNS = "{:>4}  {:<10}  {:>14}  {:>22}  {:>22}  {:>5}"


def main() -> None:
    """Run the audits and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    seeds = parser.parse_args().seeds
    heads = ("seed", "variant", "top-1 %", "minority error, %", "minority - majority", "n")
    print(COLUMNS.format(*heads))
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            began = time.perf_counter()
            audit = run(Path(folder) / str(seed), seed)
            for variant in ("prune-0.9", "prune-0.95"):
                print(COLUMNS.format(seed, variant, *row(audit, variant)))
            print(f"      took {time.perf_counter() - began:.0f} s", flush=True)


def run(out: Path, seed: int) -> dict[str, Any]:
    """One audit, through the command."""
    command = [sys.executable, "-m", "scotoma", "audit", "--seed", str(seed), "--out", str(out)]
    done = subprocess.run([*command, "--json", "--quiet"], check=True, stdout=subprocess.PIPE)
    audit: dict[str, Any] = json.loads(done.stdout)
    return audit


def row(audit: dict[str, Any], variant: str) -> tuple[str, ...]:
    """Top-1, the minority's relative change and the gap, as text."""
    top1 = {row["variant"]: 100 * row["number"]["value"] for row in audit["rows"]["accuracy"]}
    dense, pruned = (top1[name] for name in ("dense", variant))
    (gap,) = (
        r["number"]
        for r in audit["rows"]["gaps"]
        if r["variant"] == variant and r["what"] == "gap" and r["facts"]["attribute"] == "exposure"
    )
    (change,) = (
        row["number"]
        for row in audit["rows"]["rates"]
        if (row["variant"], row["metric"], row["group"], row["what"])
        == (variant, "error", "exposure=minority", "relative")
    )
    return (
        f"{dense:.2f} to {pruned:.2f}",
        "{:+.0f} [{:+.0f}, {:+.0f}]".format(*(100 * change[k] for k in ("value", "low", "high"))),
        "{:.2f} [{:.2f}, {:.2f}]".format(*(100 * gap[key] for key in ("value", "low", "high"))),
        str(gap["n"]),
    )


if __name__ == "__main__":
    main()
