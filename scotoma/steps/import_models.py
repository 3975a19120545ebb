"""Import the external models of a shard."""

from __future__ import annotations

from pathlib import Path

from scotoma.datasets.parts import part_digest
from scotoma.extras import needs
from scotoma.run import Run
from scotoma.run.sources import confirmed, read_sources
from scotoma.steps.members.files import member_files, members_of
from scotoma.steps.members.shards import Shard

__all__ = ["import_models"]


def import_models(run: Run, shard: Shard) -> list[Path]:
    """Check the external models of a shard, of all variants, and copy them."""
    needs("onnxruntime", "train", "source.kind onnx")
    from scotoma.steps.external.models import copy_models
    from scotoma.steps.external.registered import models_here

    names = [variant.name for variant in run.config.resolved_variants]
    outputs = member_files(run, names, shard)
    config = models_here(run)
    models = config.source.files_of_models(config, lambda name: members_of(config, name, shard))
    seen = confirmed(models, read_sources(run.mirror))
    made_with = f"{seen.key('models')}/{part_digest(run, 'shown')}"
    with run.step(
        f"import_models-{shard.index:03d}",
        outputs,
        made_with=made_with,
        opens=[run.examples],
        measures=False,
    ) as due:
        if due:
            copy_models(run, shard)
            confirmed(models, seen)
    return outputs
