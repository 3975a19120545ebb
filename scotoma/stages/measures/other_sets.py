"""From predictions on other test sets to the rows of audit.json that compare variants on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.numbers import undefined
from scotoma.predictions import Predictions
from scotoma.robustness import SCALES, other_set, set_accuracy
from scotoma.run import Run
from scotoma.stages.robustness.other_sets import set_file

if TYPE_CHECKING:
    from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["hard_set_reports", "other_set_reports"]


def other_set_reports(
    run: Run, plan: RobustnessPlan, examples: AuditedExamples
) -> Iterator[dict[str, Any]]:
    """Compare every compressed variant with dense on every set.

    Args:
        run: Whose predictions are read.
        plan: The sets and the members.
        examples: The test examples.

    Yields:
        `audit.robustness.OtherSetReport` but for its plain values, a set each.
    """
    labelled = [one for one in plan.config.sets if not one.foreign]
    if not labelled:
        return
    test = {
        name: Predictions.read(run.predictions(name)).predicted[:, :members]
        == examples.labels[:, None]
        for name, members in plan.members.items()
    }
    ends = np.cumsum(list(plan.members.values()))
    for asked in labelled:
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


def hard_set_reports(
    run: Run, plan: RobustnessPlan, examples: AuditedExamples
) -> Iterator[dict[str, Any]]:
    """Judge one half of the models on the CIEs of the other half.

    Models that chose the examples are at a floor there, whatever they are: only those of the other
    seeds say how hard these are.

    Args:
        run: Whose predictions on the test examples are read.
        plan: The variants whose CIEs are taken, and the members.
        examples: The test examples.

    Yields:
        As `other_set_reports`, a variant each; without accuracy where it has no CIE.
    """
    predicted = {
        name: Predictions.read(run.predictions(name)).predicted[:, :members]
        for name, members in plan.members.items()
    }
    for chosen in plan.config.hard_sets:
        half = min(predicted[name].shape[1] for name in ("dense", chosen)) // 2
        dense_half, chosen_half = (predicted[name][:, :half] for name in ("dense", chosen))
        hard = score(dense_half, chosen_half, len(examples.classes)).cie
        right = {
            name: own[:, half:] == examples.labels[:, None]
            for name, own in predicted.items()
            if own.shape[1] > half
        }
        clusters = None if examples.clusters is None else examples.clusters[hard]
        rows = []
        for variant in run.config.resolved_variants[1:] if hard.any() else ():
            if variant.name not in right:
                continue
            own, dense = right[variant.name], right["dense"]
            found = other_set(
                (dense, dense[hard]), (own, own[hard]), set_clusters=clusters,
                paired=variant.paired, scales=(),
            )  # fmt: skip
            rows.append(
                {
                    "variant": variant.name,
                    "accuracy": set_accuracy(own[hard], clusters=clusters),
                    "difference": found.difference,
                    **dict.fromkeys(map(str, SCALES)),
                    "depends_on_scale": False,
                }
            )
        nothing = undefined("undefined (no CIE)", n=0, members=right["dense"].shape[1])
        yield {
            "name": f"CIEs of {chosen}",
            "n": int(hard.sum()),
            "classes": len(np.unique(examples.labels[hard])),
            "masked": False,
            "selected_against": f"{half} models of dense and {half} of {chosen}",
            "dense": set_accuracy(right["dense"][hard], clusters=clusters)
            if hard.any()
            else nothing,
            "dense_test": set_accuracy(right["dense"], clusters=examples.clusters),
            "rows": rows,
        }
