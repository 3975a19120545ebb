"""All members of an audit on corrupted pictures that exist only while they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.corruptions import Profile, corrupt
from scotoma.gpu import free_gpu_bytes
from scotoma.inference.engines import Network, runs_on_gpu
from scotoma.inference.population import BATCHES, images_at_once, predict_members
from scotoma.inference.workers import sharers
from scotoma.machine import cores
from scotoma.predictions import smallest_type
from scotoma.processes import worker_pool
from scotoma.robustness.confidence import energy
from scotoma.robustness.distortion import distortion
from scotoma.robustness.plan import Condition

__all__ = ["Columns", "Suite", "predict_corrupted"]

Pixels = NDArray[np.uint8]
# What members say of some examples under one condition, by column of its file: `predicted` class
# ids, shape (n, M); `top5` whether the label is among five, `score` the probability of the
# predicted class, `energy` minus the energy, the same shape; `change` in grey levels and structural
# `similarity`, shape (n,).
Columns: TypeAlias = dict[str, NDArray[Any]]


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
    labels: NDArray[np.int64]
    network: Network
    profile: Profile
    seed: int
    confidence: bool = False

    def __call__(self, condition: Condition, rows: slice) -> Columns:
        """Corrupt some pictures and run every member on them."""
        clean = np.ascontiguousarray(np.load(self.images, mmap_mode="r")[rows])
        worse = self._corrupted(clean, condition, rows)
        change, similarity = distortion(clean, worse)
        return self._answers(worse, rows) | {
            "change": change.astype(np.float32),
            "similarity": similarity.astype(np.float32),
        }

    def _answers(self, images: Pixels, rows: slice) -> Columns:
        shape = (len(images), len(self.members))
        columns: Columns = {"predicted": np.empty(shape, smallest_type(self.network.classes))}
        if self.confidence:
            columns |= {name: np.empty(shape, np.float32) for name in ("score", "energy")}
        if self.network.best > 1:
            columns["top5"] = np.empty(shape, np.bool_)
        for answers in predict_members(
            self.members, images, self.network, workers=0,
            keep_scores="full" if self.confidence else False,
        ):  # fmt: skip
            cell = answers.rows, answers.member
            columns["predicted"][cell] = answers.predicted
            if answers.every_score is not None:
                columns["score"][cell] = answers.scores
                columns["energy"][cell] = energy(answers.every_score)
            if self.network.best > 1:
                truth = self.labels[rows][answers.rows]
                columns["top5"][cell] = (answers.best == truth[:, None]).any(axis=1)
        return columns

    def _corrupted(self, clean: Pixels, condition: Condition, rows: slice) -> Pixels:
        last = np.ascontiguousarray(clean.transpose(0, 2, 3, 1))
        worse = corrupt(
            last, self.example_ids[rows], condition.kind, condition.severity, self.profile,
            seed=self.seed + condition.draw,
        )  # fmt: skip
        return np.ascontiguousarray(worse.transpose(0, 3, 1, 2))


def predict_corrupted(suite: Suite, conditions: Sequence[Condition]) -> Iterator[Columns]:
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
    suite: Suite, tasks: Iterable[tuple[Condition, slice]], count: int
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
