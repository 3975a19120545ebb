"""How populations come to be on disk: chunks of members in worker processes of one thread each."""

from __future__ import annotations

import tempfile
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.config import Config
from scotoma.datasets import Examples, Images, StoredImages, store_images
from scotoma.machine import cores, hardware, versions
from scotoma.own_code import is_code, module_digest
from scotoma.runs import Run, code_digest, file_digest, read_json, write_json, written
from scotoma.training.randomness import member_seed
from scotoma.workers import worker_pool

if TYPE_CHECKING:
    from scotoma.training.backends import Backend

__all__ = ["train_populations"]


def train_populations(run: Run, variants: list[str], members: range) -> list[Path]:
    """Train the members of some variants and write each, with its record, as soon as it is done.

    Args:
        run: The run; its examples are prepared.
        variants: Names of dense or pruned variants.
        members: Indices in each population.

    Returns:
        The weight files.
    """
    examples = Examples.read(run.examples, images=False).split("train")
    data_digest = file_digest(run.examples)
    wanted = [(variant, index) for variant in variants for index in members]
    due = {member for member in wanted if not _finished(run, *member, data_digest)}
    if due:
        with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
            from scotoma.training.models import build_model
            from scotoma.training.own import try_outputs
            from scotoma.training.trial import CHUNK_MEMBERS, choose_backend

            stored = store_images(run.examples, "train", Path(folder))
            images = stored.open()
            if is_code(name := run.config.source.model):
                classes = len(examples.classes)
                try_outputs(build_model(name, classes, 0), name, classes, images.shape[2:])
            backend = choose_backend(run.config, images, examples.labels)
            size = CHUNK_MEMBERS if backend == "stacked" else 1
            chunks = [
                (variant, list(members)[at : at + size])
                for variant in variants
                for at in range(0, len(members), size)
            ]
            chunks = [chunk for chunk in chunks if due & {(chunk[0], k) for k in chunk[1]}]
            _train(run, chunks, (stored, examples.labels, len(examples.classes), backend))
    return [run.member(variant, index) for variant, index in wanted]


def _train(run: Run, chunks: list[tuple[str, list[int]]], data: Data) -> None:
    """Train every chunk, in as many worker processes as there are cores."""
    variants = list(dict.fromkeys(variant for variant, _ in chunks))
    task = f"train {variants[0] if len(variants) == 1 else f'{len(variants)} pruned variants'}"
    steps = run.config.source.recipe.resolved(len(data[1])).total_steps
    progress.start(task, sum(len(indices) for _, indices in chunks) * steps)
    data_digest = file_digest(run.examples)
    with worker_pool(min(len(chunks), cores()), _start_worker, run, data) as pool:
        futures = [pool.submit(_train_chunk, *chunk, data_digest, task) for chunk in chunks]
        for future in as_completed(futures):
            future.result()


def _finished(run: Run, variant: str, index: int, data_digest: str) -> bool:
    """Whether a member is there, whole, and made from this recipe and data."""
    weights = run.member(variant, index)
    record = weights.with_suffix(".json")
    if not (record.exists() and weights.exists()):
        return False
    found, made_from = read_json(record), _origin(run.config, data_digest)
    same = {key: found.get(key) for key in made_from} == made_from
    return same and bool(found["sha256"] == file_digest(weights))


def _origin(config: Config, data_digest: str) -> dict[str, Any]:
    """What a member is made from: if any of it differs, it is trained again."""
    model = config.source.model
    return {
        "model": model,
        "recipe": config.source.recipe.model_dump(mode="json"),
        "dataset_sha256": data_digest,
        "versions": versions(),
        "code_sha256": code_digest("training"),
        **({"model_sha256": module_digest(model)} if is_code(model) else {}),
    }


# Images, labels, number of classes, and how gradients are had.
Data: TypeAlias = "tuple[StoredImages, NDArray[np.int64], int, Backend]"
_shared: tuple[Run, Images, Data]  # of a worker, sent to it once


def _start_worker(run: Run, data: Data) -> None:
    import torch

    global _shared  # a process pool has no other place for what its tasks share
    _shared = (run, data[0].open(), data)
    torch.set_num_threads(1)
    if run.config.deterministic:
        torch.use_deterministic_algorithms(True)


def _train_chunk(variant: str, indices: list[int], data_digest: str, task: str) -> None:
    """Train one chunk in a worker and write its members."""
    from safetensors.torch import save_file

    from scotoma.training.engine import Member, products_precision, train_members
    from scotoma.training.pruning import Pruning
    from scotoma.training.sparse import sparse_bytes
    from scotoma.training.task import classification

    run, images, (_, labels, classes, backend) = _shared
    config, recipe = run.config, run.config.source.recipe.resolved(len(labels))
    sparsity, seed = config.variant(variant).sparsity, config.population.seed
    trained = train_members(
        [Member(variant, k, member_seed(seed, variant, k), sparsity) for k in indices],
        images,
        labels,
        model=config.source.model,
        task=classification(classes, recipe),
        pruning=Pruning.of(config.variant(variant)),
        recipe=recipe,
        backend=backend,
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
                "steps": recipe.total_steps,
                "backend": backend,
                "trained_with": indices,
                "products": str(products_precision(recipe)).removeprefix("torch."),
                "hardware": hardware(),
                "loss": list(result.loss),
                "sha256": file_digest(path),
                "bytes": path.stat().st_size,
                "size": sparse_bytes(result.state, result.weights).record(),
            },
        )
        run.publish(path, path.with_suffix(".json"))
