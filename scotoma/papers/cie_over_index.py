"""Which attributes are over-represented among my CIEs, as in the CIE paper's Figure 2?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from scotoma.audit import Quantity
from scotoma.audit.divergence import Representation
from scotoma.divergence import subset_weights
from scotoma.papers.cie_groups import NO_GROUPS
from scotoma.papers.finished import FinishedAudit
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import TIES, under
from scotoma.uncertainty import benjamini_hochberg

__all__ = ["over_indexed"]

PERCENTILE = 80  # that the paper's figure cuts the ranking at


def over_indexed(finished: FinishedAudit) -> PaperTable:
    """Figure 2."""
    name = "Figure 2"
    title = f"Relative representation among the taxicab CIEs beyond the {PERCENTILE}th percentile"
    audit, groups = finished.audit, finished.test.partition()
    if len(groups.keys) < 2:
        return PaperTable.lacking(name, title, NO_GROUPS)
    train = audit.examples.train
    weights = {variant: _weights(finished, variant) for variant in finished.compressed}
    rows: list[tuple[Cell, ...]] = []
    for group, mask in zip(audit.groups[1:], groups.masks[1:], strict=True):
        relative = [float(mask @ w / w.sum() / mask.mean()) for w in weights.values()]
        rows.append((group.name, 100 * group.train / train if train else None, *relative))
    return PaperTable(
        name=name,
        title=title,
        run=Grid(
            "This run: share among the CIEs over share in the test data; 1 is as frequent",
            ("attribute", "% of training", *finished.compressed),
            tuple(rows),
        ),
        notes=[TIES],
        conclusion=f"among the modal CIEs, Benjamini-Hochberg over the {len(rows)} attributes, "
        "over-represented are "
        + under({v: _over(audit.divergence[v].over_index) for v in finished.compressed})
        + ".",
    )


def _weights(finished: FinishedAudit, variant: str) -> NDArray[np.float64]:
    rows = finished.scores.filter(variant=variant)
    return subset_weights(rows["taxicab"].to_numpy(), PERCENTILE)


def _over(rows: tuple[Representation, ...]) -> str:
    p = benjamini_hochberg(np.array([_p(row.change) for row in rows]))
    over = [
        f"{row.attribute} ({_times(row.change.value)} times [{_times(row.change.low)}, "
        f"{_times(row.change.high)}], {row.n_flagged:,} of {row.n:,})"
        for row, adjusted in zip(rows, p, strict=True)
        if adjusted <= 0.05 and (row.change.value or 0.0) > 0
    ]
    return ", ".join(over) or "none"


def _p(change: Quantity) -> float:
    """Two-sided p-value of "as frequent as in the data"; nan without an interval."""
    if change.value is None or not change.se:
        return math.nan
    statistic = abs(math.log1p(change.value / 100)) / change.se
    return float(2 * t.sf(statistic, math.inf if change.df is None else change.df))


def _times(per_cent: float | None) -> str:
    return "?" if per_cent is None else f"{1 + per_cent / 100:.2g}"
