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
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scotoma.config import Config, Recipe
from scotoma.config.own_code import is_code, module_digest
from scotoma.datasets import AuditedExamples, IndexedImages, StoredImages, store_images
from scotoma.errors import ConfigError
from scotoma.numbers.inputs import Ints
from scotoma.processes import map_in_order, progress, worker_pool
from scotoma.processes.machine import (
    Effort,
    Workers,
    cores,
    gpu_watched,
    hardware,
    has_gpu_driver,
    versions,
)
from scotoma.run import Run, code_digest, read_json, read_record, write_json
from scotoma.storage.files import file_digest
from scotoma.training.checkpoints import checkpoint_steps, write_checkpoints, write_weights
from scotoma.training.mitigated import (
    chosen_settings,
    dense_members,
    learned_from,
    learning_task,
    run_groups,
    settings_file,
    training_digest,
)
from scotoma.training.randomness import member_seed

if TYPE_CHECKING:
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
            labels, classes = examples.shown_labels, len(examples.classes)
            data = (run, stored, labels, classes, data_digest)
            _train(data, wanted, due, Workers() if used is None else used)
    return [run.member(variant, index) for variant, index in wanted]


def _train(
    data: tuple[Run, StoredImages, Ints, int, str],
    wanted: list[tuple[str, int]],
    due: set[tuple[str, int]],
    used: Workers,
) -> None:
    """Train every chunk that holds a member that is due, in worker processes.

    This process imports no torch: that would take longer than training a small network.
    """
    run = data[0]
    variants = list(dict.fromkeys(variant for variant, _ in wanted))
    task = f"train {variants[0] if len(variants) == 1 else f'{len(variants)} pruned variants'}"
    most = min(1 if has_gpu_driver() else cores(), len(due))
    with ExitStack() as pools:
        pool = pools.enter_context(worker_pool(most, Trainer, *data))
        if run.config.mitigation is not None and run.config.mitigation.chooses:
            pool.submit(Trainer.choose_settings, task="choosing settings").result()
        way = pool.submit(Trainer.choose_way, task="trying a step of training").result()
        workers = min(way.workers, len(due))
        if workers > most == 1 < len(due):  # torch has no use for that GPU
            pool = pools.enter_context(worker_pool(workers, Trainer, *data))
        chunks = _chunks(wanted, due, way.together)
        shared = way.recipe.mask_updates[0] if run.config.variant(variants[0]).forked else 0
        steps = way.recipe.total_steps - shared
        progress.start(task, sum(len(own) for _, own in chunks) * steps)
        kind = used.of("gpu" if way.gpu else "processor", way.gpu or "the processor")
        kind.members, kind.workers, kind.why = len(due), min(workers, len(chunks)), way.why
        use = pools.enter_context(gpu_watched(wanted=bool(way.gpu)))
        kind.gpu, kind.began = use if way.gpu else None, time.perf_counter()
        futures = {
            pool.submit(
                Trainer.train, *chunk, way.backend, task, task=f"training {_named(*chunk)}"
            ): chunk
            for chunk in chunks
        }
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
        recipe: In steps: a technique may repeat rows of an epoch, or leave some out.
    """

    backend: Backend
    together: int
    workers: int
    why: str
    gpu: str
    recipe: Recipe


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


class Trainer:
    """A worker: the data, and what its chunks share.

    On a GPU that is the compiled and recorded pass of members: to compile it and to record it takes
    longer than some hundred steps.
    """

    def __init__(
        self,
        run: Run,
        stored: StoredImages,
        labels: Ints,
        classes: int,
        data_digest: str,
    ) -> None:
        """Read nothing yet.

        Args:
            run: The run.
            stored: Its training images.
            labels: Of the images, shape (N,); of several labels 0 and 1, shape (N, L).
            classes: Number of classes.
            data_digest: Of what training reads.
        """
        import torch

        from scotoma.training.placement import training_device

        if run.config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
            # As `use_deterministic_algorithms`, which imports torch's compiler for two seconds.
            torch.set_deterministic_debug_mode("error")
        self.run, self.stored, self.labels, self.classes = run, stored, labels, classes
        self.data_digest, self.device = data_digest, training_device()
        self._passes: dict[tuple[int, str], dict[Any, Any]] = {}

    @cached_property
    def images(self) -> IndexedImages:
        """The training images."""
        return self.stored.open()

    @cached_property
    def task(self) -> tuple[TrainingTask, Ints | None]:
        """What is learned, and from which groups: one object, by which passes are known."""
        return learning_task(self.run, self.labels, self.classes)

    def choose_settings(self) -> None:
        """Leave the settings that serve the worst group of held-out training examples best."""
        from scotoma.training.jtt_settings import held_out_quarter, try_settings

        run = self.run
        asked, groups = run.config.mitigation, run_groups(run)
        assert asked is not None
        assert groups is not None
        path, made_of = settings_file(run), {"made_of": _origin(run.config, self.data_digest)}
        run.fetch(path)
        if path.exists() and {"made_of": read_record(path).get("made_of")} == made_of:
            return
        examples = AuditedExamples.read(run.examples, images=False, split="train")
        cells = groups.codes * self.classes + self.labels
        base = run.config.population.seed
        held = held_out_quarter(cells, examples.clusters, base)
        task, _ = learning_task(run, self.labels, self.classes)  # before settings are chosen
        tried = try_settings(
            asked, task, self.images, self.labels, cells, held,
            model=run.config.source.model, recipe=run.config.source.recipe,
            seed=member_seed(base, "dense", 0), device=self.device,
        )  # fmt: skip
        best = max(tried, key=lambda one: float(one["worst_accuracy"]))
        chosen = {key: best[key] for key in ("first_steps", "repeats")}
        content = chosen | {"held_out": int(held.sum()), "tried": tried}
        write_json(path, content | made_of)
        run.publish(path)

    def choose_way(self) -> Way:
        """Choose how gradients are computed, who trains together, and in how many workers."""
        from scotoma.training.choose_backend import choose_backend, compiling_pays, members_together
        from scotoma.training.models import build_model, try_outputs
        from scotoma.training.placement import device_name
        from scotoma.training.pruning import prunable
        from scotoma.training.task import stage_of

        config, device, labels, images = self.run.config, self.device, self.labels, self.images
        task, _ = self.task
        model = build_model(name := config.source.model, outputs := task.outputs, 0)
        if is_code(name):
            try_outputs(model, name, outputs, images.shape[2:])
        for variant in config.resolved_variants:  # refused now, not after the dense ones
            prunable(model, variant.exempt)
        backend: Backend = "loop"
        if task.head is None or not stage_of(task.head.reads):  # the stacked pass has no maps
            kinds = labels if labels.ndim == 1 else labels[:, 0]  # a step costs what the net does
            backend = choose_backend(config, images, kinds, device)
        recipe = config.source.recipe.resolved(task.pool_size(len(labels)))
        together, why = members_together(backend, device, config), "one a core, chunks of {}"
        if on_gpu := device.type == "cuda":
            pays = compiling_pays(config, recipe.total_steps)
            compiled = "compiled" if pays else "too few steps to compile"
            why = f"chunks of {{}}, {compiled}, which fill it in one process"
        gpu = device_name(device) if on_gpu else ""
        return Way(backend, together, 1 if on_gpu else cores(), why.format(together), gpu, recipe)

    def train(
        self, variant: str, indices: list[int], backend: Backend, task: str
    ) -> list[tuple[Effort, float]]:
        """Train one chunk, half of it at a time if the GPU has no memory for the whole.

        Returns:
            What each part cost, and the seconds of its first step, which compiles.
        """
        import torch

        source = self.run.config.source
        try:
            return [self._together(variant, indices, backend, task)]
        except RuntimeError as error:
            if "does not have a deterministic implementation" in str(error):
                raise ConfigError(
                    "deterministic: true asks for operations that give the same bytes every time, "
                    f"and model {source.model} has one that cannot on this GPU "
                    f"({str(error).partition(' ')[0]}); set deterministic: false, or choose another"
                ) from error
            if not isinstance(error, torch.OutOfMemoryError):
                raise
            if len(indices) == 1:
                raise ConfigError(
                    f"member {indices[0]} of {variant} does not fit the GPU's memory with "
                    f"recipe.batch_size {source.recipe.batch_size}; lower it"
                ) from error
            torch.cuda.empty_cache()
            half = len(indices) // 2
            print(
                f"{len(indices)} members of {variant} together exceed the GPU's memory; "
                f"going on with {half}",
                file=sys.stderr,
            )
            parts = (indices[:half], indices[half:])
            return [e for part in parts for e in self.train(variant, part, backend, task)]

    def _together(
        self, variant: str, indices: list[int], backend: Backend, task: str
    ) -> tuple[Effort, float]:
        """Train some members as one and write those that an earlier try has not finished."""
        from scotoma.training.choose_backend import compiling_pays
        from scotoma.training.engine import Member, Training, products_precision
        from scotoma.training.placement import device_name
        from scotoma.training.pruning import Pruning, sparse_bytes

        began, worked = time.perf_counter(), time.process_time()
        run, device, config = self.run, self.device, self.run.config
        learned, attributes = self.task
        recipe = config.source.recipe.resolved(learned.pool_size(len(self.labels)))
        way = config.variant(variant)
        population = "dense" if way.forked else variant  # whose seeds the members have
        own = [config.population.seed_index(k) for k in indices]
        seeds = [member_seed(config.population.seed, population, k) for k in own]
        on_gpu = device.type == "cuda"
        passes = None
        if on_gpu and learned.phases is None:  # else nothing is compiled
            passes = self._passes.setdefault((len(indices), backend), {})
        training = Training(
            [Member(variant, k, s, way.sparsity) for k, s in zip(indices, seeds, strict=True)],
            self.images,
            self.labels,
            model=config.source.model,
            task=learned,
            attributes=attributes,
            pruning=Pruning.of(way),
            recipe=recipe,
            backend=backend,
            dense=dense_members(run, indices) if way.forked and learned.reference else None,
            device=device,
            steps=passes,
            compiled=(compiled := compiling_pays(config, recipe.total_steps)),
        )
        trained, trunks = _trained(
            run, training, self.data_digest, lambda n: progress.advance(task, n)
        )

        def write(result: TrainedMember, trunk: str | None) -> None:
            if _finished(run, variant, result.member.index, self.data_digest):
                return
            path = run.member(variant, result.member.index)
            write_weights(path, result.state)
            write_json(
                path.with_suffix(".json"),
                {
                    "file": path.name,
                    "index": result.member.index,
                    "seed": result.member.seed,
                    **_origin(config, self.data_digest),
                    "steps": recipe.total_steps,
                    "backend": backend,
                    "trained_with": indices,
                    "products": str(products_precision(recipe, device)).removeprefix("torch."),
                    "hardware": hardware() | {"device": device_name(device)},
                    **({"compiled": compiled} if on_gpu else {}),
                    # JSON has no nan: a member that diverged is kept, and its loss has no value.
                    "loss": [loss if math.isfinite(loss) else None for loss in result.loss],
                    **({"trunk_sha256": trunk} if trunk else {}),
                    **chosen_settings(run),
                    "sha256": file_digest(path),
                    "bytes": path.stat().st_size,
                    "size": sparse_bytes(result.state, result.weights),
                },
            )
            run.publish(path, path.with_suffix(".json"))

        # Sizes of a member take a second of a core; a GPU would wait for each in turn.
        threads = min(len(trained), cores()) if on_gpu else 1
        pairs = zip(trained, trunks, strict=True)
        deque(map_in_order(lambda pair: write(*pair), pairs, threads), 0)
        effort = Effort(time.perf_counter() - began, time.process_time() - worked)
        if on_gpu:
            import torch

            peak, free = torch.cuda.max_memory_reserved(device), torch.cuda.mem_get_info(device)[0]
            effort = replace(effort, gpu_bytes=peak, free_bytes=free)
        return effort, training.first_step_s


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
    kept: tuple[int, ...] = ()
    if variant.name == "dense" and run.config.checkpoints:
        kept = checkpoint_steps(training.recipe.total_steps, run.config.checkpoints)
    for step in sorted({*kept, *([] if trunk is None else [trunk])}):
        state = training.advance(state or training.start(), step, progress=report)
        if step == trunk:
            trunks = [*write_trunks(run, indices, state)]
        if step in kept:
            write_checkpoints(run, step, training.finish(state))
    return training.run(state, report), trunks


def _trunk(run: Run, index: int, data_digest: str) -> str | None:
    """The SHA-256 of a member's trunk, if the dense member is what would be trained today."""
    if not _finished(run, "dense", index, data_digest):
        return None
    record = read_json(run.member("dense", index).with_suffix(".json"))
    digest: str | None = record.get("trunk_sha256")
    return digest
