"""`scotoma examples`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands import options

__all__ = ["examples"]


def examples(
    run: options.FinishedRun,
    percentile: Annotated[
        float, typer.Option(help="List examples above this percentile: 99 lists the top 1%.")
    ] = 99.0,
    variant: Annotated[
        str | None, typer.Option(help="List this variant only. Default: all variants.")
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print all of them as CSV, ready to annotate.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List the examples on which compressed models differ most from dense ones."""
    from scotoma.commands.examples_choose import run_examples

    run_examples(run, percentile=percentile, variant=variant, csv=csv, as_json=as_json, quiet=quiet)
