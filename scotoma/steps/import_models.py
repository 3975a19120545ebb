"""Import the external models of a shard: check each, run it on a few images, copy it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scotoma import progress
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.inference.members import labels_network, member_files, members_of
from scotoma.inference.trials import trials
from scotoma.printable import printable
from scotoma.processes.machine import versions
from scotoma.run import Run, write_json
from scotoma.run.mirror import folder_here
from scotoma.run.shards import Shard
from scotoma.run.sources import confirmed, read_sources
from scotoma.steps.external_models import facts_of_model, models_here, refuse_other_order
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import file_digest, written

TRIED = 4  # images that every model is run on before it is copied


def copy_models(run: Run, shard: Shard) -> None:
    """Check the models of a shard, each without running it and then on a few images, and copy them.

    External data are put into the copies.
    """
    import onnx

    from scotoma.inference.external import read_model

    config = models_here(run)
    models, source = config.source.models_found(config), config.source
    own = source.files_of_models(config, lambda name: members_of(config, name, shard))["models"]
    folder = folder_here(own)
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
                    refuse_other_order(
                        folder / called, examples.classes, source.known_classes, printable(called)
                    )
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


@when_due
def import_models(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Check the external models of a shard, of all variants, and copy them."""
    needs("onnxruntime", "train", "source.kind onnx")
    from scotoma.steps.external_models import models_here

    names = [variant.name for variant in run.config.resolved_variants]
    outputs = member_files(run, names, shard)
    config = models_here(run)
    models = config.source.files_of_models(config, lambda name: members_of(config, name, shard))
    seen = confirmed(models, read_sources(run.mirror))
    made_with = f"{seen.key('models')}/{part_digest(run, 'shown')}"
    yield Leaves(outputs, made_with=made_with)
    copy_models(run, shard)
    confirmed(models, seen)
