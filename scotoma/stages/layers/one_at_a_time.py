"""Which layers change most labels? Those of variants that fail, compressed one at a time."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scotoma import progress
from scotoma.audit import GateResult, write_part
from scotoma.audit.base import Quantity
from scotoma.audit.layers import LayerFlips, VariantLayers, VariantsLayers
from scotoma.config import OnnxSource, PredictionsSource, Variant
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.divergence.tables import flip_rate
from scotoma.errors import DataError
from scotoma.run import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.inference import Network
    from scotoma.processes import IsolatedProcess
    from scotoma.stages.layers.external import ExternalLayers
    from scotoma.stages.layers.trained import TrainedLayers

__all__ = ["layers_file", "write_layers"]

MOST_PASSES = 30_000  # images through members for one variant
MOST_PIXELS = 3 * 10**8  # of these images: of large networks minutes
SOME = 500  # test examples that are better than more members
FEWEST = 100  # images for each combination of layers, where there are as many
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
    if isinstance(source, PredictionsSource):
        return False
    heads = mitigation is not None and mitigation.heads
    return not heads and variant.kind in ("int8", "prune", "onnx")


@dataclass(frozen=True)
class _Shown:
    """The examples that members are run on, and how many members."""

    images: NDArray[np.uint8]
    clusters: NDArray[np.int64] | None
    members: int


def _examples(run: Run, members: int, layers: int) -> _Shown:
    """Draw as many test examples and members as `MOST_PASSES` and `MOST_PIXELS` allow."""
    every = AuditedExamples.read(run.examples, images=False, split="test")
    shown = every.pictured
    first = decode_images(AuditedExamples.read(run.examples, only=[shown.table["example_id"][0]]))
    passes = min(MOST_PASSES, MOST_PIXELS // first[0, 0].size) // (2 * layers + 1)
    count = min(members, max(1, passes // min(len(shown.ids), SOME)))
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
    from scotoma.inference.model_process import runtime_on_demand
    from scotoma.stages.external.network import labels_network

    network = labels_network(
        run.config, AuditedExamples.read(run.examples, images=False, split="test")
    )
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder, runtime_on_demand() as process:
        opened = _opened(run, variant, network, Path(folder), process)
        names = opened.names
        shown = _examples(run, opened.members, len(names))
        opened.show(shown.images, shown.members)
        ordered = _ordered(opened.predict, len(names), shown.clusters)
        sparsities = opened.sparsities
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
    if isinstance(run.config.source, OnnxSource):
        from scotoma.stages.layers.external import external_layers

        return external_layers(run, variant, network, folder, process)
    from scotoma.stages.layers.trained import trained_layers

    return trained_layers(run, variant, network, folder)


def _ordered(
    predict: Callable[[frozenset[int]], NDArray[np.int64]],
    count: int,
    clusters: NDArray[np.int64] | None,
) -> list[tuple[int, Quantity, Quantity]]:
    """Places of layers, those that change most labels first, alone and with those before.

    Args:
        predict: Class ids with some layers compressed, shape (n, K).
        count: Number of layers.
        clusters: Shape (n,), or None.
    """
    whole = predict(frozenset())

    def changed(layers: frozenset[int]) -> Quantity:
        return Quantity.of(flip_rate(whole, predict(layers), clusters))

    alone = [changed(frozenset({place})) for place in range(count)]
    order = sorted(range(count), key=lambda place: -float(alone[place].value or 0.0))
    together = [alone[order[0]]] if order else []
    together += [changed(frozenset(order[: end + 1])) for end in range(1, count)]
    return [(place, alone[place], together[at]) for at, place in enumerate(order)]
