"""How many findings are several metrics, when they move together from run to run?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scotoma.numbers.inputs import Floats
from scotoma.runs.table import ACCURACY, RunSets


@dataclass(frozen=True, eq=False)
class MetricCorrelation:
    """Pearson correlations of metrics over runs.

    Attributes:
        metrics: Their names.
        across: Over all runs of all techniques, shape (M, M): what techniques do moves them
            together. nan where a metric does not vary.
        within: Over runs around their own technique's mean, shape (M, M): what chance does.
        effective_across: How many uncorrelated metrics vary as these do, in [1, M]: M^2 over the
            sum of squared correlations.
        effective_within: The same within techniques.
        runs: Number of runs.
        techniques: Number of techniques.
    """

    metrics: tuple[str, ...]
    across: Floats
    within: Floats
    effective_across: float
    effective_within: float
    runs: int
    techniques: int

    @property
    def lowest_across(self) -> float:
        """Smallest correlation of two different metrics over all runs; nan with one metric."""
        off = self.across[~np.eye(len(self.metrics), dtype=bool)]
        return float(np.nanmin(off)) if np.isfinite(off).any() else math.nan


def correlate_metrics(sets: RunSets, techniques: Sequence[str]) -> MetricCorrelation:
    """Correlate the bias metrics that all techniques have, runs without a nan.

    Args:
        sets: Runs by technique and metric.
        techniques: Those of one task, baseline among them.

    Returns:
        The correlations, and how many findings the metrics amount to.

    References:
        Effective number by participation ratio, (sum of eigenvalues)^2 / sum of their squares.

    >>> import numpy as np
    >>> dp = np.array([0.1, 0.2, 0.4, 0.3])
    >>> both = correlate_metrics({("base", "DP"): dp, ("base", "SPSF"): dp / 2}, ["base"])
    >>> round(both.effective_across, 6), round(both.lowest_across, 6)
    (1.0, 1.0)
    """
    known = [m for t, m in sets if t == techniques[0] and m != ACCURACY]
    metrics = tuple(m for m in known if all((t, m) in sets for t in techniques))
    tables = [np.empty((0, len(metrics)))]
    for technique in techniques if metrics else ():
        table = np.stack([sets[technique, metric] for metric in metrics], axis=1)
        tables.append(table[np.isfinite(table).all(axis=1)])
    tables = tables[:1] + [table for table in tables if len(table)]
    rows = np.concatenate(tables)
    around = np.concatenate([tables[0], *(table - table.mean(axis=0) for table in tables[1:])])
    across, within = _correlations(rows), _correlations(around)
    return MetricCorrelation(
        metrics, across, within, _effective(across), _effective(within), len(rows),
        len(tables) - 1,
    )  # fmt: skip


def _correlations(rows: Floats) -> Floats:
    size = rows.shape[1]
    if len(rows) < 3:
        return np.full((size, size), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.atleast_2d(np.corrcoef(rows, rowvar=False))


def _effective(correlations: Floats) -> float:
    """Number of uncorrelated metrics that vary alike; nan where a metric does not vary."""
    if not correlations.size:
        return math.nan
    return float(len(correlations) ** 2 / np.square(correlations).sum())
