"""Which layers change most labels? Those of variants that fail, compressed one at a time."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scotoma.audit import GateResult, write_part
from scotoma.audit.base import Quantity
from scotoma.audit.findings import LayerFlips, VariantLayers, VariantsLayers
from scotoma.config import Variant
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.divergence.distances import flip_rate
from scotoma.errors import DataError
from scotoma.processes import progress
from scotoma.run import Run
from scotoma.run.workers import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.fix.layer_models import ExternalLayers, TrainedLayers
    from scotoma.inference import Network
    from scotoma.processes import IsolatedProcess


MOST_PASSES = 30_000  # images through members for one variant
MOST_PIXELS = 3 * 10**8  # of these images
MOST_PRODUCTS = 25 * 10**11  # of these passes: on one core 20 to 60 seconds
SOME = 500  # test examples that are better than more members
FEWEST = 100  # images for each combination of layers, where there are as many
AT_ONCE = 10**9  # bytes of files that are written before they are run
STREAM = 4_000_037  # of the seed: which test examples


def layers_file(run: Run) -> Path:
    """Where the layers of variants that fail are kept; absent where none was compared."""
    return run.path("layers.json")


def write_layers(run: Run, gate: GateResult) -> list[Path]:
    """Compare the layers of the variants that fail, if their members can be run here.

    Args:
        run: With its members and examples.
        gate: The verdict.

    Returns:
        The file; none where there is nothing to compare.
    """
    failed = [run.config.variant(one.name) for one in gate.variants if one.verdict == "FAIL"]
    due = [variant for variant in failed if _comparable(run, variant)]
    here = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime", "safetensors"))
    if not due or not here:
        return []
    progress.start("compare layers", len(due))
    shown = {}
    for variant in due:
        try:
            shown[variant.name] = _compared(run, variant)
        except DataError as error:
            shown[variant.name] = VariantLayers(compared=f"Not compared: {error}.", layers=())
        progress.advance("compare layers")
    write_part(layers_file(run), VariantsLayers(version=1, variants=shown))
    return [layers_file(run)]


def _comparable(run: Run, variant: Variant) -> bool:
    """Whether layers of a variant could be compressed one at a time, if its models allow it."""
    source, mitigation = run.config.source, run.config.mitigation
    if source.has_answers:
        return False
    heads = mitigation is not None and mitigation.heads
    return not heads and variant.kind in ("int8", "prune", "onnx")


@dataclass(frozen=True)
class _Shown:
    """The examples that members are run on, and how many members."""

    images: NDArray[np.uint8]
    clusters: NDArray[np.int64] | None
    members: int


def _examples(run: Run, opened: TrainedLayers | ExternalLayers) -> _Shown:
    """Draw as many test examples and members as the limits on passes allow."""
    every = AuditedExamples.read(run.examples, images=False, split="test")
    shown = every.pictured
    first = decode_images(AuditedExamples.read(run.examples, only=[shown.table["example_id"][0]]))
    most = min(MOST_PASSES, MOST_PIXELS // first[0, 0].size)
    most = min(most, MOST_PRODUCTS // max(1, opened.products))
    passes = most // (2 * len(opened.names) + 1)
    count = min(opened.members, max(1, passes // min(len(shown.ids), SOME)))
    n = min(len(shown.ids), max(FEWEST, passes // count))
    random = np.random.Generator(np.random.Philox(key=[run.config.population.seed, STREAM]))
    rows = np.sort(random.permutation(len(shown.ids))[:n])
    ids = shown.table["example_id"].gather(rows).to_list()
    images = decode_images(AuditedExamples.read(run.examples, only=ids))
    clusters = None if shown.clusters is None else shown.clusters[rows]
    if clusters is not None:
        clusters = np.repeat(clusters, every.rows_an_image)
    return _Shown(images, clusters, count)


def _compared(run: Run, variant: Variant) -> VariantLayers:
    """Run the members of one variant with layers compressed one at a time, and together."""
    from scotoma.inference.members import labels_network
    from scotoma.inference.model_process import runtime_on_demand

    network = labels_network(
        run.config, AuditedExamples.read(run.examples, images=False, split="test")
    )
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder, runtime_on_demand() as process:
        began = time.perf_counter()
        opened = _opened(run, variant, network, Path(folder), process)
        names = opened.names
        shown = _examples(run, opened)
        opened.show(shown.images, shown.members)
        tried = _Tried(opened, Path(folder, "tried"))
        opened_s = time.perf_counter() - began
        ordered = _ordered(tried.predict, len(names), shown.clusters)
        sparsities = opened.sparsities
    members = f"{shown.members} member{'s' if shown.members > 1 else ''}"
    ran = f"{2 * len(names)} combinations of {len(names)} layers"
    took = f"written in {tried.written_s:.1f} s, run in {tried.run_s:.1f} s"
    images = f"{members} x {len(shown.images)} images"
    opening = f"opened in {opened_s:.1f} s"
    say("compare layers", [f"{variant.name}: {ran}, {images}; {opening}, {took}"])
    return VariantLayers(
        compared=opened.compared,
        layers=tuple(
            LayerFlips(
                layer=names[place],
                sparsity=None if sparsities is None else sparsities[place],
                alone=alone,
                together=together,
            )
            for place, alone, together in ordered
        ),
    )


def _opened(
    run: Run, variant: Variant, network: Network, folder: Path, process: IsolatedProcess
) -> TrainedLayers | ExternalLayers:
    if run.config.source.has_models:
        from scotoma.fix.layer_models import external_layers

        return external_layers(run, variant, network, folder, process)
    from scotoma.fix.layer_models import trained_layers

    return trained_layers(run, variant, network, folder)


@dataclass
class _Tried:
    """Members with some layers compressed, which are written, run side by side and removed.

    Attributes:
        opened: The members.
        folder: For their files.
        written_s: Seconds that writing took, and
        run_s: running.
    """

    opened: TrainedLayers | ExternalLayers
    folder: Path
    written_s: float = 0.0
    run_s: float = 0.0

    def predict(self, tried: Sequence[frozenset[int]]) -> list[NDArray[np.int64]]:
        """Class ids with each of some sets of layers compressed, shape (n * L, K) each."""
        found: list[NDArray[np.int64]] = []
        waiting: list[Path] = []
        size = 0
        for at, layers in enumerate(tried):
            began = time.perf_counter()
            folder = self.folder / str(at)
            folder.mkdir(parents=True)
            paths = self.opened.write(layers, folder)
            waiting += paths
            size += sum(path.stat().st_size for path in paths)
            self.written_s += time.perf_counter() - began
            if size < AT_ONCE and at + 1 < len(tried):
                continue
            began = time.perf_counter()
            together = self.opened.predict(waiting)
            found += np.split(together, len(waiting) // len(paths), axis=1)
            self.run_s += time.perf_counter() - began
            shutil.rmtree(self.folder)
            waiting, size = [], 0
        return found


def _ordered(
    predict: Callable[[Sequence[frozenset[int]]], list[NDArray[np.int64]]],
    count: int,
    clusters: NDArray[np.int64] | None,
) -> list[tuple[int, Quantity, Quantity]]:
    """Places of layers, those that change most labels first, alone and with those before.

    Args:
        predict: Class ids with each of some sets of layers compressed, shape (n, K) each.
        count: Number of layers.
        clusters: Shape (n,), or None.
    """
    whole, *single = predict([frozenset(), *(frozenset({place}) for place in range(count))])

    def changed(answers: NDArray[np.int64]) -> Quantity:
        return Quantity.of(flip_rate(whole, answers, clusters))

    alone = [changed(answers) for answers in single]
    order = sorted(range(count), key=lambda place: -float(alone[place].value or 0.0))
    several = predict([frozenset(order[:end]) for end in range(2, count + 1)])
    together = [*alone[order[0] : order[0] + 1], *map(changed, several)] if order else []
    return [(place, alone[place], together[at]) for at, place in enumerate(order)]
