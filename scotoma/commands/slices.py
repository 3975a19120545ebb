"""The slices command, as the command line takes it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["slices"]


def slices(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet, one row an example; with --runner beam a pattern of Parquet "
            "files ('s3://BUCKET/part-*.parquet')."
        ),
    ],
    outcome: Annotated[
        list[str],
        typer.Option(
            help="Column of errors 0/1 or a loss, with --label of predictions; a pattern "
            "('int8_*') for several models."
        ),
    ],
    baseline: Annotated[
        list[str] | None, typer.Option(help="Columns of the models to compare with.")
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Each model derives from its baseline model.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="Column of the true labels.")] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that is 1, for fpr, recall, auc and their like.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="Column that may define slices, or a pattern; default all others."),
    ] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column of example ids; JSON lists those in slices.")
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
        typer.Option(help="cover (default), batch, iterative, or priority for huge searches."),
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="higher, lower, both; default the metric's worse side.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="rest or baseline: what a slice is compared with; default baseline if any."
        ),
    ] = None,
    max_cross: Annotated[int, typer.Option(help="Most conditions in a slice.", min=1, max=4)] = 3,
    min_size: Annotated[
        int | None, typer.Option(help="Fewest examples in a slice; default 30.", min=1)
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Level of corrected p-values; default 0.05.")
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="bh, by, holm, bonferroni or none; default bh.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="sound, or published: AutoSlicer's.")] = "sound",
    permutations: Annotated[
        int | None,
        typer.Option(
            help="Searches of shuffled outcomes beside the result; default 20, with --runner 5.",
            min=0,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Slices to describe.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of halves, draws and shuffles.", min=0)] = 0,
    runner: Annotated[
        str | None,
        typer.Option(help="beam: search tables that no machine holds, with the same result."),
    ] = None,
    beam_options: Annotated[
        str, typer.Option(help="Options of Apache Beam, such as '--runner=FlinkRunner ...'.")
    ] = "",
    csv: Annotated[Path | None, typer.Option(help="File for one row a slice.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, unrounded.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Find the slices nobody named on which a model, or what compression did to it, is worse."""
    from scotoma.commands.slices_search import run_slices
    from scotoma.commands.slices_table import SlicesQuestion

    question = SlicesQuestion(
        outcome=outcome, baseline=baseline or (), paired=paired, label=label, positive=positive,
        features=feature or (), identifier=identifier, cluster=cluster, metric=metric,
        mode=mode, direction=direction, reference=reference, max_cross=max_cross, min_size=min_size,
        alpha=alpha, correction=correction, protocol=protocol, permutations=permutations,
        limit=limit, seed=seed, runner=runner, beam_options=shlex.split(beam_options),
    )  # fmt: skip
    run_slices(table, question, csv=csv, as_json=as_json, quiet=quiet)
