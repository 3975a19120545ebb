"""`scotoma tables`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["tables"]


def tables(
    run: options.FinishedRun,
    paper: Annotated[
        str,
        typer.Option(
            help="Whose tables: pie (Hooker et al. 2019), cie (Hooker et al. 2020), clarify "
            "(SageMaker), variance (Qian et al. 2021) or autoslicer (Liu et al. 2022).",
        ),
    ],
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, unrounded, one row per cell.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Print the tables of a paper from a finished audit, the published numbers beside them."""
    from scotoma.commands.tables.pages import run_tables

    run_tables(run, paper, csv=csv, markdown=markdown)
