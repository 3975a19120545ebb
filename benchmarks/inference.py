"""What does it take to run a population, and to keep what it says?

    python benchmarks/inference.py --data ../shared/data/cifar10
    python benchmarks/inference.py --predictions 100_000_000

The first runs a population of ResNet-20 on CIFAR-10's test images as the audit does, beside one
pass a member as one would write it: decode, normalise, batches of 128, float32, eager, with as many
threads as there are cores, and with one. The naive passes are timed on a few members. The second
writes synthetic predictions a row group at a time, counts their labels and prints the peak memory
of the process. Wall times: of use on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from scotoma.predictions import Predictions, label_counts, write_predictions
from scotoma.processes.machine import hardware, versions

MEMBERS, CLASSES, PART = 30, 10, 2**18
GIB = 2**30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10's test.parquet")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--naive", type=int, default=2, help="members that are passed naively")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--predictions", type=int, default=100_000_000)
    parser.add_argument("--counting", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.counting:  # in a process of its own, so that its peak memory can be told
        print(json.dumps(counted(asked.counting)))
        return
    facts = hardware()
    print(f"{facts['cpu']}, {facts['cores']} cores, load {os.getloadavg()[0]:.1f}")
    print(", ".join(f"{name} {versions()[name]}" for name in ("torch", "polars", "numpy")))
    command = [sys.executable, __file__, "--counting", str(asked.predictions)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(
        f"{found['rows'] * MEMBERS:,} predictions: written in {found['write_s']:.1f} s, counted in "
        f"{found['count_s']:.1f} s; {found['bytes'] / GIB:.2f} GiB on disk; peak memory "
        f"{found['peak'] / GIB:.2f} GiB, of which {found['start'] / GIB:.2f} before the start",
        flush=True,
    )
    if asked.data:
        population(asked.data, asked.model, asked.members, asked.naive, asked.images)


def counted(predictions: int) -> dict[str, float]:
    """Write predictions of 30 members, and count their labels."""
    rows = predictions // MEMBERS
    names = tuple(str(c) for c in range(CLASSES))
    start = peak_bytes()

    def parts() -> Iterator[Predictions]:
        rng = np.random.default_rng(0)
        for at in range(0, rows, PART):
            n = min(PART, rows - at)
            likely = rng.integers(0, CLASSES, (n, 1), dtype=np.uint8)
            other = rng.integers(0, CLASSES, (n, MEMBERS), dtype=np.uint8)
            predicted = np.where(rng.random((n, MEMBERS), dtype=np.float32) < 0.9, likely, other)
            ids = pl.int_range(at, at + n, eager=True).cast(pl.String).str.zfill(10)
            yield Predictions("dense", predicted, tuple(ids), tuple(range(MEMBERS)), names)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predictions.parquet")
        began = time.perf_counter()
        write_predictions(path, parts())
        written = time.perf_counter()
        total = np.zeros(CLASSES, np.int64)
        for part in Predictions.parts(path):
            total += label_counts(part.predicted, CLASSES).sum(axis=0)
        done = time.perf_counter()
        assert total.sum() == rows * MEMBERS
        return {
            "rows": rows,
            "write_s": written - began,
            "count_s": done - written,
            "bytes": path.stat().st_size,
            "start": start,
            "peak": peak_bytes(),
        }


def peak_bytes() -> int:
    """Most memory that this process has held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class WorkersMemory(threading.Thread):
    """The most memory that all processes begun by this one held together; pages shared count once.

    Attributes:
        peak: In bytes; 0 where the system does not tell.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.ended.wait(0.5):
            self.peak = max(self.peak, sum(map(held, descendants(os.getpid()))))


def descendants(process: int) -> Iterator[int]:
    """Those that a process has begun, and those that they have."""
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            yield child
            yield from descendants(child)


def held(process: int) -> int:
    """Bytes of a process, each page divided among those who share it; 0 if it is gone."""
    with contextlib.suppress(OSError):
        found = re.search(
            r"^Pss: +(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M
        )
        return 1024 * int(found[1]) if found else 0
    return 0


def population(data: Path, name: str, members: int, naive: int, images: int) -> None:
    """A population as the audit runs it, beside one pass a member."""
    import torch
    from safetensors.torch import save_file

    from scotoma.config import parse_config
    from scotoma.datasets import decode_images, decode_images_to
    from scotoma.inference import Network, predict_members
    from scotoma.quantization.graphs import export_graph
    from scotoma.sources.reading import load_examples
    from scotoma.training.models import build_model

    config = parse_config(
        f"source: {{kind: cifar10, data: {data.resolve()}, model: {name}}}\n"
        "label: {column: label}\nvariants: [dense, {int8: [static]}]",
        "the benchmark",
    )
    test = load_examples(config).split("test")
    test = replace(test, table=test.table.head(images))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for seed in range(members):
            files.append(Path(folder, f"{seed}.safetensors"))
            save_file(dict(build_model(name, CLASSES, seed).state_dict()), files[-1])

        def pass_naively(file: Path) -> np.ndarray:
            from safetensors.torch import load_file

            model = build_model(name, CLASSES, 0).eval()
            model.load_state_dict(load_file(file))
            pixels = torch.from_numpy(decode_images(test)).float() / 127.5 - 1
            with torch.inference_mode():
                found = [model(batch).argmax(dim=1) for batch in torch.split(pixels, 128)]
            return torch.cat(found).numpy()

        alone = {}
        for threads in (os.cpu_count() or 1, 1):
            torch.set_num_threads(threads)
            expected = [pass_naively(files[0])]  # warms up
            began = time.perf_counter()
            expected = [pass_naively(file) for file in files[:naive]]
            alone[threads] = (time.perf_counter() - began) / naive
            print(
                f"naive pass of {name} on {len(test.ids):,} images, {threads} threads: "
                f"{alone[threads]:.2f} s a member, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        for workers, asked in ((0, files[:naive]), (None, files)):
            memory = WorkersMemory()
            memory.start()
            began = time.perf_counter()
            path = Path(folder, "images.npy")
            decode_images_to(path, test)
            found = np.zeros((len(test.ids), len(asked)), np.uint8)
            graph = Path(folder, "graph.onnx")
            model = build_model(name, CLASSES, 0)
            export_graph(model, torch.zeros(2, 3, 32, 32)).write(graph)
            network = Network(name, CLASSES, graph=graph)
            for answers in predict_members(asked, path, network, workers=workers):
                found[answers.rows, answers.member] = answers.predicted
            took = time.perf_counter() - began
            memory.ended.set()
            apart = sum(int((found[:, k] != expected[k]).sum()) for k in range(naive))
            how = "in one process of one thread" if workers == 0 else "as the audit runs it"
            times = " and ".join(
                f"{len(asked) * seconds / took:.2f} times a naive pass of {threads} threads"
                for threads, seconds in alone.items()
            )
            print(
                f"{len(asked)} members {how}: {took:.1f} s, {times}; {apart} labels differ; "
                f"workers held {memory.peak / GIB:.2f} GiB together at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
