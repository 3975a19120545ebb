"""What an audit of many classes, groups or attributes takes: seconds, memory, size of audit.json.

    python benchmarks/scale.py [CASE] [--baseline CHECKOUT]

Cases are EXAMPLESxCLASSESxGROUPS, such as 50000x1000x200 (one attribute of 200 values), or
EXAMPLESxCLASSESx2^200 (200 attributes of two values). Writes made-up predictions of 5 dense and 5
compressed models, runs `scotoma audit` in a process of its own, of this checkout and of the
baseline, and prints one JSON object a checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
MODELS, ERROR, COMPRESSED_ERROR = 5, 0.20, 0.24
CONFIG = """version: 1
project: scale
source: {{kind: predictions, files: "predictions.parquet", examples: examples.parquet}}
label: {{column: label}}
groups:
{groups}
tracking: {{uri: "off"}}
"""


def write_tables(folder: Path, examples: int, classes: int, values: int, attributes: int) -> None:
    """Write predictions, examples and the configuration that audits them.

    Args:
        folder: Where they go.
        examples: Test examples.
        classes: Number of classes.
        values: Values of each attribute.
        attributes: Number of attributes.
    """
    random = np.random.default_rng(7)
    names = np.array([f"class {number:04d}" for number in range(classes)])
    ids = np.array([f"{row:07d}" for row in range(examples)])
    labels = random.integers(classes, size=examples)
    hard = random.beta(0.4, 1.6, size=examples)  # mean 0.2: errors of the models fall together
    words = np.array([f"value {number}" for number in range(values)])  # numbers would be binned
    columns = {f"a{number:03d}": words[random.integers(values, size=examples)]
               for number in range(attributes)}  # fmt: skip
    table = pl.DataFrame({"example_id": ids, "label": names[labels]} | columns)
    table.write_parquet(folder / "examples.parquet")
    tables = []
    for variant, error in (("dense", ERROR), ("pruned", COMPRESSED_ERROR)):
        for model in range(MODELS):
            wrong = random.random(examples) < hard * error / ERROR
            other = (labels + random.integers(1, min(classes, 6), size=examples)) % classes
            predicted = names[np.where(wrong, other, labels)]
            tables.append(
                pl.DataFrame({"example_id": ids, "predicted": predicted}).with_columns(
                    pl.lit(variant).alias("variant"), pl.lit(f"{model}").alias("model")
                )
            )
    pl.concat(tables).write_parquet(folder / "predictions.parquet")
    groups = "\n".join(f"  {name}: {{column: {name}}}" for name in columns)
    (folder / "audit.yaml").write_text(CONFIG.format(groups=groups), encoding="utf-8")


def measured(checkout: Path, command: list[str], folder: Path) -> dict[str, float]:
    """Run a command of a checkout; its wall time, CPU time and peak memory, of all its processes.

    Memory is the proportional share of each process (PSS), summed over the tree ten times a second.
    """
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    began, peak = time.perf_counter(), 0
    worked: dict[int, float] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "scotoma", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            tree = _tree(process.pid)
            peak = max(peak, sum(map(_memory_kib, tree)))
            worked |= {pid: _cpu_seconds(pid) or worked.get(pid, 0.0) for pid in tree}
            time.sleep(0.1)
        seconds = time.perf_counter() - began
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}")
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(worked.values()), 1),
        "peak_gib": round(peak / 2**20, 2),
    }


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process: what a busy machine leaves as it is."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        below = " ".join((task / "children").read_text() for task in tasks).split()
    except OSError:  # it has just ended
        return [pid]
    return [pid, *(one for child in below for one in _tree(int(child)))]


def _memory_kib(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    shares = re.findall(r"^Pss:\s+(\d+) kB", text, flags=re.MULTILINE)
    return sum(map(int, shares))


def audited(checkout: Path, home: Path, out: Path) -> dict[str, object]:
    """Audit the tables of a folder with the code of a checkout."""
    row = measured(checkout, ["audit", "audit.yaml", "--out", str(out), "--quiet"], home)
    steps = {
        path.stem: json.loads(path.read_text())["time_s"]
        for path in sorted((out / "steps").glob("*.json"))
    }
    megabytes = {
        path.name: round(path.stat().st_size / 1e6, 2)
        for path in sorted(out.iterdir())
        if path.suffix in (".json", ".parquet", ".html") and path.stat().st_size > 1e5
    }
    return {"checkout": str(checkout), **row, "megabytes": megabytes, "steps_s": steps}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("case", nargs="?", default="50000x1000x200")
    parser.add_argument("--baseline", type=Path, help="another checkout, measured after this one")
    parser.add_argument("--keep", type=Path, help="leave tables and runs in this folder")
    asked = parser.parse_args()
    shape = re.fullmatch(r"(\d+)x(\d+)x(?:(\d+)\^)?(\d+)", asked.case)
    if shape is None:
        parser.error(f"CASE must be EXAMPLESxCLASSESxGROUPS, got {asked.case}")
    examples, classes, last = int(shape[1]), int(shape[2]), int(shape[4])
    values, attributes = (int(shape[3]), last) if shape[3] else (last, 1)
    with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
        home = asked.keep or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        write_tables(home, examples, classes, values, attributes)
        for name, checkout in (("this", ROOT), ("baseline", asked.baseline)):
            if checkout is not None:
                row = audited(checkout.resolve(), home, home.resolve() / f"run-{name}")
                print(json.dumps({"case": asked.case, **row}), flush=True)


if __name__ == "__main__":
    main()
