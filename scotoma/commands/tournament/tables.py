"""What does a tournament print? Tables of signs, those of its page, and one row a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from scotoma.commands.shared.tables import number, shown
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.report.figures.figure import FigureTable
from scotoma.report.tournament import correlation_sentence
from scotoma.report.tournament_tables import TournamentResult, tournament_tables
from scotoma.runs import RunFinding, Tournament, finding_rows, table_of_runs
from scotoma.runs.finding import SIGN_WORDS

__all__ = ["as_content", "as_rows", "as_tables"]

LEGEND = (
    "Lower or higher bias; NS: not significant; then Sawilowsky's name of Cohen's d. Costs: "
    "a accuracy is lower, v accuracy varies more, b bias varies more."
)
COST_LETTERS = {"accuracy down": "a", "accuracy spread up": "v", "bias spread up": "b"}
SURVIVAL = (
    "I above 0: compression eats the mitigation. S: gain under the variant over the dense gain, "
    "undefined where the interval of the dense gain does not lie above 0.",
    "†: the baseline loses more than 2 points of accuracy there, and bias means little.",
)
EQUAL = (
    "Gain: bias of the baseline's variant minus the technique's; shown where accuracies differ by "
    "at most 1 point. Other metrics stand in --json.",
)
ONE_SEED = (
    "Runs of one seed differ by the order of sums in parallel hardware alone; where nothing "
    "differs the ratio is 0.",
)
# Slug: name, title and notes of a table of the page; the last ones are for Markdown alone.
PRINTED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "accuracy": ("Figure 3", "Accuracy and its spread against the baseline", ()),
    "totals": ("Totals", "How many cells are better, and at what cost?", ()),
    "survival": ("Survival", "What is left of the mitigation after compression", SURVIVAL),
    "equal": ("Equal accuracy", "Beside the baseline's variant of nearest accuracy", EQUAL),
    "minority": (
        "CIEs", "Do changed examples fall on the cells that training showed rarely?", ()),
    "seeds": ("One seed", "Runs of one seed beside runs of different seeds", ONE_SEED),
    "shared": (
        "Shared runs", "Techniques that decide differently on the same trained models", ()),
    "runs": ("Runs", "Every technique over its runs", ()),
    "bias": ("Cells", "Every technique in every metric", ()),
    "spread": ("Spreads", "Spread of every technique in every metric", ()),
}  # fmt: skip
DETAILS = ("runs", "bias", "spread")


def as_tables(result: TournamentResult, *, details: bool = False) -> list[PaperTable]:
    """Make the tables of a tournament.

    Args:
        result: The tournament.
        details: Whether to add a row for every cell, with intervals.
    """
    tournament = result.tournament
    tables = [
        _signs(tournament, _bias, "Figure 1", "Bias against the baseline", LEGEND),
        _signs(
            tournament, _spread, "Figure 2",
            "Spread of bias from run to run against the baseline",
            "raw, relative (divided by the mean); X: bias does not fall.",
        ),
        _signs(
            tournament, lambda cell: number(100 * cell.value("single-run risk"), 1),
            "Single-run risk",
            "Per cent of pairs (one run of the baseline, one of the technique) that point the "
            "wrong way",
            f"{_widest(tournament)} Intervals of all stand in --json and --csv.",
        ),
    ]  # fmt: skip
    made = tournament_tables(result)
    for slug, (name, title, notes) in PRINTED.items():
        if slug in made and (details or slug not in DETAILS):
            told = [*notes, *(_about_totals(result) if slug == "totals" else ())]
            tables.append(PaperTable(name=name, title=title, run=_grid(made[slug]), notes=told))
    if result.failed:
        failed = Grid("Runs", ("technique", "why"), tuple(result.failed.items()), names=1)
        title = "Techniques that could not be trained"
        tables.append(PaperTable(name="Not compared", title=title, run=failed))
    return tables


def as_rows(result: TournamentResult) -> pl.DataFrame:
    """Make one row a number, unrounded, as the rows of an audit are."""
    tournament = result.tournament
    found = {"bias": tournament.cells, "accuracy": tournament.accuracy,
             "spread": tournament.spreads}  # fmt: skip
    return finding_rows({**found, **result.beside})


def as_content(result: TournamentResult) -> dict[str, Any]:
    """Make what --json prints."""
    tournament = result.tournament
    return {
        "version": 2,
        "title": result.title,
        "protocol": tournament.protocol,
        "level": tournament.level,
        "totals": tournament.totals,
        "published_totals": result.published,
        "cells": [_said(cell) | {"verdict": cell.verdict, "costs": cell.costs}
                  for cell in tournament.cells],
        "accuracy": list(map(_said, tournament.accuracy)),
        "undefined": [
            {"technique": name, "metric": metric, "reason": reason}
            for (name, metric), reason in tournament.undefined.items()
        ],
        "rows": as_rows(result).to_dicts(),
        "runs": table_of_runs(tournament.sets).to_dicts(),
        "correlations": tournament.correlations,
        "failed": [{"technique": name, "reason": why} for name, why in result.failed.items()],
        "remarks": result.remarks,
    }  # fmt: skip


def _said(cell: RunFinding) -> dict[str, Any]:
    """The words of a comparison; its numbers are rows."""
    return {
        "technique": cell.technique, "baseline": cell.base, "metric": cell.metric,
        "effect": cell.effect, "mean_moves": cell.moves("mean"), "spread_moves": cell.spread_moves,
    }  # fmt: skip


def _grid(table: FigureTable) -> Grid:
    return Grid(table.caption, table.columns, table.rows, names=table.labels)


def _signs(
    tournament: Tournament, cell: Callable[[RunFinding], Cell], name: str, title: str, note: str
) -> PaperTable:
    """One cell a technique and metric."""
    metrics = tuple(dict.fromkeys(one.metric for one in tournament.cells))
    by_technique: dict[tuple[str, str], dict[str, Cell]] = {}
    for one in tournament.cells:
        by_technique.setdefault((one.technique, one.base), {})[one.metric] = cell(one)
    rows = tuple((*key, *map(own.get, metrics)) for key, own in by_technique.items())
    absent = "not compared in that metric; the reasons stand below Totals"
    grid = Grid("Runs", ("technique", "baseline", *metrics), rows, names=2, absent=absent)
    return PaperTable(name=name, title=title, run=grid, notes=[note])


def _bias(cell: RunFinding) -> str:
    if (moved := cell.moves("mean")) == "NS":
        return "NS"
    letters = "".join(COST_LETTERS[cost] for cost in cell.costs)
    return f"{SIGN_WORDS[moved]}, {cell.effect}{' ' * bool(letters)}{letters}"


def _spread(cell: RunFinding) -> str:
    moved = [SIGN_WORDS[cell.moves(kind)] for kind in ("raw spread", "relative spread")]
    return f"{', '.join(moved)}{' X' * (cell.moves('mean') != '-')}"


def _about_totals(result: TournamentResult) -> list[str]:
    tournament = result.tournament
    told = [f"{base}: {correlation_sentence(tournament, base)}" for base in tournament.bases]
    if unknown := tournament.totals["without_accuracy"]:
        told.append(f"{unknown} cells have no accuracy, which costs them nothing here.")
    lacking = tournament.undefined.items()
    return told + [f"{metric} of {name}: {why}." for (name, metric), why in lacking]


def _widest(tournament: Tournament) -> str:
    """Say which decided cell a single run a side would contradict most often."""
    decided = [cell for cell in tournament.cells if cell.moves("mean") != "NS"]
    if not decided:
        return "No cell is decided."
    worst = max(decided, key=lambda cell: cell.value("single-run risk"))
    risk = worst["single-run risk"]
    return (
        f"Highest where the means differ significantly: {worst.metric} of {worst.technique}, "
        f"{shown(risk, factor=100, digits=2)}%, n = {risk.n} pairs."
    )
