"""Choose ranges and layers on one half of an audit's examples, and predict on the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.fix.before_after import Fixed, told
from scotoma.fix.candidates import AUDITED, RepairChoices, float_members, predicted_by
from scotoma.fix.outputs import decoded_images
from scotoma.fix.refusals import refuse_few, refuse_run
from scotoma.fix.rules import clusters_of_halves, judged_examples
from scotoma.inference.costs import file_sizes, measure_latencies
from scotoma.inference.members import held_members, labels_network
from scotoma.inference.model_process import runtime_on_demand
from scotoma.numbers import COMPRESSED, DENSE, Estimate, Units
from scotoma.numbers.inputs import Array, Flags, Floats, Ints
from scotoma.predictions import Predictions
from scotoma.processes import progress
from scotoma.quantization.choose_layers import choose_layers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scotoma.config import Variant
    from scotoma.run import Run


OTHERS = 0.1  # weight of the mean rise: of two groups alike, either may be mended first


def error_change(
    before: Flags,
    after: Flags,
    clusters: Array | None,
    *,
    paired: bool = True,
) -> Estimate:
    """Estimate the change of an error rate over members.

    Args:
        before: Whether member k is wrong on an example, shape (N, K).
        after: The same after it, shape (N, K'), as many where they are paired.
        clusters: Cluster ids, shape (N,); None where every example is its own.
        paired: Whether member k after is made of member k before.

    Returns:
        After less before, a fraction, with its interval.
    """
    units = Units.of(len(before), clusters)
    after_it = units.mean(after, axis=DENSE if paired else COMPRESSED)
    return after_it.since(units.mean(before)).estimate()


@dataclass(frozen=True)
class Harm:
    """The groups of some examples, and what a variant must beat on them.

    Attributes:
        groups: Their keys.
        masks: Who belongs to each, bool, shape (G, N).
        baseline: Whether dense member k is wrong on an example, shape (N, K).
        reach: Half of the interval of each group's rise under the variant that is repaired, shape
            (G,): what chance alone may show.
        worst: The group whose rise exceeds its reach most.
    """

    groups: tuple[str, ...]
    masks: Flags
    baseline: Flags
    reach: Floats
    worst: int

    @classmethod
    def of(
        cls,
        groups: tuple[str, ...],
        masks: Flags,
        baseline: Flags,
        wrong: Flags,
        clusters: Array | None,
        *,
        paired: bool = True,
    ) -> Harm:
        """Measure the reach of every group, once.

        Args:
            groups: Keys of groups with examples.
            masks: Shape (G, N).
            baseline: Shape (N, K).
            wrong: Whether member k of the variant is wrong, shape (N, K').
            clusters: Shape (N,), or None.
            paired: Whether member k of the variant is made of dense member k.
        """
        reach = []
        for mask in masks:
            own = None if clusters is None else clusters[mask]
            rise = error_change(baseline[mask], wrong[mask], own, paired=paired)
            n = max(1, rise.n)
            known = np.isfinite(rise.low) and np.isfinite(rise.high)
            reach.append(max(1 / n, (rise.high - rise.low) / 2) if known else 1.0)
        one = cls(groups, masks, baseline, np.array(reach), 0)
        worst = int(np.argmax(one.rises(wrong) - one.reach))
        return cls(groups, masks, baseline, one.reach, worst)

    def rises(self, wrong: Flags) -> Floats:
        """Rise of each group's error against dense, a fraction, shape (G,)."""
        change = wrong.astype(np.float64).mean(axis=1) - self.baseline.mean(axis=1)
        return np.asarray(self.masks @ change / self.masks.sum(axis=1))

    def shown(self, wrong: Flags) -> float:
        """The largest rise beyond its reach: above 0 where harm is shown."""
        return float((self.rises(wrong) - self.reach).max())

    def __call__(self, wrong: Flags) -> float:
        """The number that a repair lowers: `shown`, and a tenth of the mean rise of all groups.

        The reach stays that of the variant that is repaired, so that a candidate cannot win by
        being less certain.
        """
        return self.shown(wrong) + OTHERS * float(np.maximum(self.rises(wrong), 0).mean())


WORTH = 0.001  # of harm: a layer that lowers it less is not worth its bytes


@dataclass(frozen=True)
class Half:
    """The examples that choose.

    Attributes:
        images: uint8, shape (n, 3, H, W).
        labels: Class ids, shape (n,); of several labels a row each, as `wrong` and `clusters`.
        clusters: Cluster ids, shape (n,), or None.
        harm: What is lowered.
        wrong: Whether member k of the audited variant is wrong, shape (n, K).
    """

    images: NDArray[np.uint8]
    labels: Ints
    clusters: Ints | None
    harm: Harm
    wrong: Flags


@dataclass(frozen=True)
class Found:
    """The best of what was tried.

    Attributes:
        ranges: The ranges chosen.
        layers: Places of the layers in float32, in the order in which they were chosen.
        tried: Ranges to the harm without any such layer.
        alone: Rise of the worst group's error if one layer alone is quantized, of each layer,
            with the ranges that layers were tried with.
    """

    ranges: str
    layers: tuple[int, ...]
    tried: dict[str, float]
    alone: tuple[Estimate, ...]


def search_choices(candidates: RepairChoices, half: Half, most: float) -> Found:
    """Try ranges, which cost nothing, and then layers.

    Args:
        candidates: What the variant could be.
        half: The examples that choose.
        most: Bytes that the first member may have.
    """
    none: frozenset[int] = frozenset()
    own, choices = candidates.audited, candidates.ranges
    known = {(own, none): half.wrong}

    def wrong(ranges: str, layers: frozenset[int]) -> Flags:
        if (ranges, layers) not in known:
            predicted = candidates.predict(half.images, ranges, layers)
            known[ranges, layers] = predicted != half.labels[:, None]
            progress.advance("repair")
        return known[ranges, layers]

    group = half.harm.masks[half.harm.worst]
    clusters = None if half.clusters is None else half.clusters[group]

    def lower(ranges: str, than: str) -> bool:
        """Whether ranges make fewer errors in the worst group, by more than chance."""
        change = error_change(wrong(than, none)[group], wrong(ranges, none)[group], clusters)
        return bool(change.high < 0)

    tried = {name: half.harm(wrong(name, none)) for name in dict.fromkeys((own, *choices))}
    first = choices[0] if own == AUDITED else own  # where no others are better
    by = min(
        (name for name in choices if name == first or lower(name, first)),
        key=lambda name: tried[name],
    )
    start = candidates.size(none)
    best = by if by != own and start <= most and lower(by, own) else own
    sizes = [candidates.size(frozenset({place})) - start for place in range(len(candidates.layers))]
    choice = choose_layers(
        lambda layers: half.harm(wrong(by, layers)), sizes, most - start, worth=WORTH
    )
    layers = choice.layers
    # What each adds is known, but a tensor may be quantized for two layers.
    while layers and candidates.size(frozenset(layers)) > most:
        layers = layers[:-1]
    every = frozenset(range(len(sizes)))
    whole = wrong(by, every)[group]
    alone = tuple(
        error_change(whole, wrong(by, every - {place})[group], clusters)
        for place in range(len(sizes))
    )
    if layers and half.harm(wrong(by, frozenset(layers))) < tried[best]:
        return Found(by, layers, tried, alone)
    return Found(best, (), tried, alone)


LATENCY_IMAGES = 64  # of the half that judges


def repair_variant(
    run: Run, variant: Variant, most: float, folder: Path, *, passes: bool = False
) -> Fixed:
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
    pictured = AuditedExamples.read(run.examples, split="test").pictured
    with decoded_images(pictured) as (file, images), runtime_on_demand() as runs:
        shown = judged[:: examples.rows_an_image]  # the labels of an image are one cluster
        half = _choosing(run, variant.name, examples, ~judged, images[~shown])
        members = float_members(run, variant, network, half.images)
        candidates = RepairChoices(members, variant, network, file.with_name("tried"), runs)
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
        before, after = (
            file_sizes(one[0]) | measure_latencies(one[0], network, timed)
            for one in (audited, paths)
        )
    mask = half.harm.masks[half.harm.worst]
    of_group = None if half.clusters is None else half.clusters[mask]
    paired = run.config.variant(variant.name).paired
    harmed = half.harm.groups[half.harm.worst]
    layers = [candidates.layers[place].name for place in found.layers]
    each = _sensitivities(candidates, found, harmed, before["bytes"]) if needed else []
    name = f"{variant.name}+repair"
    rise = error_change(half.harm.baseline[mask], half.wrong[mask], of_group, paired=paired)
    return Fixed(
        name,
        variant.name,
        judged,
        clusters,
        predicted,
        paired,
        {
            "repaired": None if same else name,
            "needed": needed,
            "max_size_increase": most,
            "layers": layers,
            "nodes_to_exclude": [n for one in each if one["layer"] in layers for n in one["nodes"]],
            "ranges": {"before": own, "after": found.ranges, "tried": found.tried},
            "size": {"before": before["bytes"], "after": after["bytes"]},
            "latency": {"before": before["latency"], "after": after["latency"]},
            "harm": told(harmed, rise),
            "sensitivities": each,
        },
        members=() if same else tuple(paths),
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
    candidates: RepairChoices, found: Found, group: str, size: int
) -> list[dict[str, Any]]:
    """What each layer alone does in int8, in the order of the graph, as fix.json holds it."""
    start = candidates.size(frozenset())
    return [
        {
            "layer": layer.name,
            "nodes": list(candidates.nodes({place})),
            "size": (candidates.size(frozenset({place})) - start) / size,
            "rise": told(group, rise),
        }
        for place, (layer, rise) in enumerate(zip(candidates.layers, found.alone, strict=True))
    ]
