"""From shares of activations beyond calibrated ranges to the rows of audit.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.robustness.confidence import mean_share
from scotoma.run import Run
from scotoma.stages.measures.confidence import CLEAN
from scotoma.stages.members.activation_ranges import clean_ranges_file, watched_places
from scotoma.stages.robustness.corrupted import corrupted_file
from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["activation_range_rows"]


def activation_range_rows(
    run: Run, plan: RobustnessPlan, clusters: NDArray[np.int64] | None
) -> Iterator[dict[str, Any]]:
    """Give the share beyond the ranges, clean and under every corruption at every severity.

    Args:
        run: Whose shares are read.
        plan: What was run.
        clusters: Id of each example's cluster, or None.

    Yields:
        `audit.robustness.ActivationRangeRow`, a variant and condition each; draws are averaged.
    """
    if not plan.config.activation_ranges:
        return
    places = watched_places(run, plan.members)
    if not places:
        return
    each = [name for name, count in plan.members.items() for _ in range(count)]
    names = [each[place] for place in places]
    files = {(CLEAN, 0): [clean_ranges_file(run)]}
    for condition in plan.conditions:
        key = condition.kind, condition.severity
        files.setdefault(key, []).append(corrupted_file(run, condition))
    clean = None
    for (kind, severity), paths in files.items():
        frames = [pl.read_parquet(path, columns=["beyond"])["beyond"] for path in paths]
        shares = np.stack([frame.to_numpy() for frame in frames]).mean(axis=0, dtype=np.float64)
        clean = shares if clean is None else clean
        for variant in dict.fromkeys(names):
            mine = [place for place, name in enumerate(names) if name == variant]
            own = shares[:, mine]
            share = mean_share(
                own, np.ones_like(own), "undefined (no examples)", clusters, small=True
            )
            rise = None
            if kind != CLEAN:
                more = own - clean[:, mine]
                rise = mean_share(more, np.ones_like(more), "undefined (no examples)", clusters)
            yield {
                "variant": variant,
                "kind": kind,
                "severity": severity,
                "share": share,
                "rise": rise,
            }
