"""From the user's ONNX files to the members of a run."""

from __future__ import annotations

from dataclasses import replace

import onnx

from scotoma import progress
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.inference.external import read_model
from scotoma.inference.trials import trials
from scotoma.printable import printable
from scotoma.processes.machine import versions
from scotoma.run import Run, write_json
from scotoma.run.copies import folder_here
from scotoma.steps.external.network import labels_network
from scotoma.steps.external.records import facts_of_model, refuse_other_order
from scotoma.steps.external.registered import models_here
from scotoma.steps.members.files import members_of
from scotoma.steps.members.shards import Shard
from scotoma.storage.files import file_digest, written

__all__ = ["copy_models"]

TRIED = 4  # images that every model is run on before it is copied


def copy_models(run: Run, shard: Shard) -> None:
    """Check the models of a shard, each without running it and then on a few images, and copy them.

    External data are put into the copies.
    """
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
