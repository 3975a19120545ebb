"""What do two models decide about each group, where one answer is the favourable outcome?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scotoma.answers.pair import Pair
from scotoma.bias import amplification, selection_changes
from scotoma.document import Column, Table
from scotoma.numbers import FEW_RUNS
from scotoma.printable import quoted

NAMES = {"fnr": "FNR", "fpr": "FPR", "selected": "selected"}


def measure_decisions(pair: Pair, positive: str) -> list[dict[str, Any]]:
    """Estimate FNR, FPR and selection rate of every group, and how they change.

    Args:
        pair: Two models whose answers are class names.
        positive: The favourable class.

    Returns:
        `group`, `metric`, `before`, `after` and `change`, metric by metric, all examples first;
        reruns of an example count as one.
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
        {
            "group": one.group, "metric": metric, "before": one.dense, "after": one.compressed,
            "change": one.absolute,
        }
        for metric in NAMES
        for one in changes
        if one.metric == metric
    ]  # fmt: skip


def decision_table(rates: Sequence[dict[str, Any]], positive: str) -> Table:
    """Tabulate the rates, and their changes."""
    columns = (
        Column("group", "group"),
        Column("rate", "rate"),
        Column("n", "n", "count"),
        Column("before", "before", "rate"),
        Column("after", "after", "rate"),
        Column("change", "change, points", "points"),
    )
    rows = [one | {"rate": NAMES[one["metric"]], "n": one["after"].n} for one in rates]
    return Table(
        "decisions",
        f"Decisions: {quoted(positive)} is the favourable label; selected gets it.",
        columns,
        rows,
        stub=2,
        known=FEW_RUNS,
    )
