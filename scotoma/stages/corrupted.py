"""All members of an audit on corrupted pictures that exist only while they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.corruptions import Profile, corrupt
from scotoma.inference.engines import Network
from scotoma.inference.population import BATCHES, images_at_once, most_workers, predict_members
from scotoma.predictions import smallest_type
from scotoma.processes import worker_pool
from scotoma.robustness import distortion

__all__ = ["Condition", "Conditioned", "Suite", "predict_corrupted"]

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Condition:
    """One corruption at one severity, drawn once.

    Attributes:
        kind: The corruption.
        severity: From 1 to 5.
        draw: Which of its draws, from 0.
    """

    kind: str
    severity: int
    draw: int = 0

    def __str__(self) -> str:
        """The name of its file and step."""
        return f"{self.kind}-{self.severity}" + (f"-{self.draw}" if self.draw else "")


@dataclass(frozen=True, eq=False)
class Conditioned:
    """What members say of some examples under one condition.

    Attributes:
        predicted: Class ids, shape (n, M).
        distances: Mean absolute change in grey levels and structural similarity, shape (n, 2).
        scores: Probability of each predicted class, shape (n, M); None unless asked for.
    """

    predicted: NDArray[np.unsignedinteger[Any]]
    distances: NDArray[np.float32]
    scores: NDArray[np.float16] | None = None


@dataclass(frozen=True)
class Suite:
    """What every task of the suite shares.

    Attributes:
        members: Files of the members of all variants.
        images: The clean pictures, a .npy file of shape (N, 3, H, W).
        example_ids: Their ids, which decide the random numbers.
        network: What the members have in common.
        profile: The corruptions.
        seed: Of the suite; draws count on from it.
        keep_scores: Give the probability of each predicted class as well.
    """

    members: tuple[Path, ...]
    images: Path
    example_ids: tuple[str, ...]
    network: Network
    profile: Profile
    seed: int
    keep_scores: bool = False

    def __call__(self, condition: Condition, rows: slice) -> Conditioned:
        """Corrupt some pictures and run every member on them."""
        clean = np.ascontiguousarray(np.load(self.images, mmap_mode="r")[rows])
        worse = self._corrupted(clean, condition, rows)
        predicted = np.empty((len(clean), len(self.members)), smallest_type(self.network.classes))
        scores = np.empty(predicted.shape, np.float16) if self.keep_scores else None
        for answers in predict_members(
            self.members, worse, self.network, keep_scores=self.keep_scores, workers=0
        ):
            predicted[answers.rows, answers.member] = answers.predicted
            if scores is not None and answers.scores is not None:
                scores[answers.rows, answers.member] = answers.scores
        distances = np.stack(distortion(clean, worse), axis=1).astype(np.float32)
        return Conditioned(predicted, distances, scores)

    def _corrupted(self, clean: Pixels, condition: Condition, rows: slice) -> Pixels:
        last = np.ascontiguousarray(clean.transpose(0, 2, 3, 1))
        worse = corrupt(
            last, self.example_ids[rows], condition.kind, condition.severity, self.profile,
            seed=self.seed + condition.draw,
        )  # fmt: skip
        return np.ascontiguousarray(worse.transpose(0, 3, 1, 2))


def predict_corrupted(suite: Suite, conditions: Sequence[Condition]) -> Iterator[Conditioned]:
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
            progress.advance("predict corrupted pictures", len(part.predicted))
            whole.append(part)
        yield Conditioned(
            np.concatenate([part.predicted for part in whole]),
            np.concatenate([part.distances for part in whole]),
            np.concatenate([part.scores for part in whole if part.scores is not None])
            if suite.keep_scores
            else None,
        )


def _answers(
    suite: Suite, tasks: Iterable[tuple[Condition, slice]], count: int
) -> Iterator[Conditioned]:
    """Answers in the order of the tasks, of which few wait in line."""
    if suite.network.limits is not None:  # external models run in processes of their own
        yield from (suite(*task) for task in tasks)
        return
    workers = min(most_workers(suite.members), count)
    with worker_pool(workers, _itself, suite) as pool:
        waiting: deque[Future[Conditioned]] = deque()
        for condition, rows in tasks:
            task = f"predicting under {condition.kind}"
            waiting.append(pool.submit(Suite.__call__, condition, rows, task=task))
            if len(waiting) >= 3 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _itself(suite: Suite) -> Suite:
    return suite
