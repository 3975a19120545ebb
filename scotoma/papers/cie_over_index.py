"""Which attributes are over-represented among my CIEs, as in the CIE paper's Figure 2?"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from scotoma.audit import Audit, Quantity
from scotoma.audit.divergence import Representation
from scotoma.divergence import subset_weights
from scotoma.document import Interval, show
from scotoma.numbers import benjamini_hochberg
from scotoma.papers.cie_groups import NO_GROUPS
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import TIES, under
from scotoma.predictions.finished import FinishedAudit

LISTED = 3  # attributes in the sentence, those most over-represented
ALPHA = 0.05
PERCENTILE = 80  # that the paper's figure cuts the ranking at


def over_indexed(finished: FinishedAudit) -> PaperTable:
    """Figure 2."""
    name = "Figure 2"
    title = f"Relative representation among the taxicab CIEs beyond the {PERCENTILE}th percentile"
    audit, masks = finished.audit, finished.test.over_index_masks()
    if not masks:
        return PaperTable.lacking(name, title, f"{NO_GROUPS}, or set over_index: all")
    names, shares = audit.group_names, _training_shares(audit)
    weights = [_weights(finished, variant) for variant in finished.compressed]
    rows: list[tuple[Cell, ...]] = []
    for key, mask in masks.items():
        relative = (
            float(mask @ w / w.sum() / mask.mean()) if mask.any() else None for w in weights
        )
        rows.append((names.get(key, key), shares.get(key), *relative))
    one = {v: _over(audit.divergence[v].over_index, names) for v in finished.compressed}
    return PaperTable(
        name=name,
        title=title,
        run=Grid(
            "This run: share among the CIEs over share in the test data; 1 is as frequent",
            ("attribute", "% of training", *finished.compressed),
            tuple(rows),
            absent="no example of the attribute, or no training examples are known",
        ),
        notes=[TIES],
        conclusion=f"among the modal CIEs, Benjamini-Hochberg over the {len(rows)} attributes, "
        "over-represented: "
        f"{under(one)}.",
    )


def _training_shares(audit: Audit) -> dict[str, float]:
    """Share of each group and binary column in the training examples, per cent."""
    train = audit.examples.train
    shares = {group.key: 100 * group.train / train for group in audit.groups} if train else {}
    for divergence in audit.divergence.values():
        for row in divergence.over_index:
            if row.share_in_training is not None:
                shares[row.attribute] = 100 * row.share_in_training
    return shares


def _weights(finished: FinishedAudit, variant: str) -> NDArray[np.float64]:
    rows = finished.scores.filter(variant=variant)
    return subset_weights(rows["taxicab"].to_numpy(), PERCENTILE)


def _over(rows: tuple[Representation, ...], names: Mapping[str, str]) -> str:
    p = benjamini_hochberg(np.array([_p(row.change) for row in rows]))
    over = [
        f"{names.get(row.attribute, row.attribute)} ({_times(row.change)}, {row.n_flagged:,} of "
        f"{row.n:,})"
        for row, adjusted in sorted(
            zip(rows, p, strict=True), key=lambda pair: -(pair[0].change.value or 0.0)
        )
        if adjusted <= ALPHA and (row.change.value or 0.0) > 0
    ]
    more = f" and {len(over) - LISTED} more" if len(over) > LISTED else ""
    return (", ".join(over[:LISTED]) or "none") + more


def _p(change: Quantity) -> float:
    """Two-sided p-value of "as frequent as in the data"; nan without an interval."""
    if change.value is None or not change.se:
        return math.nan
    statistic = abs(math.log1p(change.value / 100)) / change.se
    return float(2 * t.sf(statistic, math.inf if change.df is None else change.df))


def _times(change: Quantity) -> str:
    value, low, high = (1 + (end or 0.0) / 100 for end in (change.value, change.low, change.high))
    shown = show(Interval(value, low, high), "ratio")
    return f"{shown.value} times [{shown.low}, {shown.high}]"
