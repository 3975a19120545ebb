"""From a configuration to predictions: prepare, train, prune, quantize, predict, gather."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scotoma import progress
from scotoma.datasets import Examples, decode_images, load_examples
from scotoma.extras import needs
from scotoma.machine import versions
from scotoma.predictions import PredictionFile, Predictions
from scotoma.runs import Run, file_digest, read_json, write_json, written
from scotoma.stages.shards import Shard, shards

__all__ = ["gather", "predict", "prepare", "prune", "quantize", "train"]

CALIBRATION_STREAM = 1_000_003  # of the seed: which training images calibrate int8-static


def prepare(run: Run) -> list[Path]:
    """Read the source, check it, and write the examples of both splits."""
    with run.step("prepare", [run.examples]) as due:
        if due:
            examples = load_examples(run.config)
            progress.start("decode images", 1)
            decode_images(examples)  # a broken image is refused before anything is trained
            progress.advance("decode images")
            with written(run.examples) as temporary:
                examples.write(temporary)
    return [run.examples]


def train(run: Run, shard: Shard) -> list[Path]:
    """Train the dense members of a shard."""
    return _train(run, "train", ["dense"], shard)


def prune(run: Run, shard: Shard) -> list[Path]:
    """Train the pruned members of a shard, every sparsity from the start on its own seeds."""
    return _train(run, "prune", _names(run, "prune"), shard)


def _train(run: Run, step: str, variants: list[str], shard: Shard) -> list[Path]:
    outputs = _members(run, variants, shard)
    with run.step(
        f"{step}-{shard.index:03d}", outputs, [run.examples], made_with=str(versions())
    ) as due:
        if due and variants:
            needs("torch", "train", "training")
            from scotoma.training.population import train_populations

            run.fetch(*outputs)  # of members that an earlier try has finished
            train_populations(run, variants, shard.members)
    return outputs


def quantize(run: Run, shard: Shard) -> list[Path]:
    """Quantize the dense members of a shard in every int8 mode of the configuration."""
    variants = _names(run, "int8")
    outputs = _members(run, variants, shard)
    inputs = [run.examples, *_members(run, ["dense"], shard)]
    with run.step(f"quantize-{shard.index:03d}", outputs, inputs, made_with=str(versions())) as due:
        if due and variants:
            _quantize(run, variants, shard)
    return outputs


def _quantize(run: Run, variants: list[str], shard: Shard) -> None:
    torch = needs("torch", "train", "quantization")
    torch.set_num_threads(1)  # a second OpenMP thread stalls the first when its core is busy
    needs("onnxruntime", "train", "quantization")
    from safetensors.torch import load_file

    from scotoma import quantization
    from scotoma.inference import scores_onnx
    from scotoma.training.engine import normalise
    from scotoma.training.models import build_model

    progress.start("quantize", len(variants) * len(shard.members))
    examples = Examples.read(run.examples).split("train")
    order = np.random.Generator(
        np.random.Philox(key=[run.config.population.seed, CALIBRATION_STREAM])
    ).permutation(len(examples.ids))
    images = normalise(torch.from_numpy(decode_images(examples)))
    calibration = images[order[: quantization.CALIBRATION_IMAGES]]
    model = build_model(run.config.source.model, len(examples.classes), 0).eval()
    graph = quantization.export_graph(quantization.fold(model), calibration[:2])
    for index in shard.members:
        dense = run.member("dense", index)
        model.load_state_dict(load_file(dense))
        with torch.inference_mode():
            expected = model(calibration).numpy()
        member = quantization.put_weights(graph, quantization.fold(model).state_dict())
        found = scores_onnx(member.SerializeToString(), calibration.numpy())
        error = float(np.abs(found - expected).max() / max(1.0, float(np.abs(expected).max())))
        if error > quantization.TOLERANCE:
            raise RuntimeError(f"the ONNX graph of {dense.name} differs from torch by {error:.1e}")
        for variant in variants:
            path = run.member(variant, index)
            with written(path) as temporary:
                mode = run.config.variant(variant).mode
                quantization.quantize(member, temporary, mode, calibration.numpy())
            write_json(
                path.with_suffix(".json"),
                {
                    "file": path.name,
                    "index": index,
                    "seed": read_json(dense.with_suffix(".json"))["seed"],
                    "versions": versions(),
                    "paired_with": {"variant": "dense", "sha256": file_digest(dense)},
                    "mode": mode,
                    "calibration_images": len(calibration) if mode == "static" else 0,
                    "export": {
                        "opset": graph.opset_import[0].version,
                        "ir_version": graph.ir_version,
                        "producer": graph.producer_name,
                        "largest_difference": error,
                    },
                    "sha256": file_digest(path),
                    "bytes": path.stat().st_size,
                },
            )
            run.publish(path, path.with_suffix(".json"))
            progress.advance("quantize")


def predict(run: Run, shard: Shard) -> list[Path]:
    """Run every member of a shard on the test examples."""
    names = [variant.name for variant in run.config.resolved_variants]
    outputs = [run.predictions(name, shard.index) for name in names]
    inputs = [run.examples, *(run.member(name, k) for name in names for k in shard.members)]
    with run.step(f"predict-{shard.index:03d}", outputs, inputs, made_with=str(versions())) as due:
        if due:
            from scotoma.stages.prediction import predict_shard

            predict_shard(run, shard)
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
            for name, manifest in zip(names, manifests, strict=True):
                found = Predictions.gather([Predictions.read(path) for path in parts[name]])
                with written(run.predictions(name)) as temporary:
                    found.write(temporary)
                write_json(manifest, _manifest(run, name))
    return outputs


def _parts(run: Run, name: str) -> list[Path]:
    """The shards of one variant that hold its members; not those that an earlier cut left."""
    paths, members = [], 0
    for shard in range(len(list(run.path("shards").iterdir()))):
        if members < run.config.population.models:
            paths.append(run.predictions(name, shard))
            members += len(Predictions.read(paths[-1]).members)
    return paths


def _manifest(run: Run, name: str) -> dict[str, Any]:
    """What a population is and what it was made from."""
    variant = run.config.variant(name)
    (every,) = shards(run.config.population.models, 1)
    facts: dict[str, Any] = {
        "variant": name,
        "kind": variant.kind,
        "design": "paired with dense, member by member" if variant.paired else "independent",
        "dataset_sha256": file_digest(run.examples),
        "inference": list(PredictionFile.open(run.predictions(name)).runtimes),
        "members": [
            read_json(run.member(name, index).with_suffix(".json")) for index in every.members
        ],
    }
    if variant.kind == "prune":
        facts["pruning"] = {
            "sparsity": variant.sparsity,
            "weights": "conv and linear, each layer by itself",
            "schedule": "Zhu and Gupta 2017",
            "masked_weights": "shadow: keep receiving gradients until the last update",
            "zeros_per_layer": "nearest whole number, halves to the even one",
        }
    if variant.kind == "int8":
        facts["quantization"] = {"mode": variant.mode, "batch_norm": "folded before export"}
    return facts


def _members(run: Run, variants: list[str], shard: Shard) -> list[Path]:
    """The weights and the record of every member of a shard."""
    return [
        path
        for variant in variants
        for index in shard.members
        for path in (run.member(variant, index), run.member(variant, index).with_suffix(".json"))
    ]


def _names(run: Run, kind: str) -> list[str]:
    return [variant.name for variant in run.config.resolved_variants if variant.kind == kind]
