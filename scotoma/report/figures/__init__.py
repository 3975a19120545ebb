"""The figures of the page: what each draws, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence

from scotoma.audit import Audit, GateResult
from scotoma.audit.frontier import FrontierRow
from scotoma.report.figures.classes import classes
from scotoma.report.figures.figure import Figure, Table
from scotoma.report.figures.frontier import frontier
from scotoma.report.figures.gate import gate_bars
from scotoma.report.figures.groups import amplification, forest
from scotoma.report.figures.over_index import over_index
from scotoma.report.figures.slices import slices
from scotoma.report.figures.taxicab import taxicab
from scotoma.report.figures.topline import topline
from scotoma.report.figures.variance import variance

__all__ = ["Figure", "Table", "figures"]


def figures(
    audit: Audit, gate: GateResult | None, rows: Sequence[FrontierRow]
) -> dict[str, Figure]:
    """Every figure that there is something to draw for.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where nobody judged.
        rows: What each variant gives up and saves; none draws no frontier.

    Returns:
        Figures by slug: topline, gate, amplification, forest, taxicab, over_index, classes,
        slices, variance, frontier. One that has nothing to show is left out.
    """
    found = (
        topline(audit),
        gate_bars(gate),
        amplification(audit),
        forest(audit, gate),
        taxicab(audit),
        over_index(audit),
        classes(audit),
        slices(audit),
        variance(audit),
        frontier(rows),
    )
    return {figure.slug: figure for figure in found if figure is not None}
