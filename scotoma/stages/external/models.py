"""From the user's ONNX files to the members of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx

from scotoma import progress, storage
from scotoma.config import Config, OnnxSource
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.errors import DataError
from scotoma.inference.external import model_files, read_model
from scotoma.inference.trials import trials
from scotoma.machine import versions
from scotoma.printable import printable
from scotoma.run import Run, write_json
from scotoma.run.copies import folder_here
from scotoma.stages.external.network import labels_network
from scotoma.stages.external.records import facts_of_model, refuse_other_order
from scotoma.stages.external.registered import models_here
from scotoma.stages.members.files import members_of
from scotoma.stages.members.shards import Shard
from scotoma.storage import StampedFiles
from scotoma.storage.files import file_digest, written

__all__ = ["copy_models", "find_models", "model_sources"]

TRIED = 4  # images that every model is run on before it is copied


def find_models(config: Config) -> dict[str, list[str]]:
    """List the names of the files of every variant, one a member.

    Raises:
        DataError: A folder is absent, their numbers are not those of the configuration, or models
            that are paired have other names.
    """
    assert isinstance(config.source, OnnxSource)
    place = config.source.models
    files_by_variant = {v.name: model_files(place, v.name) for v in config.resolved_variants}
    for variant in config.resolved_variants:
        files, dense = files_by_variant[variant.name], files_by_variant["dense"]
        asked = config.models_of(variant.name)
        if len(files) != asked:
            key = "population.models" if variant.models is None else "models"
            raise DataError(
                f"{storage.join(place, variant.name)} must hold {key} = {asked} models, got "
                f"{len(files)}; correct the number, or add models"
            )
        if variant.derived_from:
            for one, other in zip(files, dense, strict=True):
                if one != other:
                    raise DataError(
                        f"models of {variant.name} are paired with dense ones by their file names, "
                        f"got {printable(one)!r} and {printable(other)!r}; name both "
                        "alike, or leave out `paired`"
                    )
    return files_by_variant


def model_sources(config: Config, shard: Shard | None = None) -> StampedFiles:
    """List the models of a shard, or of all, and the files beside them, which may hold weights."""
    assert isinstance(config.source, OnnxSource)
    place, names = config.source.models, []
    for variant, files in find_models(config).items():
        own = files if shard is None else [files[k] for k in members_of(config, variant, shard)]
        beside = storage.list_files(storage.join(place, variant)).keys() - {*files}
        if not storage.is_remote(place):
            beside = {name for name in beside if Path(place, variant, name).is_file()}
        names += [f"{variant}/{name}" for name in (*own, *sorted(beside))]
    return StampedFiles(place, tuple(names))


def copy_models(run: Run, shard: Shard) -> None:
    """Check the models of a shard, each without running it and then on a few images, and copy them.

    External data are put into the copies.
    """
    config = models_here(run)
    models, source = find_models(config), config.source
    folder = folder_here(model_sources(config, shard))
    assert isinstance(source, OnnxSource)
    examples = AuditedExamples.read(run.examples, split="test")
    shown = examples.pictured
    images = decode_images(replace(shown, table=shown.table.head(TRIED)))
    network = labels_network(run.config, examples)
    height, width = images.shape[2:]
    total = sum(len(members_of(run.config, name, shard)) for name in models)
    progress.start("import models", total)
    with trials() as attempt:
        for name, files in models.items():
            for index in members_of(run.config, name, shard):
                called = f"{name}/{files[index]}"
                model = read_model(folder / called, network, (height, width))
                if not examples.several:
                    refuse_other_order(folder / called, examples.classes, source, printable(called))
                path = run.member(name, index)
                with written(path) as temporary:
                    onnx.save_model(model, temporary)
                attempt(path, network, images, called=called)
                opsets = {entry.domain: entry.version for entry in model.opset_import}
                record = {
                    "file": path.name,
                    "index": index,
                    "seed": "external",
                    "taken_from": files[index],
                    "export": {
                        "opset": opsets.get("", opsets.get("ai.onnx")),
                        "ir_version": model.ir_version,
                        "producer": f"{model.producer_name} {model.producer_version}".strip(),
                        **facts_of_model(model, network, examples.classes),
                    },
                    "versions": versions(),
                    "sha256": file_digest(path),
                    "bytes": path.stat().st_size,
                }
                base = run.config.variant(name).derived_from
                if base:
                    made_of = file_digest(run.member(base, index))
                    record["paired_with"] = {"variant": base, "sha256": made_of}
                write_json(path.with_suffix(".json"), record)
                run.publish(path, path.with_suffix(".json"))
                progress.advance("import models")
