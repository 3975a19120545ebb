"""Try readers of what comes from outside with spoilt inputs: `python -m tests.fuzz`.

Prints, for each reader, how many inputs were tried and what became of them; what failed is kept in
a folder, one file a failure, and belongs into the corpus once it is put right.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path

from tests.fuzz.harness import Tally, Watch, fuzz
from tests.fuzz.targets import TARGETS

HEADER = ("reader", "tried", "results", "refused", "failures", "slowest s")


def main() -> int:
    """Fuzz, print the table, and end with 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each reader")
    parser.add_argument("--inputs", type=int, default=10**9, help="of each reader, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="readers whose name holds this")
    parser.add_argument(
        "--kept", type=Path, default=Path(tempfile.gettempdir(), "fuzz-failures"), help="folder"
    )
    asked = parser.parse_args()
    chosen = {name: target for name, target in TARGETS.items() if asked.only in name}
    watch, failed = Watch(), 0
    print("| " + " | ".join(HEADER) + " |\n|---|" + "--:|" * (len(HEADER) - 1), flush=True)
    for number, (name, target) in enumerate(chosen.items()):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            tally = fuzz(
                target, Path(folder), watch, seed=[asked.seed, number], inputs=asked.inputs,
                seconds=asked.seconds,
            )  # fmt: skip
        print(_row(name, tally), flush=True)
        for said, data in tally.failures.items():
            failed += 1
            asked.kept.mkdir(exist_ok=True)
            path = asked.kept / f"{target.corpus}-{hashlib.sha256(data).hexdigest()[:8]}"
            path.write_bytes(data)
            print(f"  {said} -> {path}", flush=True)
    return int(failed > 0)


def _row(name: str, tally: Tally) -> str:
    cells = (name, f"{tally.tried:,}", f"{tally.results:,}", f"{tally.refused:,}")
    return "| " + " | ".join((*cells, f"{len(tally.failures)}", f"{tally.slowest_s:.1f}")) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
