"""How accurate are dense and compressed models on PIEs and without them, as in Figures 5 and 11?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scotoma.audit import Quantity
from scotoma.audit.document import DENSE
from scotoma.divergence.cluster_rates import weighted_rate
from scotoma.numbers import Units
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import in_percent, quantity_text, under
from scotoma.predictions import kept_classes
from scotoma.predictions.finished import FinishedAudit

SUBSETS = {"CIEs": "PIE", "non-CIEs": "non-PIE", "all": "all"}
NAME = "Figures 5 and 11"
TITLE = "Top-{} accuracy of dense and compressed models on PIEs and without them"
Accuracies = Mapping[str, tuple[Quantity, Quantity]]  # by subset: dense, compressed


def no_top5(finished: FinishedAudit) -> str:
    """Say why the run has no top-5 accuracy and how to get it, as a sentence; empty if it has."""
    classes = len(finished.audit.examples.classes)
    if kept_classes(classes) == 1:
        return f"the label has {classes} classes, and top 5 is kept of more than 10; read top 1"
    lacking = [
        variant.name
        for variant in finished.audit.variants
        if finished.top5_right(variant.name) is None
    ]
    if not lacking:
        return ""
    if finished.run.config.source.has_answers:
        way = "add the column to source.files and audit again"
    else:
        way = "repeat the audit with this version, which keeps it"
    return f"predictions of {', '.join(lacking)} hold no predicted_top5; {way}"


def top5_accuracy(finished: FinishedAudit, variant: str) -> float | None:
    """Top-5 accuracy of a variant, per cent, mean over its models; None where it is not kept."""
    right = finished.top5_right(variant)
    return None if right is None else float(100 * right.mean())


def top1_subsets(finished: FinishedAudit) -> PaperTable:
    """Figures 5 and 11, top 1: what the audit has measured."""
    by_variant = {
        name: {
            row.subset: (row.dense, row.compressed) for row in finished.audit.divergence[name].top1
        }
        for name in finished.compressed
    }
    return _table(finished, 1, by_variant)


def top5_subsets(finished: FinishedAudit) -> PaperTable:
    """Figures 5 and 11, top 5: from the predictions."""
    if missing := no_top5(finished):
        return PaperTable.lacking(NAME, TITLE.format(5), missing)
    return _table(finished, 5, {name: _top5(finished, name) for name in finished.compressed})


def _top5(finished: FinishedAudit, variant: str) -> Accuracies:
    flags = finished.scores.filter(variant=variant)["cie"].to_numpy()
    units = Units.of(len(flags), finished.test.clusters)
    right = [finished.top5_right(name) for name in (DENSE, variant)]

    def rates(rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Quantity, Quantity]:
        weights = rows.astype(np.float64)
        dense, compressed = (
            Quantity.of(weighted_rate(np.asarray(one), units, weights, empty="no PIE"))
            for one in right
        )
        return dense, compressed

    return {"CIEs": rates(flags), "non-CIEs": rates(~flags), "all": rates(np.ones_like(flags))}


def _table(finished: FinishedAudit, top: int, by_variant: Mapping[str, Accuracies]) -> PaperTable:
    rows: list[tuple[Cell, ...]] = []
    for name, accuracies in by_variant.items():
        values = [accuracies[subset][side].value for side in (0, 1) for subset in SUBSETS]
        rows.append((name, finished.audit.divergence[name].cie.cie.count, *map(in_percent, values)))
    reasons = dict.fromkeys(
        one.reason for own in by_variant.values() for pair in own.values() for one in pair
        if one.value is None
    )  # fmt: skip
    columns = (
        f"{models} {subset}" for models in ("dense", "compr.") for subset in SUBSETS.values()
    )
    sound = {
        name: quantity_text(accuracies["CIEs"][1], "rate")
        for name, accuracies in by_variant.items()
    }
    return PaperTable(
        name=NAME,
        title=TITLE.format(top),
        run=Grid(f"This run: top {top}", ("variant", "PIEs", *columns), tuple(rows),
                 absent="; ".join(reasons)),
        conclusion=f"top-{top} accuracy of the compressed models on the PIEs: {under(sound)}. PIEs "
        "are examples on which models disagree: part of what they lose comes from choosing them.",
    )  # fmt: skip
