"""One page of a tournament: techniques against their baselines, every cell, every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from scotoma.numbers import Estimate
from scotoma.report import numbers
from scotoma.report.figures.drawing import drawn
from scotoma.report.figures.tournament import estimate_text, tournament_figures
from scotoma.report.page import FOLDER, STYLES, content_policy, environment
from scotoma.tournament import (
    OneSeedCell,
    PairedCell,
    SurvivalCell,
    Totals,
    Tournament,
    count_totals,
)

__all__ = ["TOTAL_NAMES", "correlation_sentence", "headline_metric", "render_tournament"]

SCRIPTS = ("vendor/vega.js", "figures.js")
TOTAL_NAMES = {
    "cells": "cells",
    "lower": "bias lower",
    "higher": "bias higher",
    "undecided": "undecided",
    "huge": "lower, a huge effect",
    "with_cost": "lower, at a cost",
    "bias_spread_up": "lower, bias spread up",
    "accuracy_down": "lower, accuracy down",
    "accuracy_spread_up": "lower, its spread up",
    "all_three": "lower, all three costs",
}


def render_tournament(
    title: str,
    tournament: Tournament,
    *,
    aims: Mapping[str, str],
    published: Mapping[str, int] | None = None,
    paired: Sequence[PairedCell] = (),
    survival: Sequence[SurvivalCell] = (),
    equal_accuracy: Sequence[Mapping[str, Any]] = (),
    minority: Sequence[Mapping[str, Any]] = (),
    one_seed: Sequence[OneSeedCell] = (),
    remarks: Sequence[str] = (),
) -> str:
    """Render a tournament as one HTML file, by the rules of the report of an audit.

    Args:
        title: What was compared.
        tournament: The cells.
        aims: As for `tournament_figures`.
        published: Totals of the study, to stand beside; None shows none.
        paired: Techniques that share their runs.
        survival: Cells of compressed variants.
        equal_accuracy: Rows of `scotoma.tournament.equal_accuracy`; those of the metric that
            `headline_metric` chooses are shown.
        minority: CIEs of each technique and variant in the cells that training showed rarely.
        one_seed: Runs of one seed beside runs of different seeds.
        remarks: Sentences to say at the top.

    Returns:
        The page; equal inputs give equal text.
    """
    plots = tournament_figures(tournament, aims, survival)
    styles, scripts = (
        [(FOLDER / name).read_text(encoding="utf-8") for name in names]
        for names in (STYLES, SCRIPTS)
    )
    totals = count_totals(tournament.cells)
    return (
        environment()
        .get_template("tournament.html")
        .render(
            title=title,
            tournament=tournament,
            lead=_lead(totals),
            remarks=remarks,
            totals=[
                (words, getattr(totals, key), published.get(key, "") if published else "")
                for key, words in TOTAL_NAMES.items()
            ],
            published=published is not None,
            techniques=[
                (name, list(cells))
                for name, cells in groupby(tournament.cells, key=lambda cell: cell.technique)
            ],
            correlations=[
                (base, correlation_sentence(tournament, base), one)
                for base, one in tournament.correlations.items()
            ],
            paired=paired,
            equal_accuracy=[
                row
                for row in equal_accuracy
                if row["metric"] == headline_metric(one["metric"] for one in equal_accuracy)
            ],
            minority=minority,
            one_seed=one_seed,
            text=_text,
            figures={slug: drawn(plot) for slug, plot in plots.items()},
            policy=Markup(content_policy(styles, scripts)),
            styles=list(map(Markup, styles)),
            scripts=list(map(Markup, scripts)),
        )
    )


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


def headline_metric(metrics: Iterable[str]) -> str:
    """Choose the metric of short tables: bias amplification, the study's aim on CIFAR-10S.

    >>> headline_metric(["DP", "BA"]), headline_metric(["DP", "EOTP"])
    ('BA', 'DP')
    """
    known = list(metrics)
    return "BA" if "BA" in known else known[0]


def _text(estimate: Estimate, kind: str) -> str:
    """An estimate with its interval, as one of `numbers` writes it."""
    return estimate_text(estimate, getattr(numbers, kind))


def _lead(totals: Totals) -> str:
    return (
        f"Bias is lower in {totals.lower} of {totals.cells} cells, {totals.with_cost} of them at a "
        f"cost, higher in {totals.higher}; {totals.undecided} are undecided."
    )
