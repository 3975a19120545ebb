"""Train the pruned members of a shard."""

from __future__ import annotations

from pathlib import Path

from scotoma.run import Run
from scotoma.steps.members.shards import Shard
from scotoma.steps.train import train_variants

__all__ = ["prune"]


def prune(run: Run, shard: Shard) -> list[Path]:
    """Train the pruned members of a shard, every sparsity from the start on its own seeds."""
    variants = [v.name for v in run.config.resolved_variants if v.kind == "prune"]
    return train_variants(run, "prune", variants, shard)
