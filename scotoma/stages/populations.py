"""From a configuration to predictions: prepare, train, prune, quantize, predict, gather."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scotoma import progress
from scotoma.config import OnnxSource, PredictionsSource, Variant
from scotoma.extras import home_of, needs
from scotoma.machine import versions
from scotoma.own_code import is_code, module_digest
from scotoma.run import Run, read_json, write_json
from scotoma.stages.shards import Shard, shards
from scotoma.storage.files import file_digest, written

__all__ = ["gather", "predict", "prepare", "prune", "quantize", "train"]


def prepare(run: Run) -> list[Path]:
    """Read and check the source, write the examples of both splits, bring the previous audit."""
    left = [*_models(run), *_examples(run)]
    run.fetch(run.previous)
    if run.config.retraining is None and not run.previous.exists():
        return left
    from scotoma.stages.previous import fetch_previous  # SciPy comes with it

    return [*left, *fetch_previous(run)]


def _models(run: Run) -> list[Path]:
    if not isinstance(run.config.source, OnnxSource):
        return []
    from scotoma.stages.registered import fetch_models

    return fetch_models(run)


def _examples(run: Run) -> list[Path]:
    if isinstance(run.config.source, PredictionsSource):
        from scotoma.stages.predicted import prepare_predicted

        return prepare_predicted(run)
    with run.step("prepare", [run.examples]) as due:
        if due:
            from scotoma.datasets import checked_parts, open_examples

            examples, parts = open_examples(run.config)
            progress.start("decode images", 1)
            with written(run.examples) as temporary:
                # A broken image is refused before anything is trained.
                examples.write_parts(temporary, checked_parts(parts, examples.size))
            progress.advance("decode images")
    return [run.examples]


def train(run: Run, shard: Shard) -> list[Path]:
    """Train the dense members of a shard; of what was made elsewhere, take in all variants."""
    if isinstance(run.config.source, PredictionsSource):
        from scotoma.stages.predicted import take_in_predictions

        return take_in_predictions(run, shard)
    if isinstance(run.config.source, OnnxSource):
        return _take_in(run, shard)
    return _train(run, "train", ["dense"], shard)


def _take_in(run: Run, shard: Shard) -> list[Path]:
    needs("onnxruntime", "train", "source.kind onnx")
    from scotoma.stages.taking_in import files_digest, take_in

    names = [variant.name for variant in run.config.resolved_variants]
    outputs = _members(run, names, shard)
    made_with = files_digest(run)
    with run.step(f"train-{shard.index:03d}", outputs, [run.examples], made_with=made_with) as due:
        if due:
            take_in(run, shard)
    return outputs


def prune(run: Run, shard: Shard) -> list[Path]:
    """Train the pruned members of a shard, every sparsity from the start on its own seeds."""
    return _train(run, "prune", _names(run, "prune"), shard)


def _train(run: Run, step: str, variants: list[str], shard: Shard) -> list[Path]:
    outputs = _members(run, variants, shard)
    model = run.config.source.model if variants else ""  # what was made elsewhere has none
    made_with = str(versions()) + (module_digest(model) if is_code(model) else "")
    with run.step(f"{step}-{shard.index:03d}", outputs, [run.examples], made_with=made_with) as due:
        if due and variants:
            home_of("torch", "train", "training")  # which the workers import
            from scotoma.training.population import train_populations

            run.fetch(*outputs)  # of members that an earlier try has finished
            train_populations(run, variants, shard.members)
    return outputs


def quantize(run: Run, shard: Shard) -> list[Path]:
    """Compress the trained members of a shard in every way that needs no training."""
    variants = _compressed_here(run)
    graphs = _graphs(run, shard)
    outputs = [*_members(run, [variant.name for variant in variants], shard), *graphs]
    bases = list(dict.fromkeys(variant.derived_from for variant in variants))
    inputs = [run.examples, *_members(run, bases, shard)]
    with run.step(f"quantize-{shard.index:03d}", outputs, inputs, made_with=str(versions())) as due:
        if due and variants:
            needs("torch", "train", "quantization")
            needs("onnxruntime", "train", "quantization")
            from scotoma.stages.quantize import quantize_shard

            run.fetch(*outputs)  # of members that an earlier try has finished
            quantize_shard(run, variants, shard, *graphs)
    return outputs


def predict(run: Run, shard: Shard) -> list[Path]:
    """Run every member of a shard on the test examples; what was taken in is there already."""
    names = [variant.name for variant in run.config.resolved_variants]
    outputs = [run.predictions(name, shard.index) for name in names]
    if isinstance(run.config.source, PredictionsSource):
        return outputs
    graphs = _graphs(run, shard)
    inputs = [run.examples, *(run.member(name, k) for name in names for k in shard.members)]
    inputs += graphs
    if shard.index == 0:
        from scotoma.stages.parity import parity_inputs

        outputs += parity_inputs(run)
    left = [*outputs, *([run.costs] if shard.index == 0 else [])]
    with run.step(f"predict-{shard.index:03d}", left, inputs, made_with=str(versions())) as due:
        if due:
            from scotoma.stages.prediction import predict_shard

            predict_shard(run, shard, *graphs)
    return outputs


def gather(run: Run) -> list[Path]:
    """Put the shards of every variant together: one file of predictions, one manifest."""
    names = [variant.name for variant in run.config.resolved_variants]
    manifests = [run.population(name) / "manifest.json" for name in names]
    run.mirror.fetch_folder("shards")
    parts = {name: _parts(run, name) for name in names}
    outputs = [run.predictions(name) for name in names] + manifests
    (every,) = shards(run.config.population.models, 1)
    records = [path for path in _members(run, names, every) if path.suffix == ".json"]
    inputs = [run.examples, *records, *(path for paths in parts.values() for path in paths)]
    with run.step("gather", outputs, inputs) as due:
        if due:
            from scotoma.predictions import Predictions

            for name, manifest in zip(names, manifests, strict=True):
                found = Predictions.gather([Predictions.read(path) for path in parts[name]])
                with written(run.predictions(name)) as temporary:
                    found.write(temporary)
                write_json(manifest, _manifest(run, name))
    return outputs


def _parts(run: Run, name: str) -> list[Path]:
    """The shards of one variant that hold its members; not those that an earlier cut left."""
    from scotoma.predictions import PredictionFile

    paths, members = [], 0
    for shard in range(len(list(run.path("shards").iterdir()))):
        if members < run.config.population.models:
            paths.append(run.predictions(name, shard))
            members += len(PredictionFile.open(paths[-1]).members)
    return paths


def _manifest(run: Run, name: str) -> dict[str, Any]:
    """What a population is and what it was made from."""
    from scotoma.predictions import PredictionFile

    variant = run.config.variant(name)
    (every,) = shards(run.config.population.models, 1)
    facts: dict[str, Any] = {
        "variant": name,
        "kind": variant.kind,
        "design": _design(variant),
        "dataset_sha256": file_digest(run.examples),
        "inference": list(PredictionFile.open(run.predictions(name)).runtimes),
        "members": [
            read_json(run.member(name, index).with_suffix(".json")) for index in every.members
        ],
    }
    if run.config.population.identical:
        facts["seeds"] = "one for all members, which differ by what the software adds"
    if variant.kind == "prune":
        facts["pruning"] = {
            "sparsity": variant.sparsity,
            "weights": "conv and linear, each layer by itself"
            if variant.scope == "layer"
            else "conv and linear, all layers of a member together",
            "exempt_layers": list(variant.exempt),
            "schedule": "Zhu and Gupta 2017",
            "masked_weights": "shadow: keep receiving gradients until the last update"
            if variant.masks == "shadow"
            else "hard: stay 0 from the update that masks them",
            f"zeros_per_{'layer' if variant.scope == 'layer' else 'member'}": (
                "nearest whole number, halves to the even one"
            ),
        }
    if variant.derived_from and not variant.made_elsewhere:
        facts["quantization"] = {
            "mode": variant.mode,
            "bits": variant.bits,
            "batch_norm": "folded before export",
            "float32_layers": facts["members"][0].pop("float32_layers"),
        }
    return facts


def _design(variant: Variant) -> str:
    """Which chance the members share with those of other variants."""
    if variant.kind == "prune" and variant.forked:
        return "paired with dense, member by member: one training up to the first mask update"
    if variant.derived_from:
        return f"paired with {variant.derived_from}, member by member"
    return "independent"


def _members(run: Run, variants: list[str], shard: Shard) -> list[Path]:
    """The weights and the record of every member of a shard."""
    return [
        path
        for variant in variants
        for index in shard.members
        for path in (run.member(variant, index), run.member(variant, index).with_suffix(".json"))
    ]


def _compressed_here(run: Run) -> list[Variant]:
    """The variants that are made of trained members without training."""
    return [v for v in run.config.resolved_variants if v.derived_from and not v.made_elsewhere]


def _graphs(run: Run, shard: Shard) -> list[Path]:
    """The network of a shard's members as a graph, if the audit exports one."""
    return [run.path("shards", f"{shard.index:03d}", "graph.onnx")] if _compressed_here(run) else []


def _names(run: Run, kind: str) -> list[str]:
    return [variant.name for variant in run.config.resolved_variants if variant.kind == kind]
