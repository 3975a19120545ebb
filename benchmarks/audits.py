"""Is an audit the same whatever the seed, wherever its data lie, however often it runs?

    python benchmarks/audits.py seeds --seeds 0 1 2 3 4
    python benchmarks/audits.py sources --data CIFAR10_FOLDER
    python benchmarks/audits.py soak --audits 12

`seeds` runs `scotoma audit` once a seed and prints, for each pruned variant, top-1, the growth of
the minority style's error, and how much more of it the minority pays than the majority.

`sources` trains one ResNet-8 for one epoch of CIFAR-10 from a folder, then from s3:// (moto's
server on this machine), both with --deterministic, and compares every file of predictions byte by
byte. The folder holds train.parquet and test.parquet. Ends with 1 where one differs.

`soak` runs one audit after the other in one process and prints what it holds after each: memory,
descriptors, threads and children of this process, temporary files, and the largest process that the
audits have begun. Ends with 1 where one of them grows.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cases import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for what the tests made


COLUMNS = "{:>4}  {:<10}  {:>14}  {:>22}  {:>22}  {:>5}"


def run_seed(out: Path, seed: int) -> dict[str, Any]:
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


def seeds(seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> None:
    """Whether the default audit finds who pays, whatever the seed."""
    heads = ("seed", "variant", "top-1 %", "minority error, %", "minority - majority", "n")
    print(COLUMNS.format(*heads))
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            began = time.perf_counter()
            found = run_seed(Path(folder) / str(seed), seed)
            for variant in ("prune-0.9", "prune-0.95"):
                print(COLUMNS.format(seed, variant, *row(found, variant)))
            print(f"      took {time.perf_counter() - began:.0f} s", flush=True)


CONFIG = """
version: 1
project: sources
source:
  kind: cifar10
  data: {data}
  model: resnet8
  recipe: {{steps: 390, batch_size: 128, learning_rate: 0.1}}
label: {{column: label}}
variants: [dense, {{int8: [static]}}]
population: {{models: 1}}
tracking: {{uri: "off"}}
"""


def audit(folder: Path, data: str) -> tuple[dict[str, bytes], float]:
    """The bytes of every file of predictions, and how long the audit took."""
    folder.mkdir()
    config, out = folder / "audit.yaml", folder / "run"
    config.write_text(CONFIG.format(data=data))
    command = [sys.executable, "-m", "scotoma", "audit", str(config), "--out", str(out)]
    began = time.perf_counter()
    subprocess.run([*command, "--deterministic", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    files = {path.name: path.read_bytes() for path in sorted((out / "predictions").iterdir())}
    return files | {"audit.json": (out / "audit.json").read_bytes()}, time.perf_counter() - began


def sources(data: Path) -> None:
    """Whether the same data from a folder and from object storage give the same audit."""
    import boto3
    from moto.server import ThreadedMotoServer

    data = data.resolve()
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    client = boto3.client("s3")
    client.create_bucket(Bucket="data")
    for path in data.glob("*.parquet"):
        client.upload_file(str(path), "data", f"cifar10/{path.name}")
    with tempfile.TemporaryDirectory() as folder:
        found = [
            audit(Path(folder, name), place)
            for name, place in (("local", str(data)), ("remote", "s3://data/cifar10"))
        ]
    server.stop()
    (first, seconds), (second, others) = found
    print(f"folder {seconds:.0f} s, object storage {others:.0f} s")
    for name in first:
        print(f"{name}: {'equal' if first[name] == second[name] else 'DIFFERENT'}")
    sys.exit(first != second)


SETTLED = 3  # audits after which nothing may grow
GROWTH_MIB = 8.0  # that the memory may still grow from there to the end
PAGE = resource.getpagesize()


def audited(config: Path, out: Path) -> float:
    """Run one audit in this process, as the command does; its wall time in seconds."""
    from scotoma.config import load_config
    from scotoma.run.judging import Judging
    from scotoma.steps.audit import run_audit

    began = time.perf_counter()
    run_audit(load_config(config), str(out), Judging(None, datetime.date.today()), quiet=True)
    return time.perf_counter() - began


def held(temporary: Path) -> dict[str, float]:
    """What this process holds now."""
    me = Path("/proc/self")
    resident = int((me / "statm").read_text().split()[1]) * PAGE
    children = (me / "task" / str(os.getpid()) / "children").read_text().split()
    return {
        "memory_mib": round(resident / 2**20, 1),
        "descriptors": len(list((me / "fd").iterdir())) - 1,  # one of them looks
        "threads": len(list((me / "task").iterdir())),
        "children": len(children),
        "temporary_files": len(list(temporary.rglob("*"))),
        "largest_child_mib": round(
            resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10, 1
        ),
    }


def soaked(audits: int) -> list[dict[str, float]]:
    """What is held after each audit."""
    from tests.faults.made import predictions_made_elsewhere

    rows = []
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, _temporary() as temporary:
        config = predictions_made_elsewhere(Path(folder))
        for number in range(audits):
            took = audited(config, Path(folder, f"run-{number:02d}"))
            rows.append({"audit": number + 1, **held(temporary), "took_s": round(took, 1)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A folder of our own for temporary files, so that all that is left can be counted."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        before, os.environ["TMPDIR"] = tempfile.tempdir, folder
        tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before


def grown(rows: Sequence[dict[str, float]]) -> list[str]:
    """What is more at the end than when the first audits had ended."""
    early, last = rows[min(SETTLED, len(rows)) - 1], rows[-1]
    counts = ("descriptors", "threads", "children", "temporary_files")
    found = [name for name in counts if last[name] > early[name]]
    return found + ["memory_mib"] * (last["memory_mib"] > early["memory_mib"] + GROWTH_MIB)


def soak(audits: int = 12) -> None:
    """What stays when audits have ended in one process."""
    more = grown(soaked(audits))
    print(f"grows: {', '.join(more) or 'nothing'}")
    sys.exit(bool(more))


if __name__ == "__main__":
    run(__doc__, seeds, sources, soak)
