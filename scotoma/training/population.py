"""How populations come to be on disk: chunks of members in worker processes of one thread each."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import as_completed
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.config import Config
from scotoma.config.own_code import is_code, module_digest
from scotoma.datasets import AuditedExamples, IndexedImages, StoredImages, store_images
from scotoma.errors import ConfigError
from scotoma.processes import map_in_order, worker_pool
from scotoma.processes.machine import cores, gpu_watched, hardware, has_gpu_driver, versions
from scotoma.processes.used import Effort, Workers
from scotoma.run import Run, code_digest, read_json, read_record, write_json
from scotoma.storage.files import file_digest, written
from scotoma.training.checkpoints import checkpoint_steps, write_checkpoints
from scotoma.training.mitigated import (
    chosen_settings,
    dense_members,
    epoch_rows,
    learned_from,
    learning_task,
    run_groups,
    settings_file,
    training_digest,
)
from scotoma.training.randomness import member_seed

if TYPE_CHECKING:
    import torch

    from scotoma.training.backends import Backend
    from scotoma.training.engine import TrainedMember, Training
    from scotoma.training.task import TrainingTask


def train_populations(
    run: Run, variants: list[str], members: range, used: Workers | None = None
) -> list[Path]:
    """Train the members of some variants and write each, with its record, as soon as it is done.

    Args:
        run: The run; its examples are prepared.
        variants: Names of dense or pruned variants.
        members: Indices in each population.
        used: Filled with who trained them.

    Returns:
        The weight files.
    """
    examples = AuditedExamples.read(run.examples, images=False, split="train")
    data_digest = training_digest(run)
    wanted = [(variant, index) for variant in variants for index in members]
    due = {member for member in wanted if not _finished(run, *member, data_digest)}
    if due:
        with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
            stored = store_images(run.examples, "train", Path(folder))
            data = (stored, examples.shown_labels, len(examples.classes))
            _train(run, wanted, due, data, data_digest, Workers() if used is None else used)
    return [run.member(variant, index) for variant, index in wanted]


def _train(
    run: Run,
    wanted: list[tuple[str, int]],
    due: set[tuple[str, int]],
    data: TrainingData,
    data_digest: str,
    used: Workers,
) -> None:
    """Train every chunk that holds a member that is due, in worker processes.

    This process imports no torch: that would take longer than training a small network.
    """
    variants = list(dict.fromkeys(variant for variant, _ in wanted))
    task = f"train {variants[0] if len(variants) == 1 else f'{len(variants)} pruned variants'}"
    recipe = run.config.source.recipe.resolved(epoch_rows(run, data[1]))
    shared = recipe.mask_updates[0] if run.config.variant(variants[0]).forked else 0
    most = min(1 if has_gpu_driver() else cores(), len(due))
    with ExitStack() as pools:
        pool = pools.enter_context(worker_pool(most, _start_worker, run, data))
        if run.config.mitigation is not None and run.config.mitigation.chooses:
            pool.submit(_choose_settings, data_digest, task="choosing settings").result()
        way = pool.submit(_choose_way, task="trying a step of training").result()
        workers = min(way.workers, len(due))
        if workers > most == 1 < len(due):  # torch has no use for that GPU
            pool = pools.enter_context(worker_pool(workers, _start_worker, run, data))
        chunks = _chunks(wanted, due, way.together)
        progress.start(task, sum(len(own) for _, own in chunks) * (recipe.total_steps - shared))
        kind = used.of("gpu" if way.gpu else "processor", way.gpu or "the processor")
        kind.members, kind.workers, kind.why = len(due), min(workers, len(chunks)), way.why
        use = pools.enter_context(gpu_watched(wanted=bool(way.gpu)))
        kind.gpu, kind.began = use if way.gpu else None, time.perf_counter()
        futures = {
            pool.submit(
                _train_chunk, *chunk, way.backend, data_digest, task,
                task=f"training {_named(*chunk)}",
            ): chunk
            for chunk in chunks
        }  # fmt: skip
        for future in as_completed(futures):
            for effort, first_s in future.result():
                kind.efforts.append(effort)
                kind.ended = time.perf_counter()
                if way.gpu:
                    print(
                        f"{_named(*futures[future])}: {effort.seconds:.1f} s, the first step "
                        f"{first_s:.1f} s of them; {effort.gpu_bytes / 2**30:.1f} GiB",
                        flush=True,
                    )


class Way(NamedTuple):
    """How members are trained.

    Attributes:
        backend: How gradients are computed.
        together: Members of a chunk.
        workers: Processes that train chunks.
        why: Why so many.
        gpu: Name of the GPU; empty without one.
    """

    backend: Backend
    together: int
    workers: int
    why: str
    gpu: str


def _named(variant: str, indices: list[int]) -> str:
    """Name members of a variant.

    >>> _named("dense", [3]), _named("dense", [0, 1, 2])
    ('dense member 3', 'dense members 0 to 2')
    """
    first, last = indices[0], indices[-1]
    return f"{variant} member {first}" if first == last else f"{variant} members {first} to {last}"


def _chunks(
    wanted: list[tuple[str, int]], due: set[tuple[str, int]], size: int
) -> list[tuple[str, list[int]]]:
    """Members that are trained together, `size` of one variant; chunks in which none is due go.

    >>> _chunks([("dense", 0), ("dense", 1), ("dense", 2)], {("dense", 0)}, 2)
    [('dense', [0, 1])]
    """
    chunks = []
    for variant in dict.fromkeys(variant for variant, _ in wanted):
        indices = [index for name, index in wanted if name == variant]
        chunks += [(variant, indices[at : at + size]) for at in range(0, len(indices), size)]
    return [chunk for chunk in chunks if due & {(chunk[0], k) for k in chunk[1]}]


def _finished(run: Run, variant: str, index: int, data_digest: str) -> bool:
    """Whether a member is there, whole, and made from this recipe and data."""
    weights = run.member(variant, index)
    record = weights.with_suffix(".json")
    if not weights.exists():
        return False
    kept, origin = read_record(record), _origin(run.config, data_digest)
    same = {key: kept.get(key) for key in {*origin, "mitigation"}} == {"mitigation": None} | origin
    return same and bool(kept.get("sha256") == file_digest(weights))


def _origin(config: Config, data_digest: str) -> dict[str, Any]:
    """What a member is made from: if any of it differs, it is trained again."""
    model = config.source.model
    return {
        "model": model,
        "identical": config.population.identical,
        "forked": config.population.forked,
        "recipe": config.source.recipe.model_dump(mode="json"),
        "training_sha256": data_digest,
        "versions": versions(),
        "code_sha256": code_digest("training"),
        **({"model_sha256": module_digest(model)} if is_code(model) else {}),
        **learned_from(config),
    }


TrainingData: TypeAlias = "tuple[StoredImages, NDArray[np.int64], int]"  # images, labels, classes
SharedData: TypeAlias = "tuple[Run, IndexedImages, TrainingData, Built]"  # of a worker


class Built:
    """What the chunks of one worker share: on a GPU the compiled and recorded pass of members.

    To compile it and to record it takes longer than some hundred steps.
    """

    def __init__(self) -> None:
        self._task: tuple[TrainingTask, NDArray[np.int64] | None] | None = None
        self._steps: dict[tuple[int, str], dict[Any, Any]] = {}

    def task(
        self, run: Run, labels: NDArray[np.int64], classes: int, device: torch.device
    ) -> tuple[TrainingTask, NDArray[np.int64] | None]:
        """What is learned: on a GPU one object for all chunks, by which their passes are known."""
        if device.type != "cuda":
            return learning_task(run, labels, classes)
        self._task = self._task or learning_task(run, labels, classes)
        return self._task

    def steps(
        self, task: TrainingTask, members: int, backend: str, device: torch.device
    ) -> dict[Any, Any] | None:
        """Steps that were built for as many members; None where nothing is compiled."""
        if device.type != "cuda" or task.phases is not None:
            return None
        return self._steps.setdefault((members, backend), {})


def _start_worker(run: Run, data: TrainingData) -> SharedData:
    import torch

    if run.config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it on a GPU
        # As `use_deterministic_algorithms`, which imports torch's compiler for two seconds.
        torch.set_deterministic_debug_mode("error")
    return run, data[0].open(), data, Built()


def _choose_settings(shared: SharedData, data_digest: str) -> None:
    """Leave the settings that serve the worst group of held-out training examples best."""
    from scotoma.training.jtt_settings import held_out_quarter, try_settings
    from scotoma.training.placement import training_device

    run, images, (_, labels, classes), _ = shared
    asked, groups = run.config.mitigation, run_groups(run)
    assert asked is not None
    assert groups is not None
    path, made_of = settings_file(run), {"made_of": _origin(run.config, data_digest)}
    run.fetch(path)
    if path.exists() and {"made_of": read_record(path).get("made_of")} == made_of:
        return
    examples = AuditedExamples.read(run.examples, images=False, split="train")
    cells = groups.codes * classes + labels
    base = run.config.population.seed
    held = held_out_quarter(cells, examples.clusters, base)
    tried = try_settings(
        asked, learning_task(run, labels, classes)[0], images, labels, cells, held,
        model=run.config.source.model, recipe=run.config.source.recipe,
        seed=member_seed(base, "dense", 0), device=training_device(),
    )  # fmt: skip
    best = max(tried, key=lambda one: one.worst_accuracy)
    chosen = {"first_steps": best.first_steps, "repeats": best.repeats}
    content = chosen | {"held_out": int(held.sum()), "tried": [asdict(one) for one in tried]}
    write_json(path, content | made_of)
    run.publish(path)


def _choose_way(shared: SharedData) -> Way:
    """Choose how gradients are computed, who trains together, and in how many workers."""
    from scotoma.training.choose_backend import choose_backend, compiling_pays, members_together
    from scotoma.training.models import build_model, try_outputs
    from scotoma.training.placement import device_name, training_device
    from scotoma.training.pruning import prunable
    from scotoma.training.task import stage_of

    run, images, (_, labels, classes), _ = shared
    task, _ = learning_task(run, labels, classes)
    model = build_model(name := run.config.source.model, outputs := task.outputs, 0)
    if is_code(name):
        try_outputs(model, name, outputs, images.shape[2:])
    for variant in run.config.resolved_variants:  # refused now, not after the dense ones
        prunable(model, variant.exempt)
    device = training_device()
    on_gpu = device.type == "cuda"
    steps = run.config.source.recipe.resolved(task.pool_size(len(labels))).total_steps
    compiled = "compiled" if compiling_pays(run.config, steps) else "too few steps to compile"
    workers, gpu = 1 if on_gpu else cores(), device_name(device) if on_gpu else ""

    def way(backend: Backend) -> Way:
        together = members_together(backend, device, run.config)
        why = (
            f"chunks of {together}, {compiled}, which fill it in one process" if on_gpu
            else f"one a core, chunks of {together}"
        )  # fmt: skip
        return Way(backend, together, workers, why, gpu)

    if task.head is not None and stage_of(task.head.reads):  # the stacked pass has no maps
        return way("loop")
    kinds = labels if labels.ndim == 1 else labels[:, 0]  # what a step costs is the network's
    return way(choose_backend(run.config, images, kinds, device))


def _train_chunk(
    shared: SharedData,
    variant: str,
    indices: list[int],
    backend: Backend,
    data_digest: str,
    task: str,
) -> list[tuple[Effort, float]]:
    """Train one chunk in a worker, half of it at a time if the GPU has no memory for the whole.

    Returns:
        What each part cost, and the seconds of its first step, which compiles.
    """
    import torch

    try:
        return [_train_together(shared, variant, indices, backend, data_digest, task)]
    except RuntimeError as error:
        if "does not have a deterministic implementation" in str(error):
            source = shared[0].config.source
            raise ConfigError(
                f"deterministic: true asks for operations that give the same bytes every time, and "
                f"model {source.model} has one that cannot on this GPU "
                f"({str(error).partition(' ')[0]}); set deterministic: false, or choose another"
            ) from error
        if not isinstance(error, torch.OutOfMemoryError):
            raise
        if len(indices) == 1:
            raise ConfigError(
                f"member {indices[0]} of {variant} does not fit the GPU's memory with "
                f"recipe.batch_size {shared[0].config.source.recipe.batch_size}; lower it"
            ) from error
        torch.cuda.empty_cache()
        half = len(indices) // 2
        print(
            f"{len(indices)} members of {variant} together exceed the GPU's memory; "
            f"going on with {half}",
            file=sys.stderr,
        )
        return [
            effort
            for part in (indices[:half], indices[half:])
            for effort in _train_chunk(shared, variant, part, backend, data_digest, task)
        ]


def _train_together(
    shared: SharedData,
    variant: str,
    indices: list[int],
    backend: Backend,
    data_digest: str,
    task: str,
) -> tuple[Effort, float]:
    """Train some members as one and write those that an earlier try has not finished."""
    from safetensors.torch import save_file

    from scotoma.training.choose_backend import compiling_pays
    from scotoma.training.engine import Member, Training, products_precision
    from scotoma.training.placement import device_name, training_device
    from scotoma.training.pruning import Pruning
    from scotoma.training.sparse_encoding import sparse_bytes

    run, images, (_, labels, classes), built = shared
    began, worked = time.perf_counter(), time.process_time()
    device = training_device()
    learned, attributes = built.task(run, labels, classes, device)
    config = run.config
    recipe = config.source.recipe.resolved(learned.pool_size(len(labels)))
    way = config.variant(variant)
    population = "dense" if way.forked else variant  # whose seeds the members have
    own = [config.population.seed_index(k) for k in indices]
    seeds = [member_seed(config.population.seed, population, k) for k in own]
    training = Training(
        [Member(variant, k, s, way.sparsity) for k, s in zip(indices, seeds, strict=True)],
        images,
        labels,
        model=config.source.model,
        task=learned,
        attributes=attributes,
        pruning=Pruning.of(way),
        recipe=recipe,
        backend=backend,
        dense=dense_members(run, indices) if way.forked and learned.reference else None,
        device=device,
        steps=built.steps(learned, len(indices), backend, device),
        compiled=(compiled := compiling_pays(config, recipe.total_steps)),
    )
    trained, trunks = _trained(run, training, data_digest, lambda n: progress.advance(task, n))

    def write(result: TrainedMember, trunk: str | None) -> None:
        if _finished(run, variant, result.member.index, data_digest):
            return
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
                "products": str(products_precision(recipe, device)).removeprefix("torch."),
                "hardware": hardware() | {"device": device_name(device)},
                **({"compiled": compiled} if device.type == "cuda" else {}),
                # JSON has no nan: a member that diverged is kept, and its loss has no value.
                "loss": [loss if math.isfinite(loss) else None for loss in result.loss],
                **({"trunk_sha256": trunk} if trunk else {}),
                **chosen_settings(run),
                "sha256": file_digest(path),
                "bytes": path.stat().st_size,
                "size": sparse_bytes(result.state, result.weights).record(),
            },
        )
        run.publish(path, path.with_suffix(".json"))

    # Sizes of a member take a second of one core; a GPU would wait for all of its members' in turn.
    threads = min(len(trained), cores()) if device.type == "cuda" else 1
    deque(map_in_order(lambda pair: write(*pair), zip(trained, trunks, strict=True), threads), 0)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - worked
    if device.type != "cuda":
        return Effort(seconds, cpu_s), training.first_step_s
    import torch

    peak = torch.cuda.max_memory_reserved(device)
    return Effort(seconds, cpu_s, peak, torch.cuda.mem_get_info(device)[0]), training.first_step_s


def _trained(
    run: Run, training: Training, data_digest: str, report: Callable[[int], None]
) -> tuple[list[TrainedMember], list[str | None]]:
    """The members of a chunk and, where pruned ones will go on from them, their trunks' SHA-256.

    Dense members leave checkpoints on their way, where the configuration asks for them.
    """
    from scotoma.training.state import read_trunks, write_trunks

    indices = [member.index for member in training.members]
    variant = run.config.variant(training.members[0].variant)
    trunks: list[str | None] = [None] * len(indices)
    if variant.forked:
        state = read_trunks(run, indices, [_trunk(run, k, data_digest) for k in indices])
        return training.run(state, report), trunks
    state, trunk = None, training.recipe.mask_updates[0] if run.config.population.forked else None
    kept = _kept_steps(run, variant.name, training.recipe.total_steps)
    for step in sorted({*kept, *([] if trunk is None else [trunk])}):
        state = training.advance(state or training.start(), step, progress=report)
        if step == trunk:
            trunks = [*write_trunks(run, indices, state)]
        if step in kept:
            write_checkpoints(run, step, training.finish(state))
    return training.run(state, report), trunks


def _kept_steps(run: Run, variant: str, total: int) -> tuple[int, ...]:
    """After which steps the members of a variant are kept."""
    asked = run.config.checkpoints
    return checkpoint_steps(total, asked) if variant == "dense" and asked else ()


def _trunk(run: Run, index: int, data_digest: str) -> str | None:
    """The SHA-256 of a member's trunk, if the dense member is what would be trained today."""
    if not _finished(run, "dense", index, data_digest):
        return None
    record = read_json(run.member("dense", index).with_suffix(".json"))
    digest: str | None = record.get("trunk_sha256")
    return digest
