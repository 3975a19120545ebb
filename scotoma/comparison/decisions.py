"""What do two models decide about each group, where one answer is the favourable outcome?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scotoma.answers.pair import Pair
from scotoma.bias import amplification, selection_changes
from scotoma.document import Column, Table
from scotoma.numbers import FEW_RUNS, Estimate
from scotoma.printable import quoted

NAMES = {"fnr": "FNR", "fpr": "FPR", "selected": "selected"}


@dataclass(frozen=True)
class DecisionRate:
    """One rate of one group before and after compression, a fraction.

    Attributes:
        group: Its key.
        metric: `fnr`, `fpr` or `selected`.
        before: Of the original model.
        after: Of the compressed model.
        change: After - before.
    """

    group: str
    metric: str
    before: Estimate
    after: Estimate
    change: Estimate


def measure_decisions(pair: Pair, positive: str) -> list[DecisionRate]:
    """Estimate FNR, FPR and selection rate of every group, and how they change.

    Args:
        pair: Two models whose answers are class names.
        positive: The favourable class.

    Returns:
        Metric by metric, all examples first; reruns of an example count as one.
    """
    assert pair.dense is not None
    at = pair.classes.index(positive)
    d, c = pair.dense.predicted == at, pair.compressed.predicted == at
    groups, clusters = pair.examples.groups, pair.examples.cluster
    label, before, after = (own.astype(np.intp) for own in (pair.labels == at, d, c))
    rates = amplification(
        label, before, after, groups.masks, groups.keys, positive=1, n_classes=2, clusters=clusters
    )
    changes = [*rates, *selection_changes(d, c, groups.masks, groups.keys, clusters=clusters)]
    return [
        DecisionRate(one.group, metric, one.dense, one.compressed, one.absolute)
        for metric in NAMES
        for one in changes
        if one.metric == metric
    ]


def decision_table(rates: Sequence[DecisionRate], positive: str) -> Table:
    """Tabulate the rates, and their changes."""
    columns = (
        Column("group", "group"),
        Column("rate", "rate"),
        Column("n", "n", "count"),
        Column("before", "before", "rate"),
        Column("after", "after", "rate"),
        Column("change", "change, points", "points"),
    )
    rows = [vars(one) | {"rate": NAMES[one.metric], "n": one.after.n} for one in rates]
    return Table(
        "decisions",
        f"Decisions: {quoted(positive)} is the favourable label; selected gets it.",
        columns,
        rows,
        stub=2,
        known=FEW_RUNS,
    )
