"""`scotoma slices`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["slices"]


def slices(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet file with one row per example; with --runner beam, a pattern of "
            "Parquet files ('s3://BUCKET/part-*.parquet')."
        ),
    ],
    outcome: Annotated[
        list[str],
        typer.Option(
            help="Column of errors (0 or 1), of losses or, with --label, of predictions. A pattern "
            "such as 'int8_*' names several models."
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Column, or pattern, of the models to compare with. Can be repeated."),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Each model was made from its baseline model.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="Column of the true labels.")] = None,
    positive: Annotated[
        str | None,
        typer.Option(help="The favourable label, for metrics such as fpr, recall and auc."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            help="Column, or pattern, that may define slices. Default: all other columns."
        ),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of numbers that are names, such as postal codes. Can be repeated."
        ),
    ] = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column of example ids, which --json lists for each slice."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Column of clusters: rows that belong together, such as the frames of one video."
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="error, accuracy, flip, loss, taxicab, mean, fpr, fnr, recall, precision, f1, auc."
        ),
    ] = "error",
    mode: Annotated[
        str | None,
        typer.Option(
            help="cover, batch, iterative or priority (for huge searches). Default: cover."
        ),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            help="higher, lower or both. Default: the direction that is worse for the metric."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Compare slices with rest or baseline. Default: baseline, if there is one."
        ),
    ] = None,
    max_cross: Annotated[
        int, typer.Option(help="Most conditions that define a slice.", min=1, max=4)
    ] = 3,
    min_size: Annotated[
        int | None, typer.Option(help="Fewest examples in a slice. Default: 30.", min=1)
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Significance level of corrected p-values. Default: 0.05.")
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="bh, by, holm, bonferroni or none. Default: bh.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="sound, or published to repeat AutoSlicer's own tests.")
    ] = "sound",
    bins: Annotated[
        int, typer.Option(help="Bins of a column of numbers or dates.", min=2, max=250)
    ] = 10,
    max_categories: Annotated[
        int,
        typer.Option(
            help="Values of a column that get a condition each; all others share one.",
            min=1,
            max=250,
        ),
    ] = 100,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            help="Draws of the bootstrap, where p-values come from one. Default: 200; published: "
            "20.",
            min=2,
        ),
    ] = None,
    max_candidates: Annotated[
        int | None,
        typer.Option(
            help="Most candidate slices of a search, beyond which it is refused; in mode priority "
            "of an iteration. Default: 100,000,000; priority: 12% of all.",
            min=1,
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Iterations of mode priority. Default: 5.", min=1)
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="Which slices mode priority divides first: p-value, breadth-first or random. "
            "Default: p-value."
        ),
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(
            help="Searches in shuffled outcomes, for comparison. Default: 20; with --runner 5.",
            min=0,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="Number of slices to print; --json and --csv hold all.", min=1)
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", min=0)] = 0,
    runner: Annotated[
        str | None,
        typer.Option(help="beam: search tables larger than one machine, with the same result."),
    ] = None,
    beam_options: Annotated[
        str, typer.Option(help="Options of Apache Beam, such as '--runner=FlinkRunner ...'.")
    ] = "",
    csv: Annotated[
        Path | None, typer.Option(help="CSV file to write, with one row for every slice.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find slices on which a model is worse, or on which compression harms it more."""
    from scotoma.commands.slices.search import run_slices, settings_of
    from scotoma.commands.slices.table import SlicesQuestion

    settings = settings_of(
        runner=runner, compared=bool(baseline), metric=metric, mode=mode, direction=direction,
        reference=reference, paired=paired, max_cross=max_cross, min_size=min_size, alpha=alpha,
        correction=correction, protocol=protocol, permutations=permutations, limit=limit, seed=seed,
        bins=bins, max_categories=max_categories, bootstrap=bootstrap,
        max_candidates=max_candidates, iterations=iterations, order=order,
    )  # fmt: skip
    question = SlicesQuestion(
        outcome=outcome, baseline=baseline or (), label=label, positive=positive,
        features=feature or (), categorical=categorical or (), identifier=identifier,
        cluster=cluster, runner=runner, beam_options=shlex.split(beam_options), settings=settings,
    )  # fmt: skip
    run_slices(table, question, csv=csv, as_json=as_json, quiet=quiet)
