"""A whole population over a data set: every member run on images that are decoded once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.inference.engines import (
    Engine,
    Network,
    open_engine,
    runs_as_graph,
    runs_on_gpu,
)
from scotoma.inference.model_process import call_limited, runtime_process
from scotoma.inference.preprocessing import PixelArray, Scores
from scotoma.processes import IsolatedProcess, WorkerPool, map_in_order, worker_pool
from scotoma.processes.machine import Effort, Kind, Workers, cores, free_gpu_bytes

PIXELS = 2**16  # of a batch: the activations of small networks then stay near the core
GPU_PIXELS = 2**22  # of a batch that fills a GPU
BATCHES = 16  # that a worker takes at a time
ALONE_S = 1.0  # this process works before it is known whether others are worth their start
WORTH_S = 2.0  # of work left, for workers that take about half a second to start

Task: TypeAlias = tuple[int, slice]  # a member and some rows


def images_at_once(images: PixelArray, *, on_gpu: bool = False) -> int:
    """The batch: a function of the images' size alone, so that no machine decides a label.

    >>> [images_at_once(np.zeros((0, 3, side, side), np.uint8)) for side in (8, 32, 224)]
    [256, 64, 4]
    >>> images_at_once(np.zeros((0, 3, 224, 224), np.uint8), on_gpu=True)
    83
    """
    pixels, least, most = (GPU_PIXELS, 16, 4096) if on_gpu else (PIXELS, 4, 256)
    return int(np.clip(pixels // (images.shape[2] * images.shape[3]), least, most))


@dataclass(frozen=True)
class MemberAnswers:
    """What one member says of some examples.

    Attributes:
        member: Its place among the members asked.
        rows: The examples.
        best: Class ids of the highest scores, the highest first, uint8 where all fit and else
            uint16, shape (R, `Network.best`); of several labels whether each is present, (R, L).
        scores: Softmax probability of the predicted class, float16, shape (R,); None unless asked.
            Of several labels the probability that each is as predicted, shape (R, L).
        runtime: What ran it, in words.
        every_score: Scores of all outputs, float32, shape (R, outputs); None unless asked.
    """

    member: int
    rows: slice
    best: NDArray[np.unsignedinteger[Any]]
    scores: NDArray[np.float16] | None
    runtime: str
    every_score: Scores | None = None

    @property
    def predicted(self) -> NDArray[np.unsignedinteger[Any]]:
        """Class ids of the highest score, shape (R,)."""
        return self.best[:, 0]


def predict_members(
    members: Sequence[Path],
    images: PixelArray | Path,
    network: Network,
    *,
    keep_scores: bool | Literal["full"] = False,
    workers: int | None = None,
    process: IsolatedProcess | None = None,
    used: Workers | None = None,
) -> Iterator[MemberAnswers]:
    """Run every member on every image.

    The same labels whatever the number of workers: batches are cut at the same places. Weights run
    in torch on a GPU where there is one, in as few processes as fill it, and meanwhile graphs in
    ONNX Runtime on all other cores. Without a GPU, where ONNX Runtime runs all members, this
    process begins; once it has worked for a second and more than two seem left, as many workers as
    there are cores take over, one thread each. torch runs in workers only. A worker's memory is
    that of one member and of what it makes of one batch. External models run in processes of their
    own, with the limits of `network` for each batch.

    Args:
        members: Their files, `.safetensors` or `.onnx`.
        images: uint8, shape (N, 3, H, W), or a .npy file that holds them.
        network: What the members have in common.
        keep_scores: Give the probability of each predicted class as well; `full`: all scores too.
        workers: Number of worker processes, those that feed a GPU included; 0 works here alone.
        process: Runs external models first, from `runtime_process`, and stays; None starts one.
        used: Filled with who ran them.

    Yields:
        Answers, as they come; within a member in the order of the rows only if it is alone.

    Raises:
        DataError: A model gives other than one finite score a class, or takes a worker down. A
            member of ours that diverged, whose scores are no numbers at all, is not refused: like
            anything that takes the highest of such scores, it says the first class.
    """
    used = Workers() if used is None else used
    work = _Work(tuple(members), images, network, keep_scores)
    fed, others = work.tasks()
    if fed and workers != 0:
        yield from _side_by_side(work, fed, others, cores() if workers is None else workers, used)
        return
    tasks = sorted([*fed, *others], key=lambda task: (task[0], task[1].start))
    if workers is None and needs_torch(members, network):
        workers = cores()
    if network.limits is not None:
        most = cores() if workers is None else max(1, workers)
        yield from _apart(work, tasks, most, process)
        return
    kind = used.of("processor", "the processor")
    kind.members, kind.why, kind.began = len(members), "little work", time.perf_counter()
    kind.ended = kind.began
    done = 0
    if not workers:
        for done, task in zip(count(1), tasks, strict=False):
            answers, effort = work.timed(*task)
            kind.efforts.append(effort)
            kind.ended = time.perf_counter()
            yield answers
            worked = time.perf_counter() - kind.began
            if workers is None and worked > ALONE_S:
                if cores() > 1 and worked / done * (len(tasks) - done) > WORTH_S:
                    break
                workers = 0
    if done < len(tasks):
        kind.workers = min(workers or cores(), len(tasks) - done)
        kind.why = "one a core" if kind.workers == cores() else f"{kind.workers} have work"
        with ExitStack() as stack:
            pool = work.pool(stack, kind.workers)
            yield from _shared_out([_Lane(work, tasks[done:], pool, kind, 3 * kind.workers)])


def needs_torch(members: Sequence[Path], network: Network) -> bool:
    """Tell whether any member runs in torch, which worker processes share once it is imported."""
    graphs = all(path.suffix == ".onnx" for path in members)
    return not (graphs or runs_as_graph(network))


def _side_by_side(
    work: _Work, fed: list[Task], others: list[Task], workers: int, used: Workers
) -> Iterator[MemberAnswers]:
    """Feed a GPU, and run on the other cores what does not need it.

    One process feeds it first. Its first task tells how many do from then on.
    """
    most = most_feeders(workers)
    on_gpu = used.of("gpu", "the GPU in torch")
    on_gpu.members, on_gpu.workers, on_gpu.why = len({task[0] for task in fed}), 1, "the first task"
    with ExitStack() as stack:
        lanes = [_Lane(work, fed, work.pool(stack, most), on_gpu, 1, most)]
        if others:
            spare = max(1, workers - 1)
            beside = used.of("processor", "the processor")
            beside.members = len({task[0] for task in others})
            beside.workers, beside.why = spare, "every core that does not feed the GPU"
            pool = work.pool(stack, min(spare, len(others)))
            lanes.append(_Lane(work, others, pool, beside, spare, cores=workers))
        yield from _shared_out(lanes)


class _Lane:
    """Tasks of one kind, and the workers that take them."""

    def __init__(
        self, work: _Work, tasks: list[Task], pool: WorkerPool, kind: Kind, in_line: int,
        most: int = 0, cores: int = 0,
    ) -> None:  # fmt: skip
        self.work, self.tasks, self.pool, self.kind = work, deque(tasks), pool, kind
        self.in_line = in_line  # tasks given out at a time: answers do not pile up unread
        self.most, self.cores = most, cores
        self.given = 0
        kind.began = kind.ended = time.perf_counter()

    def give_out(self) -> Iterator[Future[tuple[MemberAnswers, Effort]]]:
        """Give tasks to the workers, as many as may wait in line."""
        while self.tasks and self.given < self.in_line:
            member, rows = self.tasks.popleft()
            path = self.work.members[member]
            task = f"predicting with {path.parent.name}/{path.name}"
            self.given += 1
            yield self.pool.submit(_Work.timed, member, rows, task=task)

    def take(self, effort: Effort, lanes: Sequence[_Lane]) -> None:
        """Note what a task has cost; the first on a GPU decides how many workers feed it."""
        self.given -= 1
        self.kind.efforts.append(effort)
        self.kind.ended = time.perf_counter()
        if self.most and len(self.kind.efforts) == 1:
            left = len({member for member, _ in self.tasks})
            self.kind.workers, self.kind.why = feeders(effort, self.most, max(1, left))
            self.in_line = self.kind.workers
            for other in lanes:
                if other is not self:
                    other.kind.workers = other.in_line = max(1, other.cores - self.kind.workers)


def _shared_out(lanes: Sequence[_Lane]) -> Iterator[MemberAnswers]:
    """Answers of all lanes, as they come."""
    waiting: dict[Future[tuple[MemberAnswers, Effort]], _Lane] = {}
    while True:
        for lane in lanes:
            waiting |= dict.fromkeys(lane.give_out(), lane)
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            lane = waiting.pop(future)
            answers, effort = future.result()
            lane.take(effort, lanes)
            yield answers


def _apart(
    work: _Work, tasks: list[Task], workers: int, process: IsolatedProcess | None
) -> Iterator[MemberAnswers]:
    """Run external models, each batch by a call that may take so much memory and time."""
    batch = images_at_once(work.images)
    small = np.uint8 if work.network.classes <= 2**8 else np.uint16
    idle: SimpleQueue[IsolatedProcess] = SimpleQueue()

    def run(task: Task) -> MemberAnswers:
        member, rows = task
        path, process = work.members[member], idle.get()
        parts = []
        try:
            for start in range(rows.start, rows.stop, batch):
                stop = min(start + batch, rows.stop)
                parts += call_limited(
                    *(process, _batch, *work.saved(stack), member, start, stop),
                    path=path, network=work.network, images=stop - start,
                )  # fmt: skip
        finally:
            idle.put(process)
        best = np.concatenate([np.array(part, np.int64) for part in parts[::4]])
        if best.min() < 0 or best.max() >= work.network.classes:
            raise DataError(f"{path.name} must predict class ids; export it again")
        kept = [np.array(part, np.float16) for part in parts[1::4]] if work.keep_scores else []
        scores = np.concatenate(kept) if kept else None
        every = [np.array(part, np.float32) for part in parts[3::4] if part is not None]
        wide = np.concatenate(every) if every else None
        return MemberAnswers(member, rows, best.astype(small), scores, parts[2], wide)

    with ExitStack() as stack:
        work.saved(stack)
        idle.put(process or stack.enter_context(runtime_process()))
        done, began = 0, time.perf_counter()
        for done, task in zip(count(1), tasks, strict=False):
            yield run(task)
            worked = time.perf_counter() - began
            left = worked / done * (len(tasks) - done)
            if workers > 1 and worked > ALONE_S and left > WORTH_S:
                break
        for _ in range(1, min(workers, len(tasks) - done)):
            idle.put(stack.enter_context(runtime_process()))
        yield from map_in_order(run, tasks[done:], workers)


def _batch(*asked: Any) -> list[Any]:
    """Best class ids of a batch, probabilities of the first, runtime and all scores, as JSON."""
    *shared, member, start, stop = asked
    answers = _opened_work(*shared)(member, slice(start, stop))
    best, scores, every = (
        None if part is None else part.tolist()
        for part in (answers.best, answers.scores, answers.every_score)
    )
    return [best, scores, answers.runtime, every]


class _Work:
    """Members and images, and the engine of the member that was run last."""

    def __init__(
        self,
        members: tuple[Path, ...],
        images: PixelArray | Path,
        network: Network,
        keep_scores: bool | Literal["full"],
    ) -> None:
        self.file = images if isinstance(images, Path) else None
        pixels = np.load(images, mmap_mode="r") if isinstance(images, Path) else images
        self.members, self.images = members, pixels
        self.network, self.keep_scores = network, keep_scores
        self.opened: tuple[int, Engine] | None = None
        self.gpu_s = 0.0  # in which a GPU worked for the member that is open

    def saved(self, stack: ExitStack) -> tuple[Any, ...]:
        """What another process makes this of; images lie on the disk until the stack is closed."""
        if self.file is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="scotoma-"))
            self.file = Path(folder, "images.npy")
            np.save(self.file, self.images)
        return self.members, self.file, self.network, self.keep_scores

    def pool(self, stack: ExitStack, workers: int) -> WorkerPool:
        """Workers that have what all tasks share."""
        return stack.enter_context(worker_pool(workers, _Work, *self.saved(stack)))

    def tasks(self) -> tuple[list[Task], list[Task]]:
        """List what is to be done on a GPU, and what is not; a member's rows one after another."""
        tasks: tuple[list[Task], list[Task]] = ([], [])
        for member, path in enumerate(self.members):
            on_gpu = runs_on_gpu(path, self.network)
            step = BATCHES * images_at_once(self.images, on_gpu=on_gpu)
            rows = range(0, len(self.images), step)
            tasks[0 if on_gpu else 1].extend(
                (member, slice(start, min(start + step, len(self.images)))) for start in rows
            )
        return tasks

    def timed(self, member: int, rows: slice) -> tuple[MemberAnswers, Effort]:
        """Run a member on some rows, and tell what that cost."""
        began, worked = time.perf_counter(), time.process_time()
        answers = self(member, rows)
        seconds = time.perf_counter() - began
        assert self.opened is not None
        gpu_s, gpu_bytes = self.opened[1].gpu_use
        if not gpu_bytes:
            return answers, Effort(seconds, time.process_time() - worked)
        before, self.gpu_s = self.gpu_s, gpu_s
        return answers, Effort(seconds, gpu_s - before, gpu_bytes, free_gpu_bytes())

    def __call__(self, member: int, rows: slice) -> MemberAnswers:
        if self.opened is None or self.opened[0] != member:
            self.opened, self.gpu_s = None, 0.0  # one member's weights in memory, not two
            self.opened = (member, open_engine(self.members[member], self.network))
        engine = self.opened[1]
        network = self.network
        several = (network.classes,) if network.thresholds else ()
        small = np.uint8 if several or network.classes <= 2**8 else np.uint16
        best = np.empty((rows.stop - rows.start, *(several or (network.best,))), small)
        kept = np.empty((len(best), *several), np.float16) if self.keep_scores else None
        wide = (len(best), self.network.classes)
        every = np.empty(wide, np.float32) if self.keep_scores == "full" else None
        batch = images_at_once(self.images, on_gpu=runs_on_gpu(self.members[member], network))
        for at in range(rows.start, rows.stop, batch):
            pixels = np.ascontiguousarray(self.images[at : min(at + batch, rows.stop)])
            scores = self._checked(engine.scores(pixels), member, len(pixels))
            here = slice(at - rows.start, at - rows.start + len(pixels))
            if every is not None:
                every[here] = scores
            if several:
                best[here], probability = _present(scores, network.thresholds)
                if kept is not None:
                    kept[here] = probability
                continue
            if network.best == 1:
                best[here] = scores.argmax(axis=1)[:, None]
            else:  # of equal scores the smallest class id first
                best[here] = np.argsort(-scores, axis=1, kind="stable")[:, : network.best]
            if kept is not None:
                with np.errstate(invalid="ignore"):  # of a member that diverged: nan
                    highest = scores.max(axis=1, keepdims=True)
                    kept[here] = 1 / np.exp(scores - highest).sum(axis=1)
        runtime = f"{engine.runtime}; batches of {batch}"
        return MemberAnswers(member, rows, best, kept, runtime, every)

    def _checked(self, scores: Scores, member: int, images: int) -> Scores:
        name, classes = self.members[member].name, self.network.classes
        if scores.shape != (images, classes):
            raise DataError(
                f"{name} must give {classes} scores per image, got an output of shape "
                f"{scores.shape} for {images} images; use a classifier of these classes"
            )
        finite = np.isfinite(scores)
        diverged = self.network.model != "onnx" and not finite.any()  # one of ours; it is kept
        if not finite.all() and not diverged:
            raise DataError(
                f"{name} must give finite scores, got nan or infinity; run it in float32 or "
                "train it with a smaller learning rate"
            )
        return scores


def _present(
    scores: Scores, thresholds: tuple[float, ...]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which labels are present, and the probability that each is as predicted, shape (B, L).

    A member that diverged, whose scores are no numbers, says that no label is present.

    >>> _present(np.array([[0.0, -1.0, 2.0]], np.float32), (0.5, 0.5, 0.9))[0]
    array([[ True, False, False]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        probability = 1 / (1 + np.exp(-scores.astype(np.float64)))
    present = probability >= np.array(thresholds)
    return present, np.where(present, probability, 1 - probability)


_opened_work = lru_cache(maxsize=1)(_Work)


CONTEXT_BYTES = 2**29  # of a GPU's memory, that a process takes before its first image
SHARED_BYTES = 2**30  # and with one small network and a batch of small images
MOST_FEEDERS = 4  # processes that share a GPU
BUSY = 0.9  # a GPU that works this share of the time is fed enough


def most_feeders(cores: int) -> int:
    """Bound the processes that may feed the GPU: each needs a core.

    Args:
        cores: Cores of this machine.

    >>> most_feeders(16), most_feeders(2)
    (4, 1)
    """
    return min(MOST_FEEDERS, max(1, cores // 2))


def sharers(cores: int, free_bytes: int) -> int:
    """Count the processes that share a GPU where each runs members of every kind.

    >>> sharers(16, 2**36), sharers(16, 2**33), sharers(2, 2**20)
    (16, 5, 1)
    """
    return max(1, min(cores, free_bytes // (CONTEXT_BYTES + SHARED_BYTES)))


def feeders(first: Effort, most: int, members: int) -> tuple[int, str]:
    """Choose how many processes feed the GPU, from what the first of their tasks took.

    Args:
        first: Of a whole task, opening the member included.
        most: Bound from `most_feeders`.
        members: Members that are still to be run there.

    Returns:
        The number, and why.

    >>> feeders(Effort(2.0, 1.9, 2**31, 2**36), 4, 30)[0]
    1
    >>> feeders(Effort(2.0, 0.8, 2**31, 2**36), 4, 30)
    (3, 'one keeps it busy 40% of the time, 3 are to fill it')
    >>> feeders(Effort(2.0, 0.2, 2**33, 2**34), 4, 30)
    (2, 'one keeps it busy 10% of the time, and its memory has room for 2')
    """
    share = first.work_s / first.seconds if first.seconds else 1.0
    needed = max(1, -(-int(BUSY * 1000) // max(1, int(share * 1000))))
    room = 1 + int(first.free_bytes // (first.gpu_bytes + CONTEXT_BYTES))
    number = max(1, min(needed, room, most, members))
    said = f"one keeps it busy {100 * share:.0f}% of the time"
    if number == needed:
        return number, f"{said}, {number} {'is' if number == 1 else 'are'} to fill it"
    if number == room:
        return number, f"{said}, and its memory has room for {room}"
    if number == members:
        return number, f"{said}, and no more members are left"
    return number, f"{said}, and {most} are the most for these cores"
