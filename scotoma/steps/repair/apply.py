"""Choose ranges and layers on one half of an audit's examples, and predict on the other."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma import progress
from scotoma.datasets import AuditedExamples, decode_images_to
from scotoma.errors import DataError
from scotoma.inference import measure_costs
from scotoma.inference.model_process import runtime_on_demand
from scotoma.numbers.inputs import Flags, Ints
from scotoma.predictions import Predictions
from scotoma.steps.external.network import labels_network
from scotoma.steps.members.files import held_members
from scotoma.steps.mitigation.apply import clusters_of_halves, judged_examples
from scotoma.steps.repair.candidates import AUDITED, RepairChoices, predicted_by
from scotoma.steps.repair.float_members import float_members
from scotoma.steps.repair.harm import Harm, error_change
from scotoma.steps.repair.refusals import refuse_few, refuse_run
from scotoma.steps.repair.search import Found, Half, search_choices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.config import Variant
    from scotoma.numbers import Estimate
    from scotoma.run import Run

__all__ = ["LayerSensitivity", "Repaired", "repair_variant"]

LATENCY_IMAGES = 64  # of the half that judges


@dataclass(frozen=True)
class LayerSensitivity:
    """What one layer costs in float32, and what it does in int8.

    Attributes:
        layer: Its name.
        nodes: Its nodes in the graph: what ONNX Runtime calls `nodes_to_exclude`.
        more: By how much the file grows if it alone is kept in float32, a fraction.
        rise: Rise of the worst group's error on the half that chooses if it alone is quantized.
    """

    layer: str
    nodes: tuple[str, ...]
    more: float
    rise: Estimate


@dataclass(frozen=True)
class Repaired:
    """What was chosen on one half, and what it predicts on the other.

    Attributes:
        name: `VARIANT+repair`.
        variant: The variant before.
        needed: Whether anything was tried: it does not pass, or harm is shown.
        group: Key of the group that it harms most, by the half that chooses.
        rise: Rise of that group's error there.
        own: Ranges of the variant.
        ranges: The ranges chosen.
        tried: Ranges to the number that a repair lowers.
        layers: Names of the layers in float32, in the order in which they were chosen.
        sensitivities: Every layer, in the order of the graph; none where nothing was tried.
        judged: Whether each test example judges, shape (N,).
        clusters: Clusters that choose, and clusters that judge.
        predicted: Class ids of the examples that judge, shape (judged, K).
        paired: Whether member k is made of dense member k.
        members: Files of the repaired members; none where nothing is better.
        measured: Size and latency of the first member, before and after.
    """

    name: str
    variant: str
    needed: bool
    group: str
    rise: Estimate
    own: str
    ranges: str
    tried: dict[str, float]
    layers: tuple[str, ...]
    sensitivities: tuple[LayerSensitivity, ...]
    judged: Flags
    clusters: tuple[int, int]
    predicted: Ints
    paired: bool
    members: tuple[Path, ...]
    measured: tuple[dict[str, Any], dict[str, Any]]


def repair_variant(
    run: Run, variant: Variant, most: float, folder: Path, *, passes: bool = False
) -> Repaired:
    """Choose ranges and layers on one half of the test examples, and predict on the other.

    Args:
        run: A finished audit.
        variant: From `repairable`.
        most: By how much the file may grow, a fraction.
        folder: Where the repaired members go; made once they are chosen.
        passes: The audit's verdict is PASS: then nothing is tried unless this half shows harm.

    Raises:
        DataError: The audit lacks what a repair needs.
    """
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    refuse_run(run, examples)
    judged = judged_examples(run, examples)
    clusters = clusters_of_halves(examples, judged)
    refuse_few(clusters)
    network = labels_network(run.config, examples)
    audited = held_members(run, variant.name)
    with tempfile.TemporaryDirectory(prefix="scotoma-") as temporary, runtime_on_demand() as runs:
        file = Path(temporary, "images.npy")
        decode_images_to(file, AuditedExamples.read(run.examples, split="test").pictured)
        images = np.load(file, mmap_mode="r")
        shown = judged[:: examples.rows_an_image]  # the labels of an image are one cluster
        half = _choosing(run, variant.name, examples, ~judged, images[~shown])
        members = float_members(run, variant, network, half.images)
        candidates = RepairChoices(members, variant, network, Path(temporary, "tried"), runs)
        progress.start("repair", 3 + 2 * len(candidates.layers))
        own = candidates.audited
        if own != AUDITED:
            _refuse_other(candidates, own, half, variant.name)
        needed = not passes or half.harm.shown(half.wrong) > 0
        largest = (1 + most) * audited[0].stat().st_size
        found = search_choices(candidates, half, largest) if needed else Found(own, (), {}, ())
        same = found.ranges == own and not found.layers
        paths = audited if same else candidates.write(folder, found.ranges, found.layers)
        judging = np.ascontiguousarray(images[shown])
        predicted = predicted_by(paths, judging, network, runs)
        timed = judging[:LATENCY_IMAGES]
        before, after = (measure_costs(one[0], network, timed) for one in (audited, paths))
    mask = half.harm.masks[half.harm.worst]
    of_group = None if half.clusters is None else half.clusters[mask]
    paired = run.config.variant(variant.name).paired
    return Repaired(
        name=f"{variant.name}+repair",
        variant=variant.name,
        needed=needed,
        group=half.harm.groups[half.harm.worst],
        rise=error_change(half.harm.baseline[mask], half.wrong[mask], of_group, paired=paired),
        own=own,
        ranges=found.ranges,
        tried=found.tried,
        layers=tuple(candidates.layers[place].name for place in found.layers),
        sensitivities=_sensitivities(candidates, found, before["bytes"]) if needed else (),
        judged=judged,
        clusters=clusters,
        predicted=predicted,
        paired=paired,
        members=() if same else tuple(paths),
        measured=(before, after),
    )


def _choosing(
    run: Run,
    variant: str,
    examples: AuditedExamples,
    rows: Flags,
    images: NDArray[np.uint8],
) -> Half:
    """Collect what the half that chooses knows of a variant and of dense."""
    own = examples.keep(rows)
    labels, clusters, partition = own.labels, own.clusters, own.partition()
    files = [run.predictions(name) for name in ("dense", variant)]
    run.fetch(*files)
    dense, wrong = (Predictions.read(file).predicted[rows] != labels[:, None] for file in files)
    first = min(1, len(partition.keys) - 1)  # groups; all examples where there are none
    harm = Harm.of(
        partition.keys[first:], partition.masks[first:], dense, wrong, clusters,
        paired=run.config.variant(variant).paired,
    )  # fmt: skip
    return Half(np.ascontiguousarray(images), labels, clusters, harm, wrong)


def _refuse_other(candidates: RepairChoices, own: str, half: Half, variant: str) -> None:
    """Refuse a variant that is not made again as the audit made it."""
    predicted = candidates.predict(half.images, own, ())
    if ((predicted != half.labels[:, None]) != half.wrong).any():
        raise DataError(
            f"{variant} must be quantized again as its audit quantized it, got other labels; "
            "repeat the audit with the versions that are installed now"
        )


def _sensitivities(
    candidates: RepairChoices, found: Found, size: int
) -> tuple[LayerSensitivity, ...]:
    start = candidates.size(frozenset())
    return tuple(
        LayerSensitivity(
            layer.name,
            candidates.nodes({place}),
            (candidates.size(frozenset({place})) - start) / size,
            rise,
        )
        for place, (layer, rise) in enumerate(zip(candidates.layers, found.alone, strict=True))
    )
