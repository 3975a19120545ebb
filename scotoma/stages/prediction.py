"""From the members of a shard to the files of their predictions."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma import progress
from scotoma.datasets import Examples, decode_images_to
from scotoma.inference import Answers, Images, Network, costs, predict_members
from scotoma.predictions import Predictions, smallest_type
from scotoma.runs import Run, write_json, written
from scotoma.stages.shards import Shard
from scotoma.stages.taking_in import network_of

__all__ = ["predict_shard"]


def predict_shard(run: Run, shard: Shard, graph: Path | None = None) -> None:
    """Run every member of a shard on the test examples; a variant's file is written when whole.

    `graph` is the network as an `Architecture`, for members that are weights alone.
    """
    examples = Examples.read(run.examples, split="test")
    config = run.config
    classes = len(examples.classes)
    network = replace(network_of(config, classes), graph=graph)
    names = [variant.name for variant in config.resolved_variants]
    asked = [(name, place) for name in names for place in range(len(shard.members))]
    files = [run.member(name, shard.members[place]) for name, place in asked]
    shape = (len(examples.ids), len(shard.members))
    kept = config.keep_scores
    found = {name: _Column.empty(shape, classes, scores=kept) for name in names}
    progress.start("predict", len(files) * shape[0])
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        images = Path(folder, "images.npy")
        decode_images_to(images, examples)
        for answers in predict_members(files, images, network, keep_scores=kept):
            name, place = asked[answers.member]
            found[name].take(answers, place)
            progress.advance("predict", len(answers.predicted))
            if found[name].missing == 0:
                _write(run, shard, name, examples, found.pop(name))
        if shard.index == 0:
            _measure(run, names, network, np.load(images, mmap_mode="r"))


def _measure(run: Run, names: list[str], network: Network, images: Images) -> None:
    """Sizes and latencies of each variant's first member: apart, for they are never the same."""
    progress.start("measure latency", len(names))
    found = {}
    for name in names:
        found[name] = costs(run.member(name, 0), network, images[:64])
        progress.advance("measure latency")
    write_json(run.costs, found)
    run.publish(run.costs)


@dataclass
class _Column:
    """The predictions of one variant while they come."""

    predicted: NDArray[np.unsignedinteger[Any]]
    missing: int
    scores: NDArray[np.float16] | None
    runtimes: set[str] = field(default_factory=set)

    @classmethod
    def empty(cls, shape: tuple[int, int], classes: int, *, scores: bool) -> _Column:
        kept = np.zeros(shape, np.float16) if scores else None
        return cls(np.zeros(shape, smallest_type(classes)), shape[0] * shape[1], kept)

    def take(self, answers: Answers, place: int) -> None:
        self.predicted[answers.rows, place] = answers.predicted
        if self.scores is not None and answers.scores is not None:
            self.scores[answers.rows, place] = answers.scores
        self.missing -= len(answers.predicted)
        self.runtimes.add(answers.runtime)


def _write(run: Run, shard: Shard, name: str, examples: Examples, found: _Column) -> None:
    path: Path = run.predictions(name, shard.index)
    predictions = Predictions(
        variant=name,
        example_ids=tuple(examples.ids),
        members=tuple(shard.members),
        classes=examples.classes,
        predicted=found.predicted,
        paired_with=run.config.variant(name).paired_with,
        scores=found.scores,
        runtimes=tuple(sorted(found.runtimes)),
    )
    with written(path) as temporary:
        predictions.write(temporary)
