"""Commands on finished audits and before a first one, as the command line takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["diff", "examples", "init", "report", "selftest", "tidy", "trend", "verify"]

Run = Annotated[str, typer.Argument(help="Folder of a finished audit, or s3://BUCKET/PREFIX.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, unrounded.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No messages.")]


def init(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet, one row an example.")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("audit.yaml"),
    label: Annotated[str | None, typer.Option(help="Column of the true labels.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column whose values are groups; repeatable.")
    ] = None,
    predictions: Annotated[
        str | None, typer.Option(help="Files of predictions: 'preds/{variant}/{model}.csv'.")
    ] = None,
    images: Annotated[str | None, typer.Option(help="Folder of the images.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a configuration from the headers of a table."""
    from scotoma.commands.init import run_init

    run_init(
        table, out=out, label=label, groups=group or (), predictions=predictions, images=images,
        as_json=as_json, quiet=quiet,
    )  # fmt: skip


def examples(
    run: Run,
    percentile: Annotated[
        float, typer.Option(help="99 lists the hundredth that diverges most.")
    ] = 99.0,
    variant: Annotated[str | None, typer.Option(help="One variant; default all.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print all as CSV, to annotate.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the examples that compression changes most: ids, labels, modal labels, votes."""
    from scotoma.commands.examples import run_examples

    run_examples(run, percentile=percentile, variant=variant, csv=csv, as_json=as_json, quiet=quiet)


def diff(
    first: Annotated[str, typer.Argument(help="The earlier run: a folder or s3://.")],
    second: Annotated[str, typer.Argument(help="The later run.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what got better, worse, or cannot be told apart between two audits."""
    from scotoma.commands.diff import run_diff

    run_diff(first, second, as_json=as_json, quiet=quiet)


def report(
    run: Run,
    no_images: Annotated[bool, typer.Option("--no-images", help="Show no image.")] = False,
    blur: Annotated[
        bool, typer.Option("--blur", help="Show images as a few squares, beyond recognition.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw report.html again, from the folder of the run alone."""
    from scotoma.commands.report import run_report

    run_report(run, no_images=no_images, blur=blur, as_json=as_json, quiet=quiet)


def selftest(
    seed: Annotated[int, typer.Option(help="Draws the audit.", min=0)] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plant bias of known size, audit it, and print planted and recovered."""
    from scotoma.commands.selftest import run_selftest

    run_selftest(seed=seed, as_json=as_json, quiet=quiet)


def verify(run: Run, as_json: Json = False, quiet: Quiet = False) -> None:
    """Compare every file of a finished run with its checksum, and name those that differ.

    Exit codes: 0 nothing differs, 2 usage, 4 a file is damaged, missing or extra, or the audit has
    not ended. Corruption is detected, not tampering.
    """
    from scotoma.commands.verify import run_verify

    run_verify(run, as_json=as_json, quiet=quiet)


def tidy(
    config: Annotated[Path, typer.Argument(help="YAML file with `retraining.keep`.")],
    runs: Annotated[
        str, typer.Option(help="Folder that holds those of the runs, or s3://BUCKET/PREFIX.")
    ] = "runs",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be deleted, delete nothing.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Delete the models and predictions of audits that `retraining.keep` no longer keeps.

    The last audit, the last that passed and any that is at work always keep theirs; numbers,
    verdicts and reports of every audit stay.
    """
    from scotoma.commands.tidy import run_tidy

    run_tidy(config, runs, dry_run=dry_run, as_json=as_json, quiet=quiet)


def trend(
    project: Annotated[str, typer.Argument(help="A project, or the YAML file of one.")],
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("trend.html"),
    runs: Annotated[
        str, typer.Option(help="Folder with mlflow.db, where no server is named.")
    ] = "runs",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the audits of a project in time, from MLflow alone: verdicts, worst groups, CIEs."""
    from scotoma.commands.trend import run_trend

    run_trend(project, out, runs, as_json=as_json, quiet=quiet)
