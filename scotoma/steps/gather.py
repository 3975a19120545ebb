"""Put the shards of every variant together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.inference.members import manifests, member_files
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json, write_json
from scotoma.run.shards import shards
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import file_digest, written

if TYPE_CHECKING:
    from scotoma.config import Variant

SCOPES = {"layer": "each layer by itself", "global": "all layers of a member together"}
MASKS = {"shadow": "keep receiving gradients until the last update",
         "hard": "stay 0 from the update that masks them"}  # fmt: skip
ROUNDED = "nearest whole number, halves to the even one"


@when_due
def gather(run: Run) -> Iterator[Leaves]:
    """Put the shards of every variant together: one file of predictions, one manifest."""
    names = [variant.name for variant in run.config.resolved_variants]
    run.mirror.fetch_folder("shards")
    parts = {name: _parts(run, name) for name in names}
    outputs = [run.predictions(name) for name in names] + manifests(run)
    (every,) = shards(run.config.most_models, 1)
    records = member_files(run, names, every)[1::2]
    inputs = [run.examples, *records, *(path for paths in parts.values() for path in paths)]
    yield Leaves(outputs, inputs)
    for name in names:
        predictions = Predictions.gather(
            [Predictions.read(path, top5=True) for path in parts[name]]
        )
        with written(run.predictions(name)) as temporary:
            predictions.write(temporary)
    write_manifests(run)


def write_manifests(run: Run) -> None:
    """Write what each population is and what it was made from."""
    for variant, path in zip(run.config.resolved_variants, manifests(run), strict=True):
        write_json(path, _facts(run, variant))


def _parts(run: Run, name: str) -> list[Path]:
    """The shards of one variant that hold its members; not those that an earlier cut left."""
    paths, members = [], 0
    for shard in range(len(list(run.path("shards").iterdir()))):
        if members < run.config.models_of(name):
            paths.append(run.predictions(name, shard))
            members += len(Predictions.read(paths[-1], rows=0).members)
    return paths


def _facts(run: Run, variant: Variant) -> dict[str, Any]:
    """What a population is and what it was made from, as its manifest.json says it."""
    name = variant.name
    facts: dict[str, Any] = {
        "variant": name,
        "kind": variant.kind,
        "design": _design(variant),
        "dataset_sha256": file_digest(run.examples),
        "inference": _runtimes(run, name),
        "members": [
            read_json(run.member(name, index).with_suffix(".json"))
            for index in range(run.config.models_of(name))
        ],
    }
    if run.config.population.identical:
        facts["seeds"] = "one for all members, which differ by what the software adds"
    if variant.kind == "prune":
        facts["pruning"] = {
            "sparsity": variant.sparsity,
            "weights": f"conv and linear, {SCOPES[variant.scope]}",
            "exempt_layers": list(variant.exempt),
            "schedule": "Zhu and Gupta 2017",
            "masked_weights": f"{variant.masks}: {MASKS[variant.masks]}",
            f"zeros_per_{'layer' if variant.scope == 'layer' else 'member'}": ROUNDED,
        }
    if variant.derived_from and not variant.made_elsewhere:
        facts["quantization"] = {
            "mode": variant.mode,
            "bits": variant.bits,
            "batch_norm": "folded before export",
            "float32_layers": facts["members"][0].pop("float32_layers"),
        }
    return facts


def _runtimes(run: Run, name: str) -> list[str]:
    """What ran the members, in words; of scores nothing is known."""
    if run.config.source.score is not None:
        return []
    return list(Predictions.read(run.predictions(name), rows=0).runtimes)


def _design(variant: Variant) -> str:
    """Which chance the members share with those of other variants."""
    if variant.kind == "prune" and variant.forked:
        return "paired with dense, member by member: one training up to the first mask update"
    if variant.derived_from:
        return f"paired with {variant.derived_from}, member by member"
    return "independent"
