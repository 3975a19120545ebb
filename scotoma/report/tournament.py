"""One page of a tournament: techniques against their baselines, every cell, every run."""

from __future__ import annotations

from itertools import groupby

from scotoma.report.figures.drawing import drawn
from scotoma.report.figures.tournament import tournament_figures
from scotoma.report.page import in_document
from scotoma.report.tournament_tables import TournamentResult, tournament_tables
from scotoma.runs import Tournament

__all__ = ["correlation_sentence", "render_tournament"]

SCRIPTS = ("vendor/vega.js", "figures.js")


def render_tournament(result: TournamentResult) -> str:
    """Render a tournament as one HTML file, by the rules of the report of an audit.

    Returns:
        The page; equal results give equal text.
    """
    tournament = result.tournament
    shown = {
        "title": result.title,
        "tournament": tournament,
        "lead": _lead(tournament),
        "remarks": result.remarks,
        "techniques": [
            (name, list(cells))
            for name, cells in groupby(tournament.cells, key=lambda cell: cell.technique)
        ],
        "correlations": [
            (base, correlation_sentence(tournament, base), one)
            for base, one in tournament.correlations.items()
        ],
        "tables": tournament_tables(result),
        "figures": {slug: drawn(plot) for slug, plot in tournament_figures(result).items()},
    }
    return in_document("tournament.html", shown, SCRIPTS)


def correlation_sentence(tournament: Tournament, base: str) -> str:
    """Say how many findings the metrics of a task amount to."""
    one = tournament.correlations[base]
    count = len(one.metrics)
    over = f"{one.runs} runs of {one.techniques} techniques"
    if count < 2 or not one.effective_across >= 1:
        return f"The correlation of metrics cannot be estimated over {over}."
    return (
        f"Over {over} the lowest correlation of two metrics is {one.lowest_across:.3f}. The "
        f"{count} metrics count as {one.effective_across:.2f} independent ones across techniques, "
        f"{one.effective_within:.2f} within: {count} wins are not {count} findings."
    )


def _lead(tournament: Tournament) -> str:
    totals = tournament.totals
    return (
        f"Bias is lower in {totals['lower']} of {totals['cells']} cells, {totals['with_cost']} of "
        f"them at a cost, higher in {totals['higher']}; {totals['undecided']} are undecided."
    )
