"""How populations come to be on disk: chunks of members in worker processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.config import Config
from scotoma.datasets import Examples, decode_images
from scotoma.machine import cores, hardware, versions
from scotoma.runs import Run, code_digest, file_digest, read_json, write_json, written
from scotoma.training.randomness import member_seed

__all__ = ["CHUNK_MEMBERS", "train_populations"]

# Members of one stacked state. A constant, not a function of the cores: the sums inside a fused
# step may depend on who is stacked with whom, and the same config must give the same bytes.
CHUNK_MEMBERS = 5

# One thread a process: OpenMP teams stall when a core is shared. The malloc settings keep glibc
# from giving memory back to the system between steps, only to ask for it again.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}


def train_populations(run: Run, variants: list[str], members: range) -> list[Path]:
    """Train the members of some variants and write each, with its record, as soon as it is done.

    Args:
        run: The run; its examples are prepared.
        variants: Names of dense or pruned variants.
        members: Indices in each population.

    Returns:
        The weight files.
    """
    examples = Examples.read(run.examples).split("train")
    images, labels = decode_images(examples), examples.labels
    source = run.config.source
    chunks = [
        (variant, list(members)[at : at + CHUNK_MEMBERS])
        for variant in variants
        for at in range(0, len(members), CHUNK_MEMBERS)
    ]
    data_digest = file_digest(run.examples)
    due = [chunk for chunk in chunks if not _finished(run, *chunk, data_digest)]
    task = "train " + (variants[0] if len(variants) == 1 else f"{len(variants)} pruned variants")
    if due:
        progress.start(task, sum(len(indices) for _, indices in due) * source.recipe.steps)
        workers = min(len(due), cores())
        with (
            _environment(WORKER_ENVIRONMENT),
            ProcessPoolExecutor(
                workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=(images, labels, len(examples.classes), run.config),
            ) as pool,
        ):
            futures = [
                pool.submit(_train_chunk, run.root, variant, indices, data_digest, task)
                for variant, indices in due
            ]
            for future in as_completed(futures):
                future.result()
    return [run.member(variant, index) for variant, indices in chunks for index in indices]


def _finished(run: Run, variant: str, indices: list[int], data_digest: str) -> bool:
    """Whether every member of a chunk is there, whole, and made from this recipe and data."""
    for index in indices:
        record, weights = (
            run.member(variant, index).with_suffix(".json"),
            run.member(variant, index),
        )
        if not (record.exists() and weights.exists()):
            return False
        found = read_json(record)
        made_from = _origin(run.config, data_digest)
        if {key: found.get(key) for key in made_from} != made_from:
            return False
        if found["sha256"] != file_digest(weights):
            return False
    return True


def _origin(config: Config, data_digest: str) -> dict[str, Any]:
    """What a member is made from and by: if any of it differs, it is trained again."""
    return {
        "model": config.source.model,
        "recipe": config.source.recipe.model_dump(mode="json"),
        "dataset_sha256": data_digest,
        "backend": f"vmap, chunks of {CHUNK_MEMBERS}, CPU, one thread a worker",
        "versions": versions(),
        "code_sha256": code_digest("training"),
    }


_data: tuple[NDArray[np.uint8], NDArray[np.int64], int, Config]  # of a worker, sent to it once


def _start_worker(
    images: NDArray[np.uint8], labels: NDArray[np.int64], classes: int, config: Config
) -> None:
    import torch

    global _data  # a process pool has no other place for what its tasks share
    _data = (images, labels, classes, config)
    torch.set_num_threads(1)
    if config.deterministic:
        torch.use_deterministic_algorithms(True)


def _train_chunk(root: Path, variant: str, indices: list[int], data_digest: str, task: str) -> None:
    """Train one chunk in a worker and write its members."""
    from safetensors.torch import save_file

    from scotoma.training.engine import Member, train_members

    images, labels, classes, config = _data
    run = Run(root, config)
    sparsity = config.variant(variant).sparsity
    seed = config.population.seed
    trained = train_members(
        [Member(variant, k, member_seed(seed, variant, k), sparsity) for k in indices],
        images,
        labels,
        model=config.source.model,
        classes=classes,
        recipe=config.source.recipe,
        progress=lambda steps: progress.advance(task, steps),
    )
    for result in trained:
        path = run.member(variant, result.member.index)
        with written(path) as temporary:
            save_file({n: v.contiguous() for n, v in result.state.items()}, temporary)
        write_json(
            path.with_suffix(".json"),
            {
                "file": path.name,
                "index": result.member.index,
                "seed": result.member.seed,
                **_origin(config, data_digest),
                "hardware": hardware(),
                "loss": list(result.loss),
                "sha256": file_digest(path),
                "bytes": path.stat().st_size,
            },
        )


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables that spawned workers inherit, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
