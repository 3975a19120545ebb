"""From flips within sequences of pictures to the rows of audit.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.audit.robustness import ALL_KINDS
from scotoma.datasets import Partition
from scotoma.robustness.sequences import flip_probability, relative_flip_rate
from scotoma.run import Run
from scotoma.stages.robustness.corrupted import corrupted_file
from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["sequence_rows"]


def sequence_rows(
    run: Run, plan: RobustnessPlan, partition: Partition, clusters: NDArray[np.int64] | None
) -> Iterator[dict[str, Any]]:
    """Give the flip probability of every variant, group and kind, and of all kinds together.

    Args:
        run: Whose flips are read.
        plan: What was run.
        partition: Groups of the corrupted examples.
        clusters: Id of each of these examples' cluster, or None.

    Yields:
        `audit.robustness.SequenceRow` but for its plain values.
    """
    if not plan.sequences:
        return
    frames = [pl.read_parquet(corrupted_file(run, one))["flips"] for one in plan.sequences]
    every = np.stack([frame.to_numpy() for frame in frames]).astype(np.float64)
    flips = plan.by_population(every)
    places = {ALL_KINDS: slice(None)} | {
        one.kind: slice(place, place + 1) for place, one in enumerate(plan.sequences)
    }
    for variant in run.config.resolved_variants:
        compressed = variant.name != "dense"
        for key, group in zip(partition.keys, partition.masks, strict=True):
            kept = None if clusters is None else clusters[group]
            for kind, place in places.items():
                own, dense = (flips[name][place][:, group] for name in (variant.name, "dense"))
                beside: dict[str, Any] = {"clusters": kept, "paired": variant.paired}
                whole = compressed and key == "all"
                yield {
                    "variant": variant.name,
                    "group": key,
                    "kind": kind,
                    "flips": flip_probability(own, clusters=kept),
                    "change": flip_probability(own, dense, **beside) if compressed else None,
                    "rate": relative_flip_rate(own, dense, **beside) if whole else None,
                }
