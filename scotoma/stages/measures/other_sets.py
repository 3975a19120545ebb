"""From predictions on other test sets to the rows of audit.json that compare variants on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.datasets import Examples
from scotoma.predictions import Predictions
from scotoma.robustness import SCALES, other_set, set_accuracy
from scotoma.run import Run
from scotoma.stages.other_sets import set_file

if TYPE_CHECKING:
    from scotoma.stages.robustness_plan import Plan

__all__ = ["other_set_reports"]


def other_set_reports(run: Run, plan: Plan, examples: Examples) -> Iterator[dict[str, Any]]:
    """Compare every compressed variant with dense on every set.

    Args:
        run: Whose predictions are read.
        plan: The sets and the members.
        examples: The test examples.

    Yields:
        `audit.robustness.OtherSetReport` but for its plain values, a set each.
    """
    if not plan.config.sets:
        return
    test = {
        name: Predictions.read(run.predictions(name)).predicted[:, :members]
        == examples.labels[:, None]
        for name, members in plan.members.items()
    }
    ends = np.cumsum(list(plan.members.values()))
    for asked in plan.config.sets:
        frame = pl.read_parquet(set_file(run, asked))
        labels = frame["label"].to_numpy()
        right = np.split(frame["predicted"].to_numpy() == labels[:, None], ends[:-1], axis=1)
        own = dict(zip(plan.members, right, strict=True))
        scales = () if asked.selected_against else SCALES
        rows = []
        for variant in run.config.resolved_variants[1:]:
            found = other_set(
                (test["dense"], own["dense"]),
                (test[variant.name], own[variant.name]),
                clusters=examples.clusters, paired=variant.paired, scales=scales,
            )  # fmt: skip
            values = [one.value for one in found.losses.values()]
            losses = {str(scale): found.losses.get(scale) for scale in SCALES}
            rows.append(
                {
                    "variant": variant.name,
                    "accuracy": set_accuracy(own[variant.name]),
                    "difference": found.difference,
                    **losses,
                    "depends_on_scale": any(v > 0 for v in values) and any(v < 0 for v in values),
                }
            )
        yield {
            "name": asked.name,
            "n": len(labels),
            "classes": len(np.unique(labels)),
            "masked": asked.mask,
            "selected_against": asked.selected_against,
            "dense": set_accuracy(own["dense"]),
            "dense_test": set_accuracy(test["dense"], clusters=examples.clusters),
            "rows": rows,
        }
