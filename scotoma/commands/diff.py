"""`scotoma diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands import options

__all__ = ["diff"]


def diff(
    first: Annotated[
        str, typer.Argument(help="The earlier audit: a folder or s3://BUCKET/PREFIX.")
    ],
    second: Annotated[str, typer.Argument(help="The later audit.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List what got better, got worse, or is undecided between two audits."""
    from scotoma.commands.diff_runs import run_diff

    run_diff(first, second, as_json=as_json, quiet=quiet)
