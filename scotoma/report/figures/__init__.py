"""The figures of the page: what each draws, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence

from scotoma.audit import Audit, GateResult
from scotoma.audit.frontier import FrontierRow
from scotoma.report.figures.figure import Figure, FigureTable
from scotoma.report.figures.frontier import draw_frontier
from scotoma.report.figures.gate import draw_gate
from scotoma.report.figures.groups import draw_rates
from scotoma.report.figures.over_index import draw_over_index
from scotoma.report.figures.robustness import draw_robust_groups, draw_robustness
from scotoma.report.figures.run_to_run import draw_run_to_run
from scotoma.report.figures.slices import draw_slices
from scotoma.report.figures.taxicab import draw_taxicab
from scotoma.report.figures.variance import draw_variance

__all__ = ["Figure", "FigureTable", "figures"]


def figures(
    audit: Audit, gate: GateResult | None, rows: Sequence[FrontierRow], focus: str
) -> dict[str, Figure]:
    """Every figure that there is something to draw for.

    Args:
        audit: The audit, groups called by their names.
        gate: The verdict; None where nobody judged.
        rows: What each variant gives up and saves; none draws no frontier.
        focus: The variant that is drawn first where the reader picks one.

    Returns:
        Figures by slug: gate, rates, taxicab, over_index, slices,
        robustness, robust_groups, variance, run_to_run, frontier. One that has nothing
        to show is left out.
    """
    drawn = (
        draw_gate(gate),
        draw_rates(audit, focus),
        draw_taxicab(audit),
        draw_over_index(audit),
        draw_slices(audit),
        draw_robustness(audit),
        draw_robust_groups(audit),
        draw_variance(audit),
        draw_run_to_run(audit),
        draw_frontier(rows),
    )
    return {figure.slug: figure for figure in drawn if figure is not None}
