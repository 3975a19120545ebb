"""How large is a member, on disk and compressed, and how long does it take?"""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.inference.engines import Engine, Network, open_engine
from scotoma.inference.model_process import call_limited
from scotoma.inference.preprocessing import PixelArray
from scotoma.processes import IsolatedProcess

BATCHES = (1, 64)  # images at once
RUNS, LIMIT_S = 100, 2.0  # of one batch size, whichever comes first
FEWEST = 5


def measure_latencies(path: Path, network: Network, images: PixelArray) -> dict[str, Any]:
    """Measure the latencies of one member.

    Args:
        path: Its file.
        network: What it is run as.
        images: uint8, shape (N, 3, H, W), at least one; repeated to fill a batch.

    Returns:
        `latency` by batch size, 1 and 64.
    """
    engine = open_engine(path, network, together=True)
    return {
        "latency": {
            str(batch): latency(engine, np.resize(images, (batch, *images.shape[1:])))
            for batch in BATCHES
        },
    }


def latencies_apart(
    process: IsolatedProcess, path: Path, network: Network, images: PixelArray
) -> dict[str, Any]:
    """Measure as `measure_latencies` does, in a process that the member may take down."""
    measured: dict[str, Any] = call_limited(
        *(process, measure_latencies, path, network, images),
        path=path, network=network, images=max(BATCHES), batches=len(BATCHES) * (FEWEST + 2),
    )  # fmt: skip
    return measured


def file_sizes(path: Path) -> dict[str, Any]:
    """Size of a file, on disk and compressed.

    zlib at its default level: Python has Zstandard only from 3.14. Zeros and repeated bytes
    shrink, so a pruned member is smaller here and not on disk.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(bytes(100_000)), file.flush()
    ...     sizes = file_sizes(Path(file.name))
    >>> sizes["bytes"], sizes["compressed_bytes"] < 200
    (100000, True)
    """
    compressor, packed = zlib.compressobj(), 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            packed += len(compressor.compress(block))
    packed += len(compressor.flush())
    return {
        "bytes": path.stat().st_size,
        "compressed_bytes": packed,
        "compression": "zlib",
    }


def latency(engine: Engine, pixels: PixelArray) -> dict[str, float]:
    """Time one batch from pixels to scores, with one thread.

    Args:
        engine: The member.
        pixels: uint8, shape (B, 3, H, W).

    Returns:
        Median and quartiles in milliseconds, and n, the number of runs; two more warm up.
    """
    for _ in range(2):
        engine.scores(pixels)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < RUNS and (len(times) < FEWEST or time.perf_counter() - began < LIMIT_S):
        start = time.perf_counter()
        engine.scores(pixels)
        times.append(1000 * (time.perf_counter() - start))
    low, median, high = np.percentile(times, [25, 50, 75]).round(4).tolist()
    return {"median_ms": median, "low_ms": low, "high_ms": high, "n": len(times)}
