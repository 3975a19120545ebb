"""Import the external models of a shard: check each, run it on a few images, copy it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scotoma.datasets import AuditedExamples, decode_images
from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.inference.members import labels_network, member_files, members_of
from scotoma.inference.trials import trials
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.processes.machine import versions
from scotoma.run import Run, write_json
from scotoma.run.mirror import folder_here
from scotoma.run.shards import Shard
from scotoma.run.sources import confirmed, read_sources
from scotoma.steps.external_models import facts_of_model, models_here, refuse_other_order
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import file_digest, written

TRIED = 4  # images that every model is run on before it is copied


@when_due
def import_models(run: Run, shard: Shard) -> Iterator[Leaves]:
    """Check the external models of a shard, of all variants, and copy them.

    Each is checked without running it and then on a few images. External data are put into the
    copies.
    """
    needs("onnxruntime", "train", "source.kind onnx")
    config = models_here(run)
    source = config.source
    indices = {v.name: members_of(config, v.name, shard) for v in config.resolved_variants}
    outputs = member_files(run, [*indices], shard)
    files = source.files_of_models(config, indices.__getitem__)
    seen = confirmed(files, read_sources(run.mirror))
    made_with = f"{seen.key('models')}/{part_digest(run, 'shown')}"
    yield Leaves(outputs, made_with=made_with)
    import onnx

    from scotoma.inference.external import read_model

    folder = folder_here(files["models"])
    examples = AuditedExamples.read(run.examples, split="test")
    shown = examples.pictured
    images = decode_images(replace(shown, table=shown.table.head(TRIED)))
    network = labels_network(run.config, examples)
    size = images.shape[2], images.shape[3]
    models = source.models_found(config)
    progress.start("import models", sum(map(len, indices.values())))
    with trials() as attempt:
        for name, index in [(one, k) for one in models for k in indices[one]]:
            file = models[name][index]
            called = f"{name}/{file}"
            model = read_model(folder / called, network, size)
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
                "taken_from": file,
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
            if base := run.config.variant(name).derived_from:
                made_of = file_digest(run.member(base, index))
                record["paired_with"] = {"variant": base, "sha256": made_of}
            write_json(path.with_suffix(".json"), record)
            run.publish(path, path.with_suffix(".json"))
            progress.advance("import models")
    confirmed(files, seen)
