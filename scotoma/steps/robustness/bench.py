"""Members that are run on pictures: what they say of them, and what decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.datasets import AuditedExamples
from scotoma.inference.engines import Network
from scotoma.inference.population import predict_members
from scotoma.numbers.inputs import Array, Ints
from scotoma.predictions import kept_classes, smallest_type
from scotoma.processes.machine import versions
from scotoma.robustness.confidence import energy
from scotoma.robustness.plan import RobustnessPlan
from scotoma.run import Run
from scotoma.steps.members.files import graph_files
from scotoma.steps.members.shards import shards
from scotoma.storage.files import written

__all__ = ["Bench", "Columns", "said_by", "write"]

# What members say of some pictures, by column of its file: `predicted` class ids, shape (n, M);
# `top5` whether the label is among five, `score` the probability of the predicted class, `energy`
# minus the energy, the same shape; beside corrupted ones `change` in grey levels and structural
# `similarity`, shape (n,).
Columns: TypeAlias = dict[str, Array]


def said_by(
    members: Sequence[Path],
    images: NDArray[np.uint8] | Path,
    network: Network,
    *,
    sure: bool = False,
    labels: Ints | None = None,
    among: Ints | None = None,
    workers: int | None = None,
) -> Columns:
    """Run every member on every picture.

    Args:
        members: Their files.
        images: The pictures, or a .npy file of them.
        network: What the members have in common.
        sure: Also how sure they are: `score` and `energy`, over all classes.
        labels: Class ids, which fill `top5` where the network tells several classes.
        among: Class ids among which they choose; None for all.
        workers: As for `predict_members`.
    """
    pixels = np.load(images, mmap_mode="r") if isinstance(images, Path) else images
    shape = len(pixels), len(members)
    columns: Columns = {"predicted": np.empty(shape, smallest_type(network.classes))}
    if sure:
        columns |= {name: np.full(shape, np.nan, np.float32) for name in ("score", "energy")}
    if labels is not None and network.best > 1:
        columns["top5"] = np.empty(shape, np.bool_)
    if among is not None:
        network = replace(network, best=network.classes)
    for answers in predict_members(
        members, images, network, workers=workers, keep_scores="full" if sure else False
    ):
        cell, best = (answers.rows, answers.member), answers.best
        if among is not None:
            first = np.isin(best, among).argmax(axis=1)
            best = np.take_along_axis(best, first[:, None], axis=1)
        columns["predicted"][cell] = best[:, 0]
        if answers.every_score is not None:
            columns["score"][cell] = answers.scores
            columns["energy"][cell] = energy(answers.every_score)
        if labels is not None and "top5" in columns:
            columns["top5"][cell] = (best == labels[answers.rows][:, None]).any(axis=1)
    return columns


@dataclass(frozen=True)
class Bench:
    """Members of an audit that are run on pictures.

    Attributes:
        run: The run.
        members: Their files.
        network: What they have in common.
    """

    run: Run
    members: tuple[Path, ...]
    network: Network

    @classmethod
    def of(cls, run: Run, plan: RobustnessPlan, examples: AuditedExamples) -> Bench:
        """The members of all variants that a plan names."""
        from scotoma.steps.external.network import network_of

        members = (run.member(name, k) for name, many in plan.members.items() for k in range(many))
        (every,) = shards(run.config.most_models, 1)
        graphs = graph_files(run, every)
        network, best = network_of(run.config, len(examples.classes)), len(examples.classes)
        graph = graphs[0] if graphs else None
        return cls(run, tuple(members), replace(network, graph=graph, best=kept_classes(best)))

    @cached_property
    def _files(self) -> list[Path]:
        return [*self.members, *([] if self.network.graph is None else [self.network.graph])]

    @cached_property
    def _decides(self) -> list[object]:
        return [versions(), *self.run.mirror.digests(self._files).values()]

    def _made_with(self, more: tuple[object, ...]) -> str:
        content = json.dumps([*self._decides, *more], default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def is_due(self, name: str, path: Path, *more: object) -> bool:
        """Whether `step` would have anything to do."""
        made_with = self._made_with(more)
        return self.run.is_due(f"robustness-{name}", [path], made_with=made_with, measures=False)

    @contextmanager
    def step(self, name: str, path: Path, *more: object) -> Iterator[bool]:
        """A step that leaves a file of what the members say; `more` decides it beside them."""
        with self.run.step(
            f"robustness-{name}", [path], made_with=self._made_with(more),
            opens=[self.run.examples, *self._files], measures=False,
        ) as due:  # fmt: skip
            yield due


def write(path: Path, ids: Sequence[str], columns: Columns) -> None:
    """Write what members say: a row an example."""
    with written(path) as temporary:
        pl.DataFrame({"example_id": ids} | columns).write_parquet(temporary)
