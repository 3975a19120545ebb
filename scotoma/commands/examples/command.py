"""`scotoma examples`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["examples"]


def examples(
    run: options.FinishedRun,
    percentile: Annotated[
        float | None,
        typer.Option(
            help="List examples above this percentile. Default: 99, the top 1%. Not with "
            "--unlabelled, which lists all that differ."
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="List this variant only. Default: all variants.")
    ] = None,
    unlabelled: Annotated[
        bool,
        typer.Option(
            "--unlabelled", help="Rank what to label first and say why; leave out known labels."
        ),
    ] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print all of them as CSV, ready to annotate.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write every CIE beside an unchanged example as pages into this folder."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List the examples on which compressed models differ most from dense ones."""
    if html is not None:
        from scotoma.commands.examples.pages import write_gallery

        others = {
            "--percentile": percentile,
            "--unlabelled": unlabelled,
            "--csv": csv,
            "--json": as_json,
        }
        write_gallery(run, html, variant, [name for name, one in others.items() if one], quiet)
        return
    from scotoma.commands.examples.choose import run_examples

    run_examples(
        run,
        percentile=percentile,
        variant=variant,
        unlabelled=unlabelled,
        csv=csv,
        as_json=as_json,
        quiet=quiet,
    )
