"""All members of an audit on corrupted pictures that exist only while they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from scotoma import progress
from scotoma.corruptions import Profile, corrupt
from scotoma.inference.engines import Network, runs_on_gpu
from scotoma.inference.population import BATCHES, images_at_once
from scotoma.inference.workers import sharers
from scotoma.numbers.inputs import Ints
from scotoma.processes import worker_pool
from scotoma.processes.gpu import free_gpu_bytes
from scotoma.processes.machine import cores
from scotoma.robustness.distortion import distortion
from scotoma.robustness.plan import CorruptedCondition
from scotoma.steps.robustness.bench import Columns, said_by

__all__ = ["Suite", "predict_corrupted"]


@dataclass(frozen=True)
class Suite:
    """What every task of the suite shares.

    Attributes:
        members: Files of the members of all variants.
        images: The clean pictures, a .npy file of shape (N, 3, H, W).
        example_ids: Their ids, which decide the random numbers.
        labels: Their class ids, shape (N,).
        network: What the members have in common.
        profile: The corruptions.
        seed: Of the suite; draws count on from it.
        confidence: Whether members say how sure they are.
    """

    members: tuple[Path, ...]
    images: Path
    example_ids: tuple[str, ...]
    labels: Ints
    network: Network
    profile: Profile
    seed: int
    confidence: bool

    def __call__(self, condition: CorruptedCondition, rows: slice) -> Columns:
        """Corrupt some pictures and run every member on them."""
        clean = np.ascontiguousarray(np.load(self.images, mmap_mode="r")[rows])
        last = np.ascontiguousarray(clean.transpose(0, 2, 3, 1))
        worse = corrupt(
            last, self.example_ids[rows], condition.kind, condition.severity, self.profile,
            seed=self.seed + condition.draw,
        )  # fmt: skip
        worse = np.ascontiguousarray(worse.transpose(0, 3, 1, 2))
        columns = said_by(
            self.members, worse, self.network, sure=self.confidence, labels=self.labels[rows],
            workers=0,
        )  # fmt: skip
        measures = zip(("change", "similarity"), distortion(clean, worse), strict=True)
        return columns | {name: values.astype(np.float32) for name, values in measures}


def predict_corrupted(suite: Suite, conditions: Sequence[CorruptedCondition]) -> Iterator[Columns]:
    """Run every member under every condition.

    A corrupted picture lives in the memory of the worker that made it, until all members have seen
    it. Parts are cut by the size of the pictures alone, so that no machine decides a label.

    Args:
        suite: Members, pictures and corruptions.
        conditions: What is done to the pictures.

    Yields:
        The answers under each condition, in order, while later ones are being worked at.
    """
    pixels = np.load(suite.images, mmap_mode="r")
    step = BATCHES * images_at_once(pixels)
    parts = [slice(at, min(at + step, len(pixels))) for at in range(0, len(pixels), step)]
    progress.start("predict corrupted pictures", len(conditions) * len(pixels))
    tasks = ((condition, rows) for condition in conditions for rows in parts)
    answers = _answers(suite, tasks, len(conditions) * len(parts))
    for _ in conditions:
        whole = []
        for part in islice(answers, len(parts)):
            progress.advance("predict corrupted pictures", len(next(iter(part.values()))))
            whole.append(part)
        yield {name: np.concatenate([part[name] for part in whole]) for name in whole[0]}


def _answers(
    suite: Suite, tasks: Iterable[tuple[CorruptedCondition, slice]], count: int
) -> Iterator[Columns]:
    """Answers in the order of the tasks, of which few wait in line."""
    if suite.network.limits is not None:  # external models run in processes of their own
        yield from (suite(*task) for task in tasks)
        return
    on_gpu = any(runs_on_gpu(path, suite.network) for path in suite.members)
    workers = min(sharers(cores(), free_gpu_bytes()) if on_gpu else cores(), count)
    with worker_pool(workers, _itself, suite) as pool:
        waiting: deque[Future[Columns]] = deque()
        for condition, rows in tasks:
            task = f"predicting under {condition.kind}"
            waiting.append(pool.submit(Suite.__call__, condition, rows, task=task))
            if len(waiting) >= 3 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _itself(suite: Suite) -> Suite:
    return suite
