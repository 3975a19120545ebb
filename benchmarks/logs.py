"""How fast evaluation logs are read, paired and compared, beside json.loads and pandas.

    python benchmarks/logs.py                    # 100,000 examples x 2 models, 1 GB
    python benchmarks/logs.py --examples 3000

Writes two logs in the form of lm-evaluation-harness 0.4.13, reads them with an attribute, and pairs
them. Peak memory is that of this process and of the one that reads, together. Then the whole
command compares them: report, tables and examples included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scotoma.readers.logs import read_logs
from scotoma.readers.pairing import pair

MODELS = ("bf16", "w4a16")
LINE_BYTES = 5_000
PANDAS = """
import sys
import pandas as pd

before, after = (pd.read_json(path, lines=True) for path in sys.argv[1:])
both = before.merge(after, on="doc_hash", suffixes=("", "_after"))
both["group"] = both["doc"].map(lambda doc: doc["group"])
both["change"] = both["acc_after"] - both["acc"]
print(both.groupby("group")[["acc", "acc_after", "change"]].mean())
"""


def main() -> None:
    """Write, read, pair, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--examples", type=int, default=100_000, help="Examples of each model.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [write(folder / model, asked.examples, model) for model in MODELS]
        size = sum(path.stat().st_size for path in paths)
        print(f"{asked.examples:,} examples x 2 models, {size / 1e9:.2f} GB of JSONL")
        began = time.perf_counter()
        for path in paths:
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)
        print(f"json.loads of every line: {time.perf_counter() - began:.1f} s")
        began, cpu = time.perf_counter(), children_s()
        subprocess.run([sys.executable, "-c", PANDAS, *map(str, paths)], check=True)
        print(
            f"what a script in pandas takes for the change of each group, without intervals: "
            f"{time.perf_counter() - began:.1f} s, {children_s() - cpu:.1f} s of CPU"
        )
        began = time.perf_counter()
        logs = []
        for model in MODELS:
            (folder / f"{model}-texts").mkdir()
            read = read_logs([folder / model], folder / f"{model}-texts", attributes=["doc.group"])
            logs.append(read["sums"])
        read_s = time.perf_counter() - began
        pairs = pair(*logs)
        flips = (pairs.baseline["score.acc"] != pairs.compressed["score.acc"]).sum()
        print(f"read_logs: {read_s:.1f} s, pair: {time.perf_counter() - began - read_s:.1f} s")
        print(f"{pairs.examples:,} pairs, {flips:,} flips")
        # The process that reads ends with this one, so its peak is read from the system.
        print(f"peak memory: {peak_gib():.2f} GiB")
        began, cpu = time.perf_counter(), children_s()
        command = ["compare", *MODELS, "--group", "doc.group", "--out", "run", "--quiet"]
        subprocess.run([sys.executable, "-m", "scotoma", *command], cwd=folder, check=True)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(
            f"scotoma compare --group --out: {time.perf_counter() - began:.1f} s, "
            f"{children_s() - cpu:.1f} s of CPU"
        )
        print(f"its largest process: {largest:.2f} GiB")


def write(folder: Path, examples: int, model: str) -> Path:
    """Write a log whose lines have 5,000 bytes each."""
    folder.mkdir()
    path = folder / "samples_sums_2026-01-01T00-00-00.000000.jsonl"
    shots = "Question: What is 1 + 1?\nAnswer: 2\n\n" * 60
    with path.open("w", encoding="utf-8") as file:
        for n in range(examples):
            right = float((n * 7919) % 100 >= (20 if model == "bf16" else 23))
            row = {
                "doc_id": n,
                "doc": {"question": f"What is {n} + {n}?", "group": n % 9},
                "target": str(2 * n),
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"{shots}Question: What is {n} + {n}?\nAnswer:",
                        "arg_1": {"until": ["Question:"]},
                    }
                },
                "resps": [[f"Step {n}. " * 120 + f"So it is {2 * n + 1 - int(right)}."]],
                "filtered_resps": [str(2 * n + 1 - int(right))],
                "filter": "strict",
                "metrics": ["acc"],
                "doc_hash": f"{n:064x}",
                "prompt_hash": f"{n:064x}",
                "target_hash": f"{n:064x}",
                "acc": right,
            }
            line = json.dumps(row)
            row["padding"] = "x" * (LINE_BYTES - len(line) - 16)
            file.write(json.dumps(row) + "\n")
    return path


def children_s() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_gib() -> float:
    """The peak of this process and those that it has started."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = Path("/proc/self/task").glob("*/children")
    peaks = [
        int(line.split()[1])
        for child in " ".join(one.read_text() for one in children).split()
        for line in Path(f"/proc/{child}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return (own + sum(peaks)) / 2**20


if __name__ == "__main__":
    main()
