"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FinishedRun = Annotated[
    str, typer.Argument(help="Folder of a finished audit, or s3://BUCKET/PREFIX.")
]
Table = Annotated[str, typer.Argument(help="CSV, Parquet or .npz file with one row per example.")]
Rules = Annotated[Path | None, typer.Option(help="Gate file (YAML). Default: the built-in rules.")]
AsOf = Annotated[
    str | None,
    typer.Option(help="Date on which waivers are judged, YYYY-MM-DD. Default: today."),
]
AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Allow Python code that source.model names to run."),
]
ConfidenceLevel = Annotated[
    float, typer.Option(help="Confidence level of the intervals, between 0 and 1.")
]
Json = Annotated[bool, typer.Option("--json", help="Print unrounded JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no messages.")]
