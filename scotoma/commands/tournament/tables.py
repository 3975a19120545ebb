"""What does a tournament print? Tables of signs, totals, and one row a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from scotoma.commands.shared.tables import number, shown
from scotoma.commands.tournament.survival import (
    equal_accuracy_table,
    minority_table,
    noted_table,
    one_seed_table,
    points_text,
    survival_table,
)
from scotoma.numbers import Estimate
from scotoma.papers.table import Cell as Shown
from scotoma.papers.table import Grid, PaperTable
from scotoma.report.numbers import p_value
from scotoma.report.tournament import TOTAL_NAMES, correlation_sentence
from scotoma.tournament import (
    AccuracyCell,
    Cell,
    OneSeedCell,
    PairedCell,
    SurvivalCell,
    Tournament,
    count_totals,
)

__all__ = ["TournamentResult", "as_content", "as_rows", "as_tables"]

LEGEND = (
    "-: lower bias, +: higher, NS: not significant; then Sawilowsky's name of Cohen's d. Costs: "
    "a accuracy is lower, v accuracy varies more, b bias varies more."
)
COST_LETTERS = {"accuracy down": "a", "accuracy spread up": "v", "bias spread up": "b"}


@dataclass(frozen=True, eq=False)
class TournamentResult:
    """Everything that a tournament shows.

    Attributes:
        title: What was compared.
        tournament: Techniques against their baselines.
        paired: Techniques that share their runs.
        survival: Cells of compressed variants.
        equal_accuracy: Rows of `scotoma.tournament.equal_accuracy`.
        minority: Rows of `cies_of_minority_cells`.
        one_seed: Runs of one seed beside runs of different seeds.
        published: Totals of the study, to stand beside; None shows none.
        aims: `TASK|METRIC` to the mark of a metric that is aimed at.
        remarks: Sentences for the reader.
        failed: Technique to why it is not compared.
    """

    title: str
    tournament: Tournament
    paired: Sequence[PairedCell]
    survival: Sequence[SurvivalCell]
    equal_accuracy: Sequence[Mapping[str, Any]]
    minority: Sequence[Mapping[str, Any]]
    one_seed: Sequence[OneSeedCell]
    published: Mapping[str, int] | None
    aims: Mapping[str, str]
    remarks: Sequence[str]
    failed: Mapping[str, str]


def as_tables(result: TournamentResult, *, details: bool = False) -> list[PaperTable]:
    """Make the tables of a tournament.

    Args:
        result: The tournament.
        details: Whether to add a row for every cell, with intervals.
    """
    tournament = result.tournament
    metrics = tuple(dict.fromkeys(cell.metric for cell in tournament.cells))
    tables = [
        noted_table(
            "Figure 1", "Bias against the baseline",
            _signs(tournament, metrics, _bias), LEGEND,
        ),
        noted_table(
            "Figure 2", "Spread of bias from run to run against the baseline",
            _signs(tournament, metrics, _spread),
            "raw, relative (divided by the mean); X: bias does not fall.",
        ),
    ]  # fmt: skip
    if tournament.accuracy:
        tables.append(_accuracy(tournament))
    risks = _signs(tournament, metrics, lambda cell: number(100 * cell.risk.value, 1))
    tables += [
        noted_table(
            "Single-run risk",
            "Per cent of pairs (one run of the baseline, one of the technique) that point the "
            "wrong way",
            risks,
            f"{_widest(tournament)} Intervals of all stand in --json and --csv.",
        ),
        _totals(result),
        *([survival_table(result.survival)] if result.survival else []),
        *([equal_accuracy_table(result.equal_accuracy)] if result.equal_accuracy else []),
        *([minority_table(result.minority)] if result.minority else []),
        *([one_seed_table(result.one_seed)] if result.one_seed else []),
        *([_paired(result.paired)] if result.paired else []),
        *([_failed(result.failed)] if result.failed else []),
    ]
    if details:
        tables += [_means(tournament), _cells(tournament)]
    return tables


def as_rows(result: TournamentResult) -> pl.DataFrame:
    """Make one row a cell, unrounded; a survival cell has rows of its own columns."""
    rows = [
        {
            "technique": cell.technique,
            "baseline": cell.base,
            "metric": cell.metric,
            "verdict": cell.verdict,
            "costs": ", ".join(cell.costs),
            "runs": len(cell.values),
            "baseline_runs": len(cell.base_values),
            **_ends("difference", cell.tests.difference),
            **_ends("cohens_d", cell.tests.cohens_d),
            "effect": cell.tests.effect,
            "u_p": cell.tests.u_p,
            "u_p_adjusted": cell.tests.u_p_adjusted,
            **_ends("raw_spread_ratio", cell.raw.spread_ratio),
            "raw_levene_p_adjusted": cell.raw.levene_p_adjusted,
            **_ends("relative_spread_ratio", cell.relative.spread_ratio),
            "relative_levene_p_adjusted": cell.relative.levene_p_adjusted,
            **_ends("single_run_risk", cell.risk),
        }
        for cell in result.tournament.cells
    ]
    rows += [
        {
            "technique": cell.technique,
            "variant": cell.variant,
            "metric": cell.metric,
            "runs": cell.seeds,
            **_ends("harm", cell.harm),
            **_ends("interaction", cell.interaction),
            "interaction_p_adjusted": cell.p_adjusted,
            "null_floor": cell.floor,
            **_ends("survival", cell.survival),
            "baseline_loss": cell.baseline_loss,
        }
        for cell in result.survival
    ]
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def as_content(result: TournamentResult) -> dict[str, Any]:
    """Make what --json prints."""
    tournament = result.tournament
    return {
        "version": 1,
        "title": result.title,
        "protocol": tournament.protocol,
        "level": tournament.level,
        "totals": asdict(count_totals(tournament.cells)),
        "published_totals": result.published,
        "cells": [
            {
                **_compared(cell),
                "metric": cell.metric,
                "verdict": cell.verdict,
                "costs": cell.costs,
                "mean_moves": cell.mean_moves,
                "spread_moves": cell.spread_moves,
                "single_run_risk": cell.risk,
                "values": cell.values,
                "baseline_values": cell.base_values,
            }
            for cell in tournament.cells
        ],
        "accuracy": [
            {**_compared(cell), "mean_moves": cell.mean_moves, "spread_moves": cell.spread_moves}
            for cell in tournament.accuracy
        ],
        "undefined": [
            {"technique": name, "metric": metric, "reason": reason}
            for (name, metric), reason in tournament.undefined.items()
        ],
        "spreads": tournament.spreads,
        "correlations": tournament.correlations,
        "paired": result.paired,
        "survival": result.survival,
        "equal_accuracy": result.equal_accuracy,
        "minority": result.minority,
        "one_seed": [
            {**vars(one), "variance_ratio": one.variance_ratio} for one in result.one_seed
        ],
        "failed": [{"technique": name, "reason": why} for name, why in result.failed.items()],
        "remarks": result.remarks,
    }


def _failed(failed: Mapping[str, str]) -> PaperTable:
    grid = Grid("Runs", ("technique", "why"), tuple(failed.items()), names=1)
    return noted_table("Not compared", "Techniques that could not be trained", grid, "")


def _compared(cell: AccuracyCell) -> dict[str, Any]:
    return {
        "technique": cell.technique,
        "baseline": cell.base,
        "raw": cell.raw,
        "relative": cell.relative,
    }


def _ends(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _signs(tournament: Tournament, metrics: tuple[str, ...], cell: Callable[[Cell], Shown]) -> Grid:
    by_technique: dict[tuple[str, str], dict[str, Shown]] = {}
    for one in tournament.cells:
        by_technique.setdefault((one.technique, one.base), {})[one.metric] = cell(one)
    rows = tuple(
        (*key, *(own.get(metric) for metric in metrics)) for key, own in by_technique.items()
    )
    return Grid("Runs", ("technique", "baseline", *metrics), rows, names=2)


def _bias(cell: Cell) -> str:
    if cell.mean_moves == "NS":
        return "NS"
    letters = "".join(COST_LETTERS[cost] for cost in cell.costs)
    return f"{cell.mean_moves}{cell.tests.effect}{' ' * bool(letters)}{letters}"


def _spread(cell: Cell) -> str:
    raw, relative = (one.variance_moves(cell.alpha) for one in (cell.raw, cell.relative))
    return f"{raw},{relative}{' X' * (cell.mean_moves != '-')}"


def _accuracy(tournament: Tournament) -> PaperTable:
    rows = tuple(
        (
            cell.technique,
            points_text(cell.tests.difference, sign="+"),
            shown(cell.tests.cohens_d, digits=1),
            p_value(cell.tests.u_p_adjusted),
            cell.mean_moves,
            cell.raw.variance_moves(cell.alpha),
            cell.relative.variance_moves(cell.alpha),
        )
        for cell in tournament.accuracy
    )
    columns = (
        "technique", "difference, points", "Cohen's d", "U p", "accuracy", "raw spread",
        "relative spread",
    )  # fmt: skip
    return noted_table("Figure 3", "Accuracy and its spread against the baseline",
                  Grid("Runs", columns, rows))  # fmt: skip


def _totals(result: TournamentResult) -> PaperTable:
    totals = asdict(count_totals(result.tournament.cells))
    columns: tuple[str, ...] = ("cells", "here")
    rows: tuple[tuple[Shown, ...], ...] = tuple(
        (words, totals[key]) for key, words in TOTAL_NAMES.items()
    )
    if result.published is not None:
        columns += ("published, 154 cells",)
        rows = tuple(
            (*row, result.published[key]) for row, key in zip(rows, TOTAL_NAMES, strict=True)
        )
    sentences = [
        f"{base}: {correlation_sentence(result.tournament, base)}"
        for base in result.tournament.bases
    ]
    unknown = totals["without_accuracy"]
    return noted_table(
        "Totals", "Cells, one technique in one metric each; costs overlap",
        Grid("Cells", columns, rows, digits=None), *sentences,
        f"{unknown} cells have no accuracy, which costs them nothing here." if unknown else "",
        *(f"{metric} of {name}: {why}." for (name, metric), why in
          result.tournament.undefined.items()),
    )  # fmt: skip


def _widest(tournament: Tournament) -> str:
    """Say which decided cell a single run a side would contradict most often."""
    decided = [cell for cell in tournament.cells if cell.mean_moves != "NS"]
    if not decided:
        return "No cell is decided."
    worst = max(decided, key=lambda cell: cell.risk.value)
    return (
        f"Highest where the means differ significantly: {worst.metric} of {worst.technique}, "
        f"{points_text(worst.risk)}%, n = {worst.risk.n} pairs."
    )


def _paired(cells: Sequence[PairedCell]) -> PaperTable:
    rows = tuple(
        (
            f"{cell.technique} - {cell.other}", cell.metric, cell.runs,
            shown(cell.difference, factor=100, digits=3, sign="+"), p_value(cell.p_adjusted),
        )
        for cell in cells
    )  # fmt: skip
    return noted_table(
        "Shared runs", "Techniques that decide differently on the same trained models, points",
        Grid("Paired over runs; p of a sign-flip test, adjusted over this table",
             ("techniques", "metric", "runs", "difference", "p"), rows, names=2, digits=None),
    )  # fmt: skip


def _means(tournament: Tournament) -> PaperTable:
    rows = tuple(
        (
            one.technique, one.metric, one.spread.runs, points_text(one.mean),
            points_text(one.spread.sigma), number(100 * one.spread.max_diff, 2),
        )
        for one in tournament.spreads
    )  # fmt: skip
    return noted_table(
        "Runs", "Every technique over its runs, points",
        Grid("Mean, standard deviation and MaxDiff",
             ("technique", "metric", "runs", "mean", "standard deviation", "MaxDiff"), rows,
             names=2, digits=None),
    )  # fmt: skip


def _cells(tournament: Tournament) -> PaperTable:
    rows = tuple(
        (
            cell.technique, cell.metric, cell.verdict, ", ".join(cell.costs) or "none",
            points_text(cell.tests.difference, sign="+"), shown(cell.tests.cohens_d, digits=1),
            p_value(cell.tests.u_p_adjusted), shown(cell.raw.spread_ratio, digits=2),
            p_value(cell.raw.levene_p_adjusted), p_value(cell.relative.levene_p_adjusted),
            points_text(cell.risk),
        )
        for cell in tournament.cells
    )  # fmt: skip
    columns = (
        "technique", "metric", "verdict", "costs", "difference", "Cohen's d", "U p",
        "ratio of spread", "raw Levene p", "relative Levene p", "single-run risk, %",
    )  # fmt: skip
    return noted_table("Cells", "Every technique in every metric, points",
                  Grid("Against the baseline", columns, rows, names=2, digits=None))  # fmt: skip
