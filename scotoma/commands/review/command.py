"""`scotoma review`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from scotoma.commands.shared import options

__all__ = ["review"]


def review(
    run: options.FinishedRun,
    variant: Annotated[
        str | None, typer.Option(help="Compressed variant to look at. Default: the first.")
    ] = None,
    unchanged: Annotated[
        int, typer.Option(help="Unchanged examples in the random sample.", min=0)
    ] = 200,
    name: Annotated[
        str, typer.Option(help="Who reviews, kept with each verdict. Default: your user name.")
    ] = "",
    export: Annotated[
        Literal["", "labels", "to-label"],
        typer.Option(
            help="Print CSV instead of serving: `labels`, all reviewed examples with corrected "
            "labels; `to-label`, changed examples without a verdict, the most changed first."
        ),
    ] = "",
    port: Annotated[
        int, typer.Option(help="Port on this machine; 0 takes a free one.", min=0, max=65535)
    ] = 8766,
) -> None:
    """Walk through the examples that a variant changes, and say which labels are wrong.

    Verdicts are kept in RUN/reviews.parquet. To measure again with them:
    `scotoma audit --step bias --labels reviewed --out RUN`.
    """
    from scotoma.commands.review.run import export_reviews, serve_review

    if export:
        export_reviews(run, variant, export)
    else:
        serve_review(run, variant, unchanged, name, port)
