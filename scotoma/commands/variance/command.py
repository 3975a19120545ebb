"""`scotoma variance`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["variance"]


def variance(
    table: Annotated[
        str, typer.Argument(help="CSV or Parquet file with one row per run and metric.")
    ],
    base: Annotated[
        str | None, typer.Option(help="Technique to compare the others with. Default: none.")
    ] = None,
    technique: Annotated[
        str, typer.Option(help="Column that says how a run was trained.")
    ] = "technique",
    metric: Annotated[str, typer.Option(help="Column that says what was measured.")] = "metric",
    run: Annotated[
        str, typer.Option(help="Column that tells the runs of a technique apart.")
    ] = "run",
    value: Annotated[str, typer.Option(help="Column of the measured values.")] = "value",
    class_column: Annotated[
        str | None,
        typer.Option("--class", help="Column of classes, if values are measured per class."),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="sound, or published to repeat the study's own tests.")
    ] = "sound",
    level: options.ConfidenceLevel = 0.95,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how much identical runs differ, and which techniques differ beyond that."""
    from scotoma.commands.variance.measure import run_variance
    from scotoma.run.copies import place_here

    columns = {"technique": technique, "metric": metric, "run": run, "value": value}
    if class_column is not None:
        columns["class"] = class_column
    run_variance(
        place_here(table), base, columns, protocol=protocol, level=level, as_json=as_json,
        quiet=quiet,
    )  # fmt: skip
