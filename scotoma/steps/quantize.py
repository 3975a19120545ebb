"""Compress the trained members of a shard, in worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Variant
from scotoma.errors import DataError
from scotoma.extras import home_of
from scotoma.inference import Network
from scotoma.inference.members import (
    calibration_digest,
    graph_files,
    member_files,
    quantized_variants,
)
from scotoma.inference.trials import trials
from scotoma.processes import WorkerPool, progress, worker_pool
from scotoma.processes.machine import Effort, Kind, Workers, cores, versions
from scotoma.run import Run, read_json
from scotoma.run.shards import Shard
from scotoma.run.workers import leave_workers, say
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.steps.compression import Compression


WORTH_S = 3.0  # of work left, for more workers than one
TRIED = 4  # images that the first member of a variant is run on


@when_due
def quantize(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Compress the trained members of a shard in every way that needs no training."""
    variants = quantized_variants(run)
    graphs = graph_files(run, shard)
    outputs = [*member_files(run, [variant.name for variant in variants], shard), *graphs]
    bases = list(dict.fromkeys(variant.derived_from for variant in variants))
    inputs = member_files(run, bases, shard)
    made_with = f"{versions()}{calibration_digest(run, variants)}"
    yield Leaves(outputs, inputs, made_with)
    if variants:
        home_of("torch", "train", "quantization")  # which the workers import
        home_of("onnxruntime", "train", "quantization")
        run.fetch(*outputs)  # of members that an earlier try has finished
        used = Workers()
        quantize_shard(run, variants, shard, *graphs, used=used)
        say("quantize", used.kinds.values())
        leave_workers(run, "quantize", shard.index, used)


def quantize_shard(
    run: Run, variants: list[Variant], shard: Shard, graph: Path, *, used: Workers | None = None
) -> None:
    """Compress the members of a shard and write each with its record.

    One worker exports the architecture once, to `graph`, and begins; where more than three seconds
    seem left, as many as there are cores go on. What they write does not depend on it.
    """
    bases = list(dict.fromkeys(variant.derived_from for variant in variants))
    tasks = [(base, index) for base in bases for index in shard.members]
    progress.start("quantize", len(variants) * len(shard.members))
    kind = (used or Workers()).of("processor", "the processor")
    kind.members, kind.workers = len(tasks) * len(variants) // len(bases), 1
    kind.why, kind.began = "the network is exported once", time.perf_counter()
    with ExitStack() as pools:
        pool = pools.enter_context(worker_pool(1, _prepare, run, variants))
        pool.submit(_write_graph, graph, task="exporting the network").result()
        run.publish(graph)
        _compress_with(pool, tasks[:1], kind)
        first = [v for v in variants if (v.derived_from, shard.members[0]) == tasks[0]]
        _try_first(run, first, shard, *pool.submit(_trial_input, task="quantizing").result())
        began = time.perf_counter()
        for done, task in enumerate(tasks[1:], 1):
            _compress_with(pool, [task], kind)
            rest = tasks[1 + done :]
            if (time.perf_counter() - began) / done * len(rest) > WORTH_S and cores() > 1:
                prepared = pool.submit(_prepared, task="quantizing").result()
                kind.workers = min(cores(), len(rest))
                kind.why = "one a core, and no more than members"
                many = worker_pool(kind.workers, _prepared, prepared)
                _compress_with(pools.enter_context(many), rest, kind)
                return


def _try_first(
    run: Run, variants: list[Variant], shard: Shard, network: Network, images: NDArray[np.uint8]
) -> None:
    """Run the first compressed members; what they do to ONNX Runtime, all of their variant do.

    One that is refused is removed, so that it is not taken for finished.
    """
    with trials() as attempt:
        for variant in variants:
            path = run.member(variant.name, shard.members[0])
            record = path.with_suffix(".json")
            if read_json(record)["export"]["largest_difference"] is None:
                continue  # it diverged in training: its scores are no numbers
            try:
                attempt(path, network, images, called=f"{variant.name}/{path.name}")
            except DataError:
                path.unlink()
                record.unlink()
                raise


def _compress_with(pool: WorkerPool, tasks: list[tuple[str, int]], kind: Kind) -> None:
    futures = [
        pool.submit(_compress, base, index, task=f"quantizing {base} member {index}")
        for base, index in tasks
    ]
    for future in futures:
        kind.efforts.append(future.result())
        kind.ended = time.perf_counter()


def _prepare(run: Run, variants: list[Variant]) -> Compression:
    from scotoma.steps.compression import Compression

    return Compression.prepare(run, variants)


def _prepared(compression: Compression) -> Compression:
    return compression


def _trial_input(compression: Compression) -> tuple[Network, NDArray[np.uint8]]:
    return compression.network, compression.pixels["sound"][:TRIED]


def _write_graph(compression: Compression, path: Path) -> None:
    with written(path) as temporary:
        compression.architecture.write(temporary)


def _compress(compression: Compression, base: str, index: int) -> Effort:
    began, worked = time.perf_counter(), time.process_time()
    compression(base, index)
    return Effort(time.perf_counter() - began, time.process_time() - worked)
